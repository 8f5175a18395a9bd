package penstock;

import org.apache.kafka.connect.util.Callback;

/** Answers an order when a call of Kafka Connect's has ended. */
class HostAnswer implements Callback {
    private final HostWire wire;
    private final int order;

    HostAnswer(HostWire wire, int order) {
        this.wire = wire;
        this.order = order;
    }

    public void onCompletion(Throwable error, Object result) {
        if (error != null) {
            wire.refuse(order, error);
        } else {
            wire.answer(order, result);
        }
    }
}

package penstock;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Asks the worker whether an exactly-once task may still start, now that its producer has fenced its
 * predecessor's (KIP-618). Blocks the task's thread until the worker has answered.
 */
class HostCheck implements Runnable {
    private final HostWire wire;
    private final ConnectorTaskId task;
    private final int run;
    private final CountDownLatch answered = new CountDownLatch(1);
    private volatile String refusal = null;

    HostCheck(HostWire wire, ConnectorTaskId task, int run) {
        this.wire = wire;
        this.task = task;
        this.run = run;
    }

    public void run() {
        ObjectNode event = HostWire.event("producerReady");
        event.put("connector", task.connector());
        event.put("task", task.task());
        event.put("run", run);
        wire.send(event);
        try {
            answered.await();
        } catch (InterruptedException e) {
            throw new ConnectException("interrupted before the task could start", e);
        }
        if (refusal != null) {
            throw new ConnectException(refusal);
        }
    }

    /** The worker's answer; null: the task may start. */
    void answer(String refused) {
        refusal = refused;
        answered.countDown();
    }
}

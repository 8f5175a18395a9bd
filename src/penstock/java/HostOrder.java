package penstock;

import com.fasterxml.jackson.databind.JsonNode;

/** One order, carried out in a thread of its own: a plugin may block in any of them. */
class HostOrder implements Runnable {
    private final JavaHost host;
    private final JsonNode order;

    HostOrder(JavaHost host, JsonNode order) {
        this.host = host;
        this.order = order;
    }

    public void run() {
        host.obey(order);
    }
}

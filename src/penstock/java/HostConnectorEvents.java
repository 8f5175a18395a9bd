package penstock;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.connect.runtime.ConnectorStatus;

/** Reports the failures of one run of a connector; its owner knows what it ordered itself. */
class HostConnectorEvents implements ConnectorStatus.Listener {
    private final HostWire wire;
    private final int run;

    HostConnectorEvents(HostWire wire, int run) {
        this.wire = wire;
        this.run = run;
    }

    public void onFailure(String connector, Throwable error) {
        ObjectNode event = HostWire.event("connectorFailed");
        event.put("connector", connector);
        event.put("run", run);
        event.set("error", HostWire.described(error));
        wire.send(event);
    }

    public void onStartup(String connector) { }

    public void onPause(String connector) { }

    public void onResume(String connector) { }

    public void onStop(String connector) { }

    public void onShutdown(String connector) { }

    public void onDeletion(String connector) { }

    public void onRestart(String connector) { }
}

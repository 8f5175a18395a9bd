package penstock;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.CloseableConnectorContext;

/** The context of one run of a connector: its requests go to the worker, until it is stopped. */
class HostContext implements CloseableConnectorContext {
    private final HostWire wire;
    private final String connector;
    private final int run;
    private final PluginMetricsImpl metrics;
    private volatile boolean closed = false;

    HostContext(HostWire wire, String connector, int run, PluginMetricsImpl metrics) {
        this.wire = wire;
        this.connector = connector;
        this.run = run;
        this.metrics = metrics;
    }

    public void requestTaskReconfiguration() {
        if (closed) {
            throw new ConnectException(
                "Cannot request task reconfiguration: connector " + connector + " has been stopped");
        }
        ObjectNode event = HostWire.event("reconfigure");
        event.put("connector", connector);
        event.put("run", run);
        wire.send(event);
    }

    /** The connector's status listener has reported the error by now. */
    public void raiseError(Exception error) {
        if (closed) {
            throw new ConnectException(
                "Cannot raise an error: connector " + connector + " has been stopped", error);
        }
    }

    public PluginMetrics pluginMetrics() {
        return metrics;
    }

    public void close() {
        Utils.closeQuietly(metrics, "the metrics of connector " + connector);
        closed = true;
    }
}

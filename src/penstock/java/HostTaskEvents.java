package penstock;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.connect.runtime.TaskStatus;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Reports that one run of a task has started, or failed; its owner knows what it ordered itself. */
class HostTaskEvents implements TaskStatus.Listener {
    private final HostWire wire;
    private final int run;

    HostTaskEvents(HostWire wire, int run) {
        this.wire = wire;
        this.run = run;
    }

    public void onStartup(ConnectorTaskId task) {
        wire.send(about("taskStarted", task));
    }

    public void onFailure(ConnectorTaskId task, Throwable error) {
        ObjectNode event = about("taskFailed", task);
        event.set("error", HostWire.described(error));
        wire.send(event);
    }

    public void onPause(ConnectorTaskId task) { }

    public void onResume(ConnectorTaskId task) { }

    public void onShutdown(ConnectorTaskId task) { }

    public void onDeletion(ConnectorTaskId task) { }

    public void onRestart(ConnectorTaskId task) { }

    private ObjectNode about(String what, ConnectorTaskId task) {
        ObjectNode event = HostWire.event(what);
        event.put("connector", task.connector());
        event.put("task", task.task());
        event.put("run", run);
        return event;
    }
}

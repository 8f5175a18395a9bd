package penstock;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Iterator;
import java.util.Map;

/** Reports which thread ends the host by `System.exit`, as the host itself never does. */
class HostExit extends Thread {
    private final HostWire wire;

    HostExit(HostWire wire) {
        super("host-exit");
        this.wire = wire;
    }

    public void run() {
        Iterator threads = Thread.getAllStackTraces().entrySet().iterator();
        while (threads.hasNext()) {
            Map.Entry entry = (Map.Entry) threads.next();
            StackTraceElement[] stack = (StackTraceElement[]) entry.getValue();
            for (int i = 0; i < stack.length; i++) {
                boolean exits = stack[i].getClassName().equals("java.lang.Runtime")
                    && stack[i].getMethodName().equals("exit");
                if (exits) {
                    report(((Thread) entry.getKey()).getName(), stack, i + 1);
                    return;
                }
            }
        }
    }

    private void report(String thread, StackTraceElement[] stack, int from) {
        StringBuilder trace = new StringBuilder();
        for (int i = from; i < stack.length; i++) {
            trace.append("\n\tat ").append(stack[i]);
        }
        ObjectNode event = HostWire.event("exiting");
        event.put("thread", thread);
        event.put("trace", trace.toString());
        wire.send(event);
    }
}

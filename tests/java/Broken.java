package suite;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceTask;

/** A source without records, which fails where `throw` says. */
public class Broken extends SourceConnector {
    static final ConfigDef CONFIG = new ConfigDef().define(
        "throw", ConfigDef.Type.STRING, "", ConfigDef.Importance.HIGH, "Where to fail.");

    private Map config;

    public void start(Map config) {
        this.config = config;
        if ("connector".equals(config.get("throw"))) {
            throw new ConnectException("broken in connector");
        }
        if ("reconfigure".equals(config.get("throw"))) {
            context.requestTaskReconfiguration();
        }
    }

    public Class taskClass() {
        return Broken.Task.class;
    }

    public List taskConfigs(int maxTasks) {
        return Collections.singletonList(config);
    }

    public void stop() { }

    public ConfigDef config() {
        return CONFIG;
    }

    public String version() {
        return "0.1";
    }

    public static class Task extends SourceTask {
        private String point = "";

        public void start(Map config) {
            point = String.valueOf(config.get("throw"));
            if (point.equals("start")) {
                throw new ConnectException("broken in start");
            }
        }

        public List poll() throws InterruptedException {
            if (point.equals("poll")) {
                throw new ConnectException("broken in poll");
            }
            if (point.equals("exit")) {
                System.exit(5);
            }
            if (point.equals("memory")) {
                List leak = new ArrayList();
                while (true) {
                    leak.add(new byte[1 << 20]);
                }
            }
            Thread.sleep(50L);
            return null;
        }

        public void stop() { }

        public String version() {
            return "0.1";
        }
    }
}

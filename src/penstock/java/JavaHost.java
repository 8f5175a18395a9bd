// Compiled by Janino, so without generics, and without classes that capture variables.
package penstock;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorType;
import org.apache.kafka.connect.runtime.standalone.StandaloneHerder;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.KafkaOffsetBackingStore;
import org.apache.kafka.connect.util.ConnectUtils;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.util.SharedTopicAdmin;

/**
 * A host of Java plugins: Kafka Connect's own `Worker`, which does what a penstock worker orders.
 * The worker decides; nothing here starts, restarts or moves anything by itself.
 */
class JavaHost {
    static final int WORKER_GONE = 0;

    private static final int BAD_START = 2;
    private static final String INTERNAL_CONVERTER = "org.apache.kafka.connect.json.JsonConverter";
    private static final String PLAIN_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter";
    private static final String PLAIN_HEADER_CONVERTER =
        "org.apache.kafka.connect.storage.SimpleHeaderConverter";
    private static final String OVERRIDE_POLICY = "connector.client.config.override.policy";

    private final HostWire wire;
    private final Map checks = new ConcurrentHashMap(); // "task/run" -> HostCheck
    private final Map missing = new ConcurrentHashMap(); // setting -> class of the worker's, not here
    private volatile Plugins plugins = null;
    private volatile Worker worker = null;
    private StandaloneHerder herder = null; // never started: it answers validations

    private JavaHost(HostWire wire) {
        this.wire = wire;
    }

    /** Serves the worker that listens at the path of a socket, until it closes the connection. */
    public static void main(String[] args) {
        HostWire wire = null;
        try {
            wire = new HostWire(args[0]);
        } catch (IOException e) {
            e.printStackTrace();
            end(BAD_START);
        }
        Runtime.getRuntime().addShutdownHook(new HostExit(wire));
        new JavaHost(wire).serve();
        end(WORKER_GONE);
    }

    /** Ends the process at once, without shutdown hooks. */
    static void end(int code) {
        Runtime.getRuntime().halt(code);
    }

    private void serve() {
        try {
            JsonNode order = wire.read();
            while (order != null) {
                Thread thread = new Thread(new HostOrder(this, order), "order-" + order.get("id").asInt());
                thread.setDaemon(true);
                thread.start();
                order = wire.read();
            }
        } catch (IOException e) {
            // the worker has gone
        }
    }

    void obey(JsonNode order) {
        int id = order.get("id").asInt();
        Plugins loaded = plugins;
        if (loaded != null) {
            loaded.compareAndSwapWithDelegatingLoader();
        }
        try {
            perform(id, order.get("do").asText(), order);
        } catch (Throwable e) {
            wire.refuse(id, e);
        }
    }

    private void perform(int id, String what, JsonNode order) throws Exception {
        if (what.equals("find")) {
            wire.answer(id, new HostPlugins(new Plugins(strings(order.get("worker")))).list());
        } else if (what.equals("open")) {
            open(order);
            wire.answer(id, null);
        } else if (what.equals("validate")) {
            herder.validateConnectorConfig(strings(order.get("config")), new HostAnswer(wire, id), false);
        } else if (what.equals("startConnector")) {
            startConnector(id, order);
        } else if (what.equals("stopConnector")) {
            worker.stopAndAwaitConnector(name(order));
            wire.answer(id, null);
        } else if (what.equals("taskConfigs")) {
            wire.answer(id, taskConfigs(name(order), strings(order.get("config"))));
        } else if (what.equals("startTask")) {
            wire.answer(id, Boolean.valueOf(startTask(order)));
        } else if (what.equals("allowStart")) {
            HostCheck check = (HostCheck) checks.remove(checkOf(task(order), order));
            if (check != null) {
                check.answer(order.get("refusal").isNull() ? null : order.get("refusal").asText());
            }
            wire.answer(id, null);
        } else if (what.equals("stopTask")) {
            worker.stopAndAwaitTask(task(order));
            checks.remove(checkOf(task(order), order));
            wire.answer(id, null);
        } else if (what.equals("offsets")) {
            worker.connectorOffsets(name(order), strings(order.get("config")), new HostAnswer(wire, id));
        } else if (what.equals("alterOffsets")) {
            Map offsets = order.get("offsets").isNull() ? null : offsets(order.get("offsets"));
            worker.modifyConnectorOffsets(
                name(order), strings(order.get("config")), offsets, new HostAnswer(wire, id));
        } else if (what.equals("close")) {
            worker.stop();
            wire.answer(id, null);
        } else {
            throw new IllegalArgumentException("unknown order " + what);
        }
    }

    /** Starts Kafka Connect's worker, as its `ConnectDistributed` does. */
    private void open(JsonNode order) throws Exception {
        Map settings = strings(order.get("worker"));
        Plugins found = new Plugins(settings);
        found.compareAndSwapWithDelegatingLoader();
        replaceMissing(found, settings, "key.converter", PLAIN_CONVERTER);
        replaceMissing(found, settings, "value.converter", PLAIN_CONVERTER);
        replaceMissing(found, settings, "header.converter", PLAIN_HEADER_CONVERTER);
        DistributedConfig config = new DistributedConfig(settings);
        String clients = ConnectUtils.clientIdBase(config);
        Map admin = new HashMap(config.originals());
        ConnectUtils.addMetricsContextProperties(admin, config, order.get("kafkaCluster").asText());
        admin.put("client.id", clients + "java-shared-admin");
        Map plain = Collections.singletonMap("schemas.enable", "false");
        Converter converter = found.newInternalConverter(true, INTERNAL_CONVERTER, plain);
        KafkaOffsetBackingStore offsets = new KafkaOffsetBackingStore(
            new SharedTopicAdmin(admin), new HostName(clients + "java-"), converter);
        offsets.configure(config);
        ConnectorClientConfigOverridePolicy policy = (ConnectorClientConfigOverridePolicy) found.newPlugin(
            config.getString(OVERRIDE_POLICY), config, ConnectorClientConfigOverridePolicy.class);
        Worker made = new Worker(
            order.get("workerId").asText(), Time.SYSTEM, found, config, offsets, policy);
        herder = new StandaloneHerder(made, order.get("kafkaCluster").asText(), policy);
        made.start();
        plugins = found;
        worker = made;
    }

    /** A worker's converter that is written in Python: connectors have to set another one here. */
    private void replaceMissing(Plugins found, Map settings, String setting, String plain) {
        String name = (String) settings.get(setting);
        if (name == null) {
            return;
        }
        try {
            found.pluginClass(name);
        } catch (ClassNotFoundException e) {
            missing.put(setting, name);
            settings.put(setting, plain);
        }
    }

    private void checkConverters(Map config) {
        Iterator each = missing.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            if (config.get(entry.getKey()) == null) {
                throw new ConnectException("The worker's " + entry.getKey() + ", " + entry.getValue()
                    + ", is not written in Java. Set " + entry.getKey()
                    + " of this connector to a class that is, or add its jar to plugin.path.");
            }
        }
    }

    private void startConnector(int id, JsonNode order) {
        String name = name(order);
        int run = order.get("run").asInt();
        checkConverters(strings(order.get("config")));
        HostContext context =
            new HostContext(wire, name, run, worker.metrics().connectorPluginMetrics(name));
        worker.startConnector(name, strings(order.get("config")), context,
            new HostConnectorEvents(wire, run), TargetState.STARTED, new HostAnswer(wire, id));
    }

    private List taskConfigs(String name, Map config) {
        ConnectorConfig parsed;
        if (worker.isSinkConnector(name)) {
            parsed = new SinkConnectorConfig(plugins, config);
        } else {
            parsed = new SourceConnectorConfig(plugins, config, worker.isTopicCreationEnabled());
        }
        return worker.connectorTaskConfigs(name, parsed);
    }

    private boolean startTask(JsonNode order) {
        ConnectorTaskId task = task(order);
        int run = order.get("run").asInt();
        Map config = strings(order.get("config"));
        Map own = strings(order.get("taskConfig"));
        checkConverters(config);
        ClusterConfigState state = state(task, config, own);
        HostTaskEvents events = new HostTaskEvents(wire, run);
        if (herder.connectorType(config) == ConnectorType.SINK) {
            return worker.startSinkTask(task, state, config, own, events, TargetState.STARTED);
        }
        if (!order.get("exactlyOnce").asBoolean()) {
            return worker.startSourceTask(task, state, config, own, events, TargetState.STARTED);
        }
        HostCheck check = new HostCheck(wire, task, run);
        checks.put(checkOf(task, order), check);
        return worker.startExactlyOnceSourceTask(
            task, state, config, own, events, TargetState.STARTED, new HostNothing(), check);
    }

    /** What the runtime reads of the cluster's configuration for a task: its connector's. */
    private static ClusterConfigState state(ConnectorTaskId task, Map config, Map own) {
        String name = task.connector();
        return new ClusterConfigState(
            0L,
            null,
            Collections.singletonMap(name, Integer.valueOf(task.task() + 1)),
            Collections.singletonMap(name, config),
            Collections.singletonMap(name, TargetState.STARTED),
            Collections.singletonMap(task, own),
            Collections.emptyMap(),
            Collections.emptyMap(),
            Collections.emptyMap(),
            Collections.emptySet(),
            Collections.emptySet());
    }

    private static Map offsets(JsonNode pairs) {
        Map offsets = new LinkedHashMap();
        Iterator each = pairs.iterator();
        while (each.hasNext()) {
            JsonNode pair = (JsonNode) each.next();
            offsets.put(map(pair.get("partition")), map(pair.get("offset")));
        }
        return offsets;
    }

    private static Map map(JsonNode node) {
        return node.isNull() ? null : (Map) HostWire.JSON.convertValue(node, Map.class);
    }

    private static Map strings(JsonNode node) {
        Map strings = new LinkedHashMap();
        Iterator fields = node.fields();
        while (fields.hasNext()) {
            Map.Entry field = (Map.Entry) fields.next();
            JsonNode value = (JsonNode) field.getValue();
            strings.put(field.getKey(), value.isNull() ? null : value.asText());
        }
        return strings;
    }

    private static String name(JsonNode order) {
        return order.get("connector").asText();
    }

    private static ConnectorTaskId task(JsonNode order) {
        return new ConnectorTaskId(name(order), order.get("task").asInt());
    }

    private static String checkOf(ConnectorTaskId task, JsonNode order) {
        return task + "/" + order.get("run").asInt();
    }
}

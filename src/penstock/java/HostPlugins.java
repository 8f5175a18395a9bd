package penstock;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.Iterator;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** What `plugin.path` holds: each plugin's class, kind, version, place and settings. */
class HostPlugins {
    private final Plugins plugins;

    HostPlugins(Plugins plugins) {
        this.plugins = plugins;
    }

    ArrayNode list() {
        ArrayNode rows = JsonNodeFactory.instance.arrayNode();
        add(rows, plugins.sinkConnectors());
        add(rows, plugins.sourceConnectors());
        add(rows, plugins.transformations());
        add(rows, plugins.predicates());
        add(rows, plugins.converters());
        add(rows, plugins.headerConverters());
        return rows;
    }

    private void add(ArrayNode rows, Collection found) {
        Iterator each = found.iterator();
        while (each.hasNext()) {
            PluginDesc plugin = (PluginDesc) each.next();
            ObjectNode row = rows.addObject();
            row.put("class", plugin.className());
            row.put("type", plugin.typeName());
            row.put("version", plugin.version());
            row.put("location", plugin.location());
            describe(plugin, row);
        }
    }

    /** Adds a plugin's settings, or why it cannot be created: one broken plugin hides no other. */
    private void describe(PluginDesc plugin, ObjectNode row) {
        LoaderSwap swap = plugins.withClassLoader(plugin.loader());
        try {
            Object made = plugin.pluginClass().getDeclaredConstructor(new Class[0]).newInstance(new Object[0]);
            if (made instanceof Connector) {
                Class task = ((Connector) made).taskClass();
                row.put("taskClass", task == null ? null : task.getName());
            }
            ArrayNode keys = row.putArray("config");
            ConfigDef definition = definition(made);
            Iterator each = definition.configKeys().values().iterator();
            while (each.hasNext()) {
                ConfigDef.ConfigKey key = (ConfigDef.ConfigKey) each.next();
                keys.addPOJO(AbstractHerder.convertConfigKey(key));
            }
        } catch (Throwable e) {
            row.remove("config");
            row.set("error", HostWire.described(e));
        } finally {
            swap.close();
        }
    }

    private static ConfigDef definition(Object plugin) {
        ConfigDef definition = null;
        if (plugin instanceof Connector) {
            definition = ((Connector) plugin).config();
        } else if (plugin instanceof Transformation) {
            definition = ((Transformation) plugin).config();
        } else if (plugin instanceof Predicate) {
            definition = ((Predicate) plugin).config();
        } else if (plugin instanceof HeaderConverter) {
            definition = ((HeaderConverter) plugin).config();
        } else if (plugin instanceof Converter) {
            definition = ((Converter) plugin).config();
        }
        return definition == null ? new ConfigDef() : definition;
    }
}

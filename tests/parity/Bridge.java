package penstock;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Kafka Connect's classes, driven by JSON in the form that typed.py describes.
 *
 * Compiled inside the JVM by Janino, which knows no type parameters, hence the casts.
 */
public class Bridge {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    // Janino takes these methods to return what an interface above declares, a TreeNode.

    private static JsonNode at(JsonNode node, String name) {
        return (JsonNode) node.get(name);
    }

    private static JsonNode at(JsonNode node, int index) {
        return (JsonNode) node.get(index);
    }

    private static JsonNode parse(String text) throws Exception {
        return (JsonNode) MAPPER.readTree(text);
    }

    // Schemas and values

    public static Schema schema(JsonNode node) {
        if (node == null || node.isNull()) return null;
        String kind = node.isTextual() ? node.asText() : at(node, "type").asText();
        boolean optional = kind.endsWith("?");
        String name = optional ? kind.substring(0, kind.length() - 1) : kind;
        Schema.Type type = Schema.Type.valueOf(name);
        SchemaBuilder builder;
        if (type == Schema.Type.MAP) {
            builder = SchemaBuilder.map(schema(at(node, "keys")), schema(at(node, "values")));
        } else if (type == Schema.Type.ARRAY) {
            builder = SchemaBuilder.array(schema(at(node, "values")));
        } else {
            builder = new SchemaBuilder(type);
        }
        if (optional) builder.optional();
        if (node.has("name")) builder.name(at(node, "name").asText());
        if (node.has("version")) builder.version(Integer.valueOf(at(node, "version").asInt()));
        if (node.has("doc")) builder.doc(at(node, "doc").asText());
        if (node.has("parameters")) {
            Iterator names = at(node, "parameters").fieldNames();
            while (names.hasNext()) {
                String parameter = (String) names.next();
                builder.parameter(parameter, at(at(node, "parameters"), parameter).asText());
            }
        }
        if (node.has("fields")) {
            for (int i = 0; i < at(node, "fields").size(); i++) {
                JsonNode field = at(at(node, "fields"), i);
                builder.field(at(field, 0).asText(), schema(at(field, 1)));
            }
        }
        // A default struct is of the builder itself: that is what the builder compares it with.
        if (node.has("default")) builder.defaultValue(value(at(node, "default"), builder));
        return builder.build();
    }

    public static JsonNode schemaNode(Schema schema) {
        if (schema == null) return NODES.nullNode();
        ObjectNode node = NODES.objectNode();
        String kind = schema.type().name() + (schema.isOptional() ? "?" : "");
        node.put("type", kind);
        if (schema.defaultValue() != null) {
            node.set("default", valueNode(schema.defaultValue(), schema));
        }
        if (schema.name() != null) node.put("name", schema.name());
        if (schema.version() != null) node.put("version", schema.version().intValue());
        if (schema.doc() != null) node.put("doc", schema.doc());
        if (schema.parameters() != null) {
            ObjectNode parameters = node.putObject("parameters");
            Iterator entries = schema.parameters().entrySet().iterator();
            while (entries.hasNext()) {
                Map.Entry entry = (Map.Entry) entries.next();
                parameters.put((String) entry.getKey(), (String) entry.getValue());
            }
        }
        if (schema.type() == Schema.Type.MAP && schema.keySchema() != null) {
            node.set("keys", schemaNode(schema.keySchema()));
        }
        if (schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY) {
            if (schema.valueSchema() != null) node.set("values", schemaNode(schema.valueSchema()));
        }
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = node.putArray("fields");
            Iterator each = schema.fields().iterator();
            while (each.hasNext()) {
                Field field = (Field) each.next();
                fields.addArray().add(field.name()).add(schemaNode(field.schema()));
            }
        }
        return node.size() == 1 ? (JsonNode) NODES.textNode(kind) : (JsonNode) node;
    }

    public static Object value(JsonNode node, Schema schema) {
        if (node == null || node.isNull()) return null;
        if (node.isBoolean()) return Boolean.valueOf(node.asBoolean());
        if (node.isTextual()) return node.asText();
        if (node.isIntegralNumber()) return Long.valueOf(node.asLong());
        boolean mapped = schema != null && schema.type() == Schema.Type.MAP;
        boolean listed = schema != null && schema.type() == Schema.Type.ARRAY;
        Schema ofValue = mapped || listed ? schema.valueSchema() : null;
        if (node.isArray()) {
            List list = new ArrayList();
            for (int i = 0; i < node.size(); i++) list.add(value(at(node, i), ofValue));
            return list;
        }
        if (node.has("struct")) {
            Schema own = node.has("schema") ? schema(at(node, "schema")) : schema;
            Struct struct = new Struct(own);
            Iterator names = at(node, "struct").fieldNames();
            while (names.hasNext()) {
                String name = (String) names.next();
                Field field = own.field(name);
                struct.put(name, value(at(at(node, "struct"), name), field.schema()));
            }
            return struct;
        }
        String tag = (String) node.fieldNames().next();
        JsonNode content = at(node, tag);
        if (tag.equals("i8")) return Byte.valueOf((byte) content.asInt());
        if (tag.equals("i16")) return Short.valueOf((short) content.asInt());
        if (tag.equals("i32")) return Integer.valueOf(content.asInt());
        if (tag.equals("f32")) return Float.valueOf(content.asText());
        if (tag.equals("f64")) return Double.valueOf(content.asText());
        if (tag.equals("bytes")) return Base64.getDecoder().decode(content.asText());
        if (tag.equals("decimal")) return new BigDecimal(content.asText());
        if (tag.equals("bigint")) return new BigInteger(content.asText());
        if (tag.equals("date")) return new Date(content.asLong());
        if (tag.equals("map")) {
            Map map = new HashMap();
            for (int i = 0; i < content.size(); i++) {
                JsonNode entry = at(content, i);
                Schema ofKey = mapped ? schema.keySchema() : null;
                map.put(value(at(entry, 0), ofKey), value(at(entry, 1), ofValue));
            }
            return map;
        }
        throw new IllegalArgumentException("Not a value: " + node);
    }

    private static boolean same(Schema one, Schema other) {
        // The schema of a default struct is a builder, which equals nothing but itself.
        if (one == other || one.equals(other)) return true;
        if (one instanceof SchemaBuilder) one = ((SchemaBuilder) one).build();
        if (other == null || one.type() != other.type()) return false;
        return one.fields().equals(other.fields()) && Objects.equals(one.name(), other.name());
    }

    private static JsonNode tagged(String tag, JsonNode content) {
        ObjectNode node = NODES.objectNode();
        node.set(tag, content);
        return node;
    }

    private static JsonNode tagged(String tag, String content) {
        return tagged(tag, (JsonNode) NODES.textNode(content));
    }

    public static JsonNode valueNode(Object value, Schema schema) {
        if (value == null) return NODES.nullNode();
        if (value instanceof Boolean) return NODES.booleanNode(((Boolean) value).booleanValue());
        if (value instanceof String) return NODES.textNode((String) value);
        if (value instanceof Long) return NODES.numberNode(((Long) value).longValue());
        if (value instanceof Byte || value instanceof Short || value instanceof Integer) {
            String tag = value instanceof Byte ? "i8" : value instanceof Short ? "i16" : "i32";
            return tagged(tag, NODES.numberNode(((Number) value).intValue()));
        }
        if (value instanceof Float) return tagged("f32", value.toString());
        if (value instanceof Double) return tagged("f64", value.toString());
        if (value instanceof BigDecimal) return tagged("decimal", value.toString());
        if (value instanceof BigInteger) return tagged("bigint", value.toString());
        if (value instanceof Date) return tagged("date", NODES.numberNode(((Date) value).getTime()));
        if (value instanceof byte[]) {
            return tagged("bytes", Base64.getEncoder().encodeToString((byte[]) value));
        }
        if (value instanceof ByteBuffer) {
            ByteBuffer buffer = (ByteBuffer) ((ByteBuffer) value).duplicate();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return tagged("bytes", Base64.getEncoder().encodeToString(bytes));
        }
        if (value instanceof Struct) {
            Struct struct = (Struct) value;
            ObjectNode fields = NODES.objectNode();
            Iterator each = struct.schema().fields().iterator();
            while (each.hasNext()) {
                Field field = (Field) each.next();
                Object inner = struct.getWithoutDefault(field.name());
                if (inner != null) fields.set(field.name(), valueNode(inner, field.schema()));
            }
            ObjectNode node = NODES.objectNode();
            node.set("struct", fields);
            if (!same(struct.schema(), schema)) node.set("schema", schemaNode(struct.schema()));
            return node;
        }
        boolean mapped = schema != null && schema.type() == Schema.Type.MAP;
        boolean listed = schema != null && schema.type() == Schema.Type.ARRAY;
        Schema ofValue = mapped || listed ? schema.valueSchema() : null;
        if (value instanceof List) {
            ArrayNode node = NODES.arrayNode();
            Iterator each = ((List) value).iterator();
            while (each.hasNext()) node.add(valueNode(each.next(), ofValue));
            return node;
        }
        if (value instanceof Map) {
            ArrayNode entries = NODES.arrayNode();
            Schema ofKey = mapped ? schema.keySchema() : null;
            Iterator each = ((Map) value).entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry entry = (Map.Entry) each.next();
                ArrayNode pair = entries.addArray();
                pair.add(valueNode(entry.getKey(), ofKey));
                pair.add(valueNode(entry.getValue(), ofValue));
            }
            return tagged("map", (JsonNode) entries);
        }
        return tagged("class", value.getClass().getName());
    }

    // What Python passes around: py4j would turn a boxed value into Python's own

    public static SchemaAndValue pair(String schema, String value) throws Exception {
        Schema known = schema(parse(schema));
        return new SchemaAndValue(known, value(parse(value), known));
    }

    public static String pairText(SchemaAndValue pair) throws Exception {
        if (pair == null) return "[null,null]";
        ArrayNode node = NODES.arrayNode();
        node.add(schemaNode(pair.schema()));
        node.add(valueNode(pair.value(), pair.schema()));
        return MAPPER.writeValueAsString(node);
    }

    public static Object value(SchemaAndValue pair) {
        return pair.value();
    }

    // Converters

    public static byte[] fromConnectData(Converter converter, String topic, SchemaAndValue pair) {
        return converter.fromConnectData(topic, pair.schema(), pair.value());
    }

    public static byte[] fromConnectHeader(
        HeaderConverter converter, String topic, String name, SchemaAndValue pair
    ) {
        return converter.fromConnectHeader(topic, name, pair.schema(), pair.value());
    }

    public static SchemaAndValue parsed(String text) {
        return Values.parseString(text);
    }

    public static String convertedToString(SchemaAndValue pair) {
        return Values.convertToString(pair.schema(), pair.value());
    }

    // Records

    private static ConnectRecord record(JsonNode node) {
        SchemaAndValue key = side(at(node, "key"));
        SchemaAndValue value = side(at(node, "value"));
        String topic = node.has("topic") ? at(node, "topic").asText() : null;
        Integer partition =
            node.has("partition") ? Integer.valueOf(at(node, "partition").asInt()) : null;
        Long timestamp =
            node.has("timestamp") ? Long.valueOf(at(node, "timestamp").asLong()) : null;
        ConnectHeaders headers = new ConnectHeaders();
        if (node.has("headers")) {
            for (int i = 0; i < at(node, "headers").size(); i++) {
                JsonNode header = at(at(node, "headers"), i);
                Schema schema = schema(at(header, 1));
                headers.add(at(header, 0).asText(), value(at(header, 2), schema), schema);
            }
        }
        if (node.has("offset")) {
            return new SinkRecord(
                topic, partition.intValue(), key.schema(), key.value(), value.schema(),
                value.value(), at(node, "offset").asLong(), timestamp, timestamp == null
                    ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME, headers
            );
        }
        return new SourceRecord(
            new HashMap(), new HashMap(), topic, partition, key.schema(), key.value(),
            value.schema(), value.value(), timestamp, headers
        );
    }

    private static SchemaAndValue side(JsonNode node) {
        if (node == null) return SchemaAndValue.NULL;
        Schema schema = schema(at(node, 0));
        return new SchemaAndValue(schema, value(at(node, 1), schema));
    }

    private static JsonNode recordNode(ConnectRecord record) {
        ObjectNode node = NODES.objectNode();
        if (record.topic() != null) node.put("topic", record.topic());
        if (record.kafkaPartition() != null) {
            node.put("partition", record.kafkaPartition().intValue());
        }
        if (record instanceof SinkRecord) node.put("offset", ((SinkRecord) record).kafkaOffset());
        if (record.timestamp() != null) node.put("timestamp", record.timestamp().longValue());
        sideNode(node, "key", record.keySchema(), record.key());
        sideNode(node, "value", record.valueSchema(), record.value());
        if (record.headers().size() > 0) {
            ArrayNode headers = node.putArray("headers");
            Iterator each = record.headers().iterator();
            while (each.hasNext()) {
                Header header = (Header) each.next();
                ArrayNode triple = headers.addArray();
                triple.add(header.key()).add(schemaNode(header.schema()));
                triple.add(valueNode(header.value(), header.schema()));
            }
        }
        return node;
    }

    private static void sideNode(ObjectNode node, String side, Schema schema, Object value) {
        if (schema == null && value == null) return;
        node.putArray(side).add(schemaNode(schema)).add(valueNode(value, schema));
    }

    // Transformations and predicates

    /**
     * What a transformation or predicate of that configuration does with each of the records: a
     * record, null when it drops it, true or false from a predicate, or what it throws. If it
     * cannot be configured, what that throws.
     */
    public static String apply(String className, String config, String records) throws Exception {
        Object plugin = Class.forName(className).getDeclaredConstructor().newInstance();
        try {
            Map settings = (Map) MAPPER.readValue(config, Map.class);
            ((org.apache.kafka.common.Configurable) plugin).configure(settings);
        } catch (Throwable error) {
            return MAPPER.writeValueAsString(thrown("refused", error));
        }
        JsonNode inputs = parse(records);
        ArrayNode results = NODES.arrayNode();
        for (int i = 0; i < inputs.size(); i++) {
            ConnectRecord record = record(at(inputs, i));
            try {
                if (plugin instanceof Predicate) {
                    results.add(((Predicate) plugin).test(record));
                } else {
                    ConnectRecord result = ((Transformation) plugin).apply(record);
                    results.add(result == null ? (JsonNode) NODES.nullNode() : recordNode(result));
                }
            } catch (Throwable error) {
                results.add(thrown("thrown", error));
            }
        }
        return MAPPER.writeValueAsString(results);
    }

    private static JsonNode thrown(String when, Throwable error) {
        ArrayNode told = NODES.arrayNode().add(error.getClass().getName()).add(error.getMessage());
        return tagged(when, (JsonNode) told);
    }

    // Definitions

    /** What a `config()` declares, setting by setting, in its order. */
    public static String definition(ConfigDef definition) throws Exception {
        ArrayNode rows = NODES.arrayNode();
        Iterator keys = definition.configKeys().values().iterator();
        while (keys.hasNext()) {
            ConfigDef.ConfigKey key = (ConfigDef.ConfigKey) keys.next();
            ObjectNode row = rows.addObject();
            row.put("name", key.name);
            row.put("type", key.type.name());
            row.put("required", !key.hasDefault());
            Object held = key.hasDefault() ? key.defaultValue : null;
            row.put("default", ConfigDef.convertToString(held, key.type));
            row.put("importance", key.importance.name());
            row.put("validator", key.validator == null ? null : key.validator.toString());
            row.put("group", key.group);
            row.put("order", key.orderInGroup);
            row.put("width", key.width.name());
            row.put("display_name", key.displayName);
        }
        return MAPPER.writeValueAsString(rows);
    }

    /** The settings that depend on each setting, in the order of `definition`. */
    public static String dependents(ConfigDef definition) throws Exception {
        ArrayNode rows = NODES.arrayNode();
        Iterator keys = definition.configKeys().values().iterator();
        while (keys.hasNext()) {
            rows.add(((ConfigDef.ConfigKey) keys.next()).dependents.toString());
        }
        return MAPPER.writeValueAsString(rows);
    }

    /** What a connector's, a worker's or a client's configuration class declares. */
    public static ConfigDef declared(String className) throws Exception {
        Class known = Class.forName(className);
        Method[] methods = known.getDeclaredMethods();
        for (int i = 0; i < methods.length; i++) {
            Class[] kinds = methods[i].getParameterTypes();
            if (methods[i].getName().equals("configDef") && kinds.length == 0) {
                return (ConfigDef) methods[i].invoke(null, new Object[0]);
            }
            if (methods[i].getName().equals("config") && kinds.length == 1) { // Crypto
                Object system = kinds[0].getDeclaredField("SYSTEM").get(null);
                methods[i].setAccessible(true);
                return (ConfigDef) methods[i].invoke(null, new Object[] {system});
            }
        }
        java.lang.reflect.Field field = known.getDeclaredField("CONFIG");
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }
}

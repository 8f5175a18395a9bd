// The JVM's half of a slot: Kafka consumers that the slot's Python stage commands. What they read goes
// to the stage as the rows of a Spark task that does not end; what the stage wants comes by a socket.
// Compiled by Janino in Spark's JVM, so without generics, and without classes that capture variables.
package penstock;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Header;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.util.TaskCompletionListener;

/** Takes nothing, and gives frames for as long as the stage wants it. */
public class SlotReading implements MapPartitionsFunction {
    private static final int MOST_RECORDS = 4000; // what a processor's cache likes, as measured
    private static final int MOST_BYTES = 1 << 20;
    private static final int MOST_WHOLE = 1 << 22; // bytes of values with their heads
    private static final int LEAST_HEAD = 64; // bytes; less are not worth it
    private static final byte[] NO_HEAD = new byte[0];
    private static final int KIND_EVENT = 0;
    private static final int KIND_CHUNK = 1;
    private static final byte[] FILLER = new byte[] {2, 0, 0, 0, 0, 0, 0, 0};
    private static final int SECTIONS = 13;
    private static final int FRAME_HEAD = (4 * (6 + SECTIONS) + 7) & ~7;
    private static final long POLL_MS = 1000;
    private static final long LOOK_MS = 200; // how soon a killed task is noticed
    private static final int CONNECT_MS = 60000;
    private static final long NAMED_MS = 300; // Kafka has given a new member its id by then, as a rule
    private static final ObjectMapper JSON = new ObjectMapper();

    public Iterator call(Iterator numbers) {
        while (numbers.hasNext()) {
            numbers.next();
        }
        return new Slot();
    }

    /** One standing task: frames for its stage, and commands from it. */
    private static class Slot implements Iterator, TaskCompletionListener, Runnable {
        private final TaskContext context = TaskContext.get();
        private final LinkedBlockingQueue frames = new LinkedBlockingQueue();
        private final Map readers = new ConcurrentHashMap(); // Integer -> Reader
        private final ServerSocket server;
        private final String token;
        private volatile boolean ended = false; // no more commands come
        private byte[] next = null;
        private boolean owing = false; // Spark keeps the last frame until it has seen another one

        Slot() {
            byte[] secret = new byte[16];
            new SecureRandom().nextBytes(secret);
            token = new java.math.BigInteger(1, secret).toString(16);
            try {
                server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                server.setSoTimeout(CONNECT_MS);
            } catch (IOException e) {
                throw new RuntimeException(e);
            }
            context.addTaskCompletionListener(this);
            ObjectNode hello = event("hello", -1);
            hello.put("host", server.getInetAddress().getHostAddress());
            hello.put("port", server.getLocalPort());
            hello.put("token", token);
            give(hello);
            start(this, "slot-commands");
        }

        public boolean hasNext() {
            try {
                if (next == null) {
                    next = (byte[]) frames.poll();
                    if (next == null && owing) {
                        next = FILLER;
                    }
                }
                while (next == null) {
                    next = (byte[]) frames.poll(LOOK_MS, TimeUnit.MILLISECONDS);
                    if (next == null && (context.isInterrupted() || (ended && frames.isEmpty()))) {
                        return false;
                    }
                }
                return true;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return false;
            }
        }

        public Object next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            byte[] frame = next;
            next = null;
            owing = frame != FILLER;
            return frame;
        }

        public void remove() {
            throw new UnsupportedOperationException();
        }

        public void onTaskCompletion(TaskContext context) {
            end();
        }

        /** Reads commands until the stage says that it is over, or is gone. */
        public void run() {
            try {
                Socket socket = server.accept();
                socket.setTcpNoDelay(true);
                BufferedReader lines = new BufferedReader(
                    new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
                if (token.equals(lines.readLine())) {
                    String line = lines.readLine();
                    while (line != null) {
                        obey(JSON.readTree(line));
                        line = lines.readLine();
                    }
                }
                socket.close();
            } catch (IOException e) {
                // the stage is gone, or never came
            } finally {
                end();
            }
        }

        private void obey(JsonNode command) {
            Integer task = Integer.valueOf(command.get("task").asInt());
            String what = command.get("do").asText();
            if (what.equals("open")) {
                Reader reader = new Reader(this, task.intValue(), command);
                readers.put(task, reader);
                start(reader, "consumer-" + command.get("name").asText());
                return;
            }
            Reader reader = (Reader) readers.get(task);
            if (reader != null) {
                reader.tell(what, command);
            }
        }

        private void end() {
            ended = true;
            Iterator each = readers.values().iterator();
            while (each.hasNext()) {
                ((Reader) each.next()).tell("close", null);
            }
            try {
                server.close();
            } catch (IOException e) {
                // it is closed already
            }
        }

        void give(ObjectNode event) {
            byte[] text;
            try {
                text = JSON.writeValueAsBytes(event);
            } catch (IOException e) {
                throw new RuntimeException(e);
            }
            ByteBuffer out = ByteBuffer.allocate(4 + text.length).order(ByteOrder.LITTLE_ENDIAN);
            frames.add(out.putInt(KIND_EVENT).put(text).array());
        }

        void give(byte[] frame) {
            frames.add(frame);
        }

        void closed(int task) {
            readers.remove(Integer.valueOf(task));
        }
    }

    private static void start(Runnable what, String name) {
        Thread thread = new Thread(what, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static ObjectNode event(String what, int task) {
        ObjectNode event = JsonNodeFactory.instance.objectNode();
        event.put("event", what);
        event.put("task", task);
        return event;
    }

    /** The consumer of one connector task: a member of its group, in a thread of its own. */
    private static class Reader implements Runnable, ConsumerRebalanceListener {
        private final Slot slot;
        private final int task;
        private final JsonNode opening;
        private final long limit; // bytes that the stage may have and not be done with
        private final long releaseMs; // how long a revocation waits for the stage
        private final LinkedBlockingQueue commands = new LinkedBlockingQueue();
        private final AtomicLong held = new AtomicLong(); // bytes the stage is not done with
        private final Map epochs = new HashMap(); // TopicPartition -> Integer
        private final Map heads = new HashMap(); // TopicPartition -> byte[], what late values begin with
        private final Set pausedByTask = new HashSet();
        private final Chunk chunk = new Chunk();
        private KafkaConsumer consumer;
        private volatile boolean polling = false;
        private volatile boolean closing = false;
        private volatile boolean full = false; // all is paused until the stage has done more
        private long closeMs = 3000;
        private int epoch = 0;
        private boolean releasing = false; // a revocation waits for the stage
        private JsonNode released = null;

        Reader(Slot slot, int task, JsonNode opening) {
            this.slot = slot;
            this.task = task;
            this.opening = opening;
            this.limit = opening.get("limit").asLong();
            this.releaseMs = opening.get("release_ms").asLong();
        }

        /** Takes a command; from any thread. */
        void tell(String what, JsonNode command) {
            if (what.equals("done")) {
                if (held.addAndGet(-command.get("bytes").asLong()) >= limit / 2 || !full) {
                    return;
                }
            } else {
                if (what.equals("close")) {
                    closeMs = command == null ? 0 : command.get("ms").asLong();
                    closing = true;
                }
                commands.add(new Object[] {what, command});
            }
            if (polling) {
                consumer.wakeup();
            }
        }

        public void run() {
            String failure = null;
            try {
                open();
                while (!closing) {
                    Object[] command = (Object[]) commands.poll();
                    if (command != null) {
                        obey(command);
                    } else {
                        flow();
                        deliver(poll());
                    }
                }
            } catch (Throwable e) {
                failure = trace(e);
            } finally {
                closing = true;
                String left = null;
                if (consumer != null) {
                    left = close();
                }
                slot.closed(task);
                ObjectNode event = event("closed", task);
                event.put("member", left);
                event.put("trace", failure);
                slot.give(event);
            }
        }

        private void open() {
            Map settings = new HashMap();
            Iterator names = opening.get("settings").fieldNames();
            while (names.hasNext()) {
                String name = (String) names.next();
                settings.put(name, opening.get("settings").get(name).asText());
            }
            // What is fetched is copied once, by us.
            settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteBufferDeserializer");
            settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteBufferDeserializer");
            settings.put("enable.auto.commit", "false");
            consumer = new KafkaConsumer(settings);
            if (opening.hasNonNull("pattern")) {
                consumer.subscribe(Pattern.compile(opening.get("pattern").asText()), this);
            } else {
                List topics = new ArrayList();
                Iterator each = opening.get("topics").elements();
                while (each.hasNext()) {
                    topics.add(((JsonNode) each.next()).asText());
                }
                consumer.subscribe(topics, this);
            }
        }

        /**
         * Leaves the group; the member's id where that took all the time it may. The broker holds back
         * its answer to a member that joins, and reads nothing else on that connection meanwhile, so
         * it may not have read that the member leaves.
         */
        private String close() {
            String member = named();
            long until = System.currentTimeMillis() + closeMs;
            while (true) {
                try {
                    consumer.close(Duration.ofMillis(closeMs));
                    return System.currentTimeMillis() < until || "".equals(member) ? null : member;
                } catch (WakeupException e) {
                    // of a command that came late
                } catch (RuntimeException e) {
                    return "".equals(member) ? null : member;
                }
            }
        }

        /** The member's id, which may be just on its way: without it the member could not leave. */
        private String named() {
            String member = memberId();
            long until = System.currentTimeMillis() + Math.min(NAMED_MS, closeMs);
            while ("".equals(member) && System.currentTimeMillis() < until) {
                try {
                    consumer.poll(Duration.ofMillis(LOOK_MS / 10));
                } catch (WakeupException e) {
                    // of a command that came late
                } catch (RuntimeException e) {
                    break;
                }
                member = memberId();
            }
            return member;
        }

        /** What Kafka calls this member; empty before it has said so, null where that is not known. */
        private String memberId() {
            try {
                // The consumer tells only members that have joined, and has the id before that.
                Object delegate = field(consumer.getClass(), "delegate").get(consumer);
                Object coordinator = field(delegate.getClass(), "coordinator").get(delegate);
                Method member = coordinator.getClass().getSuperclass().getDeclaredMethod("memberId", new Class[0]);
                member.setAccessible(true);
                String id = (String) member.invoke(coordinator, new Object[0]);
                return id == null ? "" : id;
            } catch (ReflectiveOperationException e) {
                return null;
            } catch (RuntimeException e) {
                return null;
            }
        }

        private static Field field(Class owner, String name) throws NoSuchFieldException {
            Field field = owner.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        }

        private void obey(Object[] command) {
            String what = (String) command[0];
            JsonNode told = (JsonNode) command[1];
            if (what.equals("commit")) {
                commit(told);
            } else if (what.equals("released") && releasing) {
                released = told;
            } else if (what.equals("released")) {
                ObjectNode event = event("committed", task);
                event.put("id", told.get("id").asInt());
                event.put("error", "the partitions were revoked before they were released");
                slot.give(event);
            } else if (what.equals("pause")) {
                pause(partitions(told), told.get("paused").asBoolean());
            }
        }

        private void pause(List partitions, boolean paused) {
            partitions.retainAll(consumer.assignment());
            if (paused) {
                pausedByTask.addAll(partitions);
                consumer.pause(partitions);
            } else {
                pausedByTask.removeAll(partitions);
                if (!full) {
                    consumer.resume(partitions);
                }
            }
        }

        /** Pauses everything while the stage has enough to do. */
        private void flow() {
            if (!full && held.get() >= limit) {
                full = true;
                consumer.pause(consumer.assignment());
            }
            if (full && held.get() < limit / 2) {
                full = false;
                List resumed = new ArrayList(consumer.assignment());
                resumed.removeAll(pausedByTask);
                consumer.resume(resumed);
            }
        }

        private ConsumerRecords poll() {
            polling = true;
            try {
                if (!commands.isEmpty() || closing || (full && held.get() < limit / 2)) {
                    return null;
                }
                return consumer.poll(Duration.ofMillis(POLL_MS));
            } catch (WakeupException e) {
                return null;
            } finally {
                polling = false;
            }
        }

        private void deliver(ConsumerRecords records) {
            if (records == null) {
                return;
            }
            Iterator places = records.partitions().iterator();
            while (places.hasNext()) {
                TopicPartition place = (TopicPartition) places.next();
                Integer since = (Integer) epochs.get(place);
                if (since == null) {
                    continue;
                }
                byte[] head = (byte[]) heads.get(place);
                chunk.clear(place, head == null ? NO_HEAD : head);
                Iterator each = records.records(place).iterator();
                while (each.hasNext()) {
                    ConsumerRecord record = (ConsumerRecord) each.next();
                    if (chunk.full() || !chunk.takes(record)) {
                        head = chunk.head();
                        give(since.intValue());
                        chunk.clear(place, head);
                        chunk.takes(record);
                    }
                    chunk.add(record);
                }
                heads.put(place, chunk.head());
                give(since.intValue());
            }
        }

        private void give(int since) {
            byte[] frame = chunk.frame(task, since);
            if (frame != null) {
                held.addAndGet(frame.length);
                slot.give(frame);
            }
        }

        /** Commits; the stage gets to know whether Kafka took it. */
        private void commit(JsonNode told) {
            Map offsets = new HashMap();
            Iterator each = told.get("offsets").elements();
            while (each.hasNext()) {
                JsonNode row = (JsonNode) each.next();
                offsets.put(
                    new TopicPartition(((JsonNode) row.get(0)).asText(), ((JsonNode) row.get(1)).asInt()),
                    new OffsetAndMetadata(((JsonNode) row.get(2)).asLong()));
            }
            ObjectNode event = event("committed", task);
            event.put("id", told.get("id").asInt());
            try {
                commit(offsets, told.get("ms").asLong());
            } catch (RuntimeException e) {
                event.put("error", e.toString());
            }
            slot.give(event);
        }

        private void commit(Map offsets, long ms) {
            long until = System.currentTimeMillis() + ms;
            while (!offsets.isEmpty()) {
                try {
                    consumer.commitSync(offsets, Duration.ofMillis(Math.max(1, until - System.currentTimeMillis())));
                    return;
                } catch (WakeupException e) {
                    // of a command that came late
                }
            }
        }

        public void onPartitionsAssigned(Collection partitions) {
            if (partitions.isEmpty()) {
                return;
            }
            epoch++;
            ObjectNode event = event("assigned", task);
            ArrayNode rows = event.putArray("partitions");
            Iterator each = partitions.iterator();
            while (each.hasNext()) {
                TopicPartition place = (TopicPartition) each.next();
                epochs.put(place, Integer.valueOf(epoch));
                rows.addArray().add(place.topic()).add(place.partition()).add(epoch).add(position(place));
            }
            if (full) {
                consumer.pause(partitions);
            }
            slot.give(event);
        }

        private long position(TopicPartition place) {
            while (true) {
                try {
                    return consumer.position(place);
                } catch (WakeupException e) {
                    // of a command that came late
                }
            }
        }

        public void onPartitionsRevoked(Collection partitions) {
            if (partitions.isEmpty()) {
                return;
            }
            forget("revoked", partitions);
            try {
                long until = System.currentTimeMillis() + releaseMs;
                released = null;
                releasing = true;
                while (released == null && !closing) {
                    long left = until - System.currentTimeMillis();
                    Object[] command = left <= 0 ? null : (Object[]) commands.poll(left, TimeUnit.MILLISECONDS);
                    if (command == null) {
                        break;
                    }
                    obey(command);
                }
                releasing = false;
                if (released != null) {
                    commit(released);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        public void onPartitionsLost(Collection partitions) {
            if (!partitions.isEmpty()) {
                forget("lost", partitions);
            }
        }

        private void forget(String what, Collection partitions) {
            ObjectNode event = event(what, task);
            ArrayNode rows = event.putArray("partitions");
            Iterator each = partitions.iterator();
            while (each.hasNext()) {
                TopicPartition place = (TopicPartition) each.next();
                epochs.remove(place);
                heads.remove(place);
                pausedByTask.remove(place);
                rows.addArray().add(place.topic()).add(place.partition());
            }
            slot.give(event);
        }

        private static List partitions(JsonNode told) {
            List found = new ArrayList();
            Iterator each = told.get("partitions").elements();
            while (each.hasNext()) {
                JsonNode row = (JsonNode) each.next();
                found.add(new TopicPartition(((JsonNode) row.get(0)).asText(), ((JsonNode) row.get(1)).asInt()));
            }
            return found;
        }
    }

    private static String trace(Throwable e) {
        StringWriter text = new StringWriter();
        e.printStackTrace(new PrintWriter(text));
        return text.toString();
    }

    /** Records of one partition, as the buffers of Arrow columns. */
    private static class Chunk {
        private TopicPartition place;
        private byte[] head;
        private int records;
        private int timestampType;
        private long[] offsets = new long[64];
        private long[] timestamps = new long[64];
        private final Cells keys = new Cells();
        private final Cells values = new Cells();
        private final Cells headers = new Cells();

        /** Makes room for other records, in the arrays it has. */
        void clear(TopicPartition place, byte[] head) {
            this.place = place;
            this.head = head;
            records = 0;
            keys.clear();
            values.clear();
            headers.clear();
        }

        boolean full() {
            return records >= MOST_RECORDS || keys.size + values.size + headers.size >= MOST_BYTES
                || values.size + (long) records * head.length >= MOST_WHOLE;
        }

        /**
         * Whether it is of the same kind as the others: a chunk has one type of timestamps, and one
         * head of all values. The first decides.
         */
        boolean takes(ConsumerRecord record) {
            ByteBuffer value = (ByteBuffer) record.value();
            int alike = value == null ? head.length : alike(value);
            if (records > 0) {
                return alike == head.length && record.timestampType().id == timestampType;
            }
            if (alike < head.length) {
                head = alike < LEAST_HEAD ? NO_HEAD : Arrays.copyOf(head, alike);
            }
            return true;
        }

        /** How much of the head a value begins with. */
        private int alike(ByteBuffer value) {
            if (head.length == 0) {
                return 0;
            }
            int different = value.mismatch(ByteBuffer.wrap(head));
            return different < 0 ? head.length : different;
        }

        /** What the next values will begin with, if they go on as these do. */
        byte[] head() {
            return head.length > 0 ? head : values.head();
        }

        void add(ConsumerRecord record) {
            if (records == offsets.length) {
                offsets = Arrays.copyOf(offsets, 2 * records);
                timestamps = Arrays.copyOf(timestamps, 2 * records);
            }
            offsets[records] = record.offset();
            timestamps[records] = record.timestamp();
            timestampType = record.timestampType().id;
            keys.add((ByteBuffer) record.key());
            ByteBuffer value = (ByteBuffer) record.value();
            if (value != null) {
                value.position(value.position() + head.length);
            }
            values.add(value);
            Header[] told = record.headers().toArray();
            if (told.length > 0) {
                headers.pad(records);
                headers.add(ByteBuffer.wrap(json(told)));
            }
            records++;
        }

        /** The chunk as a frame (chunks.py has its layout); null where there are no records. */
        byte[] frame(int task, int epoch) {
            if (records == 0) {
                return null;
            }
            if (headers.records > 0) {
                headers.pad(records);
            }
            byte[][] sections = new byte[][] {
                place.topic().getBytes(StandardCharsets.UTF_8),
                bytes(offsets, records), bytes(timestamps, records),
                keys.there(), keys.ends(), keys.bytes(),
                head, values.there(), values.ends(), values.bytes(),
                headers.there(), headers.ends(), headers.bytes()
            };
            int size = FRAME_HEAD;
            for (int i = 0; i < sections.length; i++) {
                size += padded(sections[i].length);
            }
            ByteBuffer out = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
            out.putInt(KIND_CHUNK).putInt(task).putInt(epoch).putInt(place.partition());
            out.putInt(timestampType).putInt(records);
            for (int i = 0; i < sections.length; i++) {
                out.putInt(sections[i].length);
            }
            int at = FRAME_HEAD;
            for (int i = 0; i < sections.length; i++) {
                out.position(at);
                out.put(sections[i]);
                at += padded(sections[i].length);
            }
            return out.array();
        }
    }

    /** Every section of a frame begins at a multiple of 8, as Arrow wants its buffers. */
    private static int padded(int length) {
        return (length + 7) & ~7;
    }

    /** Byte strings in a row, as Arrow has them: where each ends, which are there, and all bytes. */
    private static class Cells {
        int records;
        int size;
        private boolean gaps;
        private byte[] data = new byte[1024];
        private int[] ends = new int[64];
        private byte[] there = new byte[8];

        void clear() {
            records = 0;
            size = 0;
            gaps = false;
            Arrays.fill(there, (byte) 0);
        }

        void add(ByteBuffer cell) {
            if (records + 1 >= ends.length) {
                ends = Arrays.copyOf(ends, 2 * ends.length);
                there = Arrays.copyOf(there, 2 * there.length);
            }
            if (cell == null) {
                gaps = true;
            } else {
                int length = cell.remaining();
                if (size + length > data.length) {
                    data = Arrays.copyOf(data, Math.max(2 * data.length, size + length));
                }
                cell.get(data, size, length);
                size += length;
                there[records >> 3] |= (byte) (1 << (records & 7));
            }
            records++;
            ends[records] = size;
        }

        /** Nothing for each record that has none, up to a number of records. */
        void pad(int upTo) {
            while (records < upTo) {
                add(null);
            }
        }

        byte[] bytes() {
            return Arrays.copyOf(data, size);
        }

        /** What all of several cells begin with; nothing where that is little. */
        byte[] head() {
            int head = records > 1 ? ends[1] : 0;
            for (int i = 1; i < records && head >= LEAST_HEAD; i++) {
                int different = Arrays.mismatch(data, 0, head, data, ends[i], ends[i + 1]);
                head = different < 0 ? head : different;
            }
            return head < LEAST_HEAD ? NO_HEAD : Arrays.copyOf(data, head);
        }

        /** Empty where there are no records at all. */
        byte[] ends() {
            if (records == 0) {
                return new byte[0];
            }
            ByteBuffer out = ByteBuffer.allocate(4 * (records + 1)).order(ByteOrder.LITTLE_ENDIAN);
            out.asIntBuffer().put(ends, 0, records + 1);
            return out.array();
        }

        /** Empty where nothing is missing. */
        byte[] there() {
            return gaps ? Arrays.copyOf(there, (records + 7) / 8) : new byte[0];
        }
    }

    private static byte[] bytes(long[] numbers, int count) {
        ByteBuffer out = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
        out.asLongBuffer().put(numbers, 0, count);
        return out.array();
    }

    /** Headers as a JSON array of objects, the values in base64. */
    private static byte[] json(Header[] headers) {
        try {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            JsonGenerator json = new JsonFactory().createGenerator(out);
            json.writeStartArray();
            for (int i = 0; i < headers.length; i++) {
                json.writeStartObject();
                json.writeStringField("key", headers[i].key());
                if (headers[i].value() != null) {
                    json.writeBinaryField("value", headers[i].value());
                }
                json.writeEndObject();
            }
            json.writeEndArray();
            json.close();
            return out.toByteArray();
        } catch (IOException e) {
            throw new RuntimeException(e);
        }
    }
}

// Compiled by Janino in Spark's JVM, so without generics, and without classes that capture variables.
package penstock;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
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

/** The consumer of one connector task: a member of its group, with its own thread. */
class SlotConsumer implements Runnable, ConsumerRebalanceListener {
    private static final long POLL_MS = 1000;
    private static final long NAMED_MS = 300; // a new member usually has its id by then
    private static final long NAMED_POLL_MS = 20;

    private final Slot slot;
    private final int task;
    private final JsonNode opening;
    private final long limit; // bytes that the stage may hold unprocessed
    private final long releaseMs; // how long a revocation waits for the stage's offsets
    private final LinkedBlockingQueue commands = new LinkedBlockingQueue();
    private final AtomicLong held = new AtomicLong(); // bytes that the stage has not processed
    private final Map epochs = new HashMap(); // TopicPartition -> Integer
    private final Map assignments = new HashMap(); // TopicPartition -> Integer, the epoch that it began with
    private final Map heads = new HashMap(); // TopicPartition -> byte[], the head of the latest values
    private final Set pausedByTask = new HashSet();
    private final Chunk chunk = new Chunk();
    private KafkaConsumer consumer;
    private volatile boolean polling = false;
    private volatile boolean closing = false;
    private volatile boolean full = false; // all partitions are paused until the stage has caught up
    private long closeMs = 3000;
    private int epoch = 0;
    private boolean releasing = false; // a revocation waits for the stage's offsets
    private JsonNode released = null;

    SlotConsumer(Slot slot, int task, JsonNode opening) {
        this.slot = slot;
        this.task = task;
        this.opening = opening;
        this.limit = opening.get("limit").asLong();
        this.releaseMs = opening.get("release_ms").asLong();
    }

    /** Accepts a command; from any thread. */
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
            ObjectNode event = Slot.event("closed", task);
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
        // Fetched bytes are copied only once, into a chunk.
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
     * Leaves the group. Returns the member's id if that timed out: while a member is joining, the
     * broker reads nothing else on its connection, so it may not have read the request to leave.
     */
    private String close() {
        String member = named();
        long until = System.currentTimeMillis() + closeMs;
        while (true) {
            try {
                consumer.close(Duration.ofMillis(closeMs));
                return System.currentTimeMillis() < until || "".equals(member) ? null : member;
            } catch (WakeupException e) {
                // from a command that arrived late
            } catch (RuntimeException e) {
                return "".equals(member) ? null : member;
            }
        }
    }

    /** The member's id, after a short wait for it: without an id the member cannot leave. */
    private String named() {
        String member = memberId();
        long until = System.currentTimeMillis() + Math.min(NAMED_MS, closeMs);
        while ("".equals(member) && System.currentTimeMillis() < until) {
            try {
                consumer.poll(Duration.ofMillis(NAMED_POLL_MS));
            } catch (WakeupException e) {
                // from a command that arrived late
            } catch (RuntimeException e) {
                break;
            }
            member = memberId();
        }
        return member;
    }

    /** The member's id; empty before Kafka has assigned one, null if it cannot be read. */
    private String memberId() {
        try {
            // The public API returns the id only once the member has joined.
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
            ObjectNode event = Slot.event("committed", task);
            event.put("id", told.get("id").asInt());
            event.put("error", "the partitions were revoked before they were released");
            slot.give(event);
        } else if (what.equals("pause")) {
            pause(partitions(told), told.get("paused").asBoolean());
        } else if (what.equals("seek")) {
            seek(told);
        }
    }

    /** Seeks in partitions, except those whose assignment has ended. Every seek begins an epoch. */
    private void seek(JsonNode told) {
        epoch++;
        ObjectNode event = Slot.event("sought", task);
        event.put("id", told.get("id").asInt());
        ArrayNode rows = event.putArray("partitions");
        Iterator each = told.get("partitions").elements();
        while (each.hasNext()) {
            JsonNode row = (JsonNode) each.next();
            TopicPartition partition =
                new TopicPartition(((JsonNode) row.get(0)).asText(), ((JsonNode) row.get(1)).asInt());
            Integer since = (Integer) assignments.get(partition);
            if (since == null || since.intValue() != ((JsonNode) row.get(2)).asInt()) {
                continue;
            }
            long offset = ((JsonNode) row.get(3)).asLong();
            consumer.seek(partition, offset);
            epochs.put(partition, Integer.valueOf(epoch));
            rows.addArray().add(partition.topic()).add(partition.partition()).add(epoch).add(offset);
        }
        slot.give(event);
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

    /** Pauses all partitions while the stage holds too much, and resumes them afterwards. */
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
        Iterator partitions = records.partitions().iterator();
        while (partitions.hasNext()) {
            TopicPartition partition = (TopicPartition) partitions.next();
            Integer since = (Integer) epochs.get(partition);
            if (since == null) {
                continue;
            }
            byte[] head = (byte[]) heads.get(partition);
            chunk.clear(partition, head == null ? Cells.NO_HEAD : head);
            Iterator each = records.records(partition).iterator();
            while (each.hasNext()) {
                ConsumerRecord record = (ConsumerRecord) each.next();
                if (chunk.full() || !chunk.takes(record)) {
                    head = chunk.head();
                    give(since.intValue());
                    chunk.clear(partition, head);
                    chunk.takes(record);
                }
                chunk.add(record);
            }
            heads.put(partition, chunk.head());
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

    /** Commits, and reports the result to the stage. */
    private void commit(JsonNode told) {
        Map offsets = new HashMap();
        Iterator each = told.get("offsets").elements();
        Iterator metadata = told.get("metadata").elements();
        while (each.hasNext()) {
            JsonNode row = (JsonNode) each.next();
            offsets.put(
                new TopicPartition(((JsonNode) row.get(0)).asText(), ((JsonNode) row.get(1)).asInt()),
                new OffsetAndMetadata(((JsonNode) row.get(2)).asLong(), ((JsonNode) metadata.next()).asText()));
        }
        ObjectNode event = Slot.event("committed", task);
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
                // from a command that arrived late
            }
        }
    }

    public void onPartitionsAssigned(Collection partitions) {
        if (partitions.isEmpty()) {
            return;
        }
        epoch++;
        ObjectNode event = Slot.event("assigned", task);
        ArrayNode rows = event.putArray("partitions");
        Iterator each = partitions.iterator();
        while (each.hasNext()) {
            TopicPartition partition = (TopicPartition) each.next();
            epochs.put(partition, Integer.valueOf(epoch));
            assignments.put(partition, Integer.valueOf(epoch));
            rows.addArray().add(partition.topic()).add(partition.partition()).add(epoch).add(position(partition));
        }
        ArrayNode commits = event.putArray("committed");
        each = committed(partitions).entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            TopicPartition partition = (TopicPartition) entry.getKey();
            OffsetAndMetadata commit = (OffsetAndMetadata) entry.getValue();
            if (commit != null) {
                ArrayNode row = commits.addArray().add(partition.topic()).add(partition.partition());
                row.add(commit.offset()).add(commit.metadata());
            }
        }
        if (full) {
            consumer.pause(partitions);
        }
        slot.give(event);
    }

    private Map committed(Collection partitions) {
        while (true) {
            try {
                return consumer.committed(new HashSet(partitions));
            } catch (WakeupException e) {
                // from a command that arrived late
            }
        }
    }

    private long position(TopicPartition partition) {
        while (true) {
            try {
                return consumer.position(partition);
            } catch (WakeupException e) {
                // from a command that arrived late
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
        ObjectNode event = Slot.event(what, task);
        ArrayNode rows = event.putArray("partitions");
        Iterator each = partitions.iterator();
        while (each.hasNext()) {
            TopicPartition partition = (TopicPartition) each.next();
            epochs.remove(partition);
            assignments.remove(partition);
            heads.remove(partition);
            pausedByTask.remove(partition);
            rows.addArray().add(partition.topic()).add(partition.partition());
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

    private static String trace(Throwable e) {
        StringWriter text = new StringWriter();
        e.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}

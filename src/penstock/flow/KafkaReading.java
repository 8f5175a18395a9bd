// Kafka's records for the Python stage, some thousand to a row: a row for every record costs Spark more
// than reading it. Compiled by Janino in Spark's JVM, so without generics where they need inference.
package penstock;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.util.TaskCompletionListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads spans of partitions: takes their numbers, gives their records as chunks (reading.py has the
 * columns). A consumer stays open between batches, and goes on where it was. What is told here on the
 * driver goes along with the tasks of the next job; those of an earlier one have a copy of their own.
 */
public class KafkaReading implements MapPartitionsFunction {
    private static final Logger LOG = LoggerFactory.getLogger("penstock.KafkaReading");
    private static final int MOST_RECORDS = 4000; // what a processor's cache likes, as measured
    private static final int MOST_BYTES = 1 << 20;
    private static final int MOST_WHOLE = 1 << 22; // bytes of values with their heads
    private static final int LEAST_HEAD = 64; // bytes; less are not worth it
    private static final byte[] NO_HEAD = new byte[0];
    private static final long POLL_MS = 1000;
    private static final long IDLE_MS = 60000;
    private static final Map IDLE = new HashMap(); // Source.name -> Source; guarded by itself

    static {
        Thread closer = new Thread(new Closer(), "kafka-reading-closer");
        closer.setDaemon(true);
        closer.start();
    }

    private final Map settings; // of the consumer, in Kafka's names
    private final long patienceMs; // without any progress
    private String[] spans = new String[0]; // "partition start end topic"; a negative start is the first there is

    public KafkaReading(Map settings, long patienceMs) {
        this.settings = new HashMap(settings);
        this.patienceMs = patienceMs;
    }

    /** What is to be read next: a line for each span. */
    public void tell(String spans) {
        this.spans = spans.split("\n");
    }

    public Iterator call(Iterator numbers) {
        return new Chunks(numbers);
    }

    /** The chunks of spans, one after the other. */
    private class Chunks implements Iterator, TaskCompletionListener {
        private final Iterator numbers;
        private final Chunk chunk = new Chunk();
        private Source source = null;
        private long end;
        private Row next = null;

        Chunks(Iterator numbers) {
            this.numbers = numbers;
            TaskContext.get().addTaskCompletionListener(this);
        }

        public boolean hasNext() {
            while (next == null && (source != null || numbers.hasNext())) {
                if (source == null) {
                    open(spans[((Long) numbers.next()).intValue()].split(" ", 4));
                }
                next = read();
            }
            return next != null;
        }

        public Object next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            Row row = next;
            next = null;
            return row;
        }

        public void remove() {
            throw new UnsupportedOperationException();
        }

        public void onTaskCompletion(TaskContext context) {
            if (source != null) { // it was not read to its end: nobody knows what state it is in
                source.close();
                source = null;
            }
        }

        private void open(String[] span) {
            TopicPartition place = new TopicPartition(span[3], Integer.parseInt(span[0]));
            end = Long.parseLong(span[2]);
            source = taken(place, settings);
            source.seek(Long.parseLong(span[1]));
        }

        /** The next chunk; null where the span is over. */
        private Row read() {
            Source from = source;
            chunk.clear(source.place, source.head);
            while (!chunk.full()) {
                ConsumerRecord record = source.peek(end, patienceMs);
                if (record == null) {
                    kept(source);
                    source = null;
                    break;
                }
                if (!chunk.takes(record)) {
                    break;
                }
                chunk.add(record);
                source.ahead = null;
            }
            from.head = chunk.head();
            return chunk.row();
        }
    }

    /** A consumer of one partition, and what it has fetched and not given away. */
    private static class Source {
        final TopicPartition place;
        final Object name;
        final KafkaConsumer consumer;
        Iterator fetched = Collections.emptyIterator();
        ConsumerRecord ahead = null; // the record that is next, where it is known
        long position = -1; // where it goes on
        byte[] head = NO_HEAD; // what the values of late begin with, such as a schema
        long restingSince = 0;

        Source(TopicPartition place, Map settings, Object name) {
            this.place = place;
            this.name = name;
            Map all = new HashMap(settings);
            // What is fetched is copied once, by us.
            all.put("key.deserializer", "org.apache.kafka.common.serialization.ByteBufferDeserializer");
            all.put("value.deserializer", "org.apache.kafka.common.serialization.ByteBufferDeserializer");
            all.put("enable.auto.commit", "false");
            all.put("auto.offset.reset", "none");
            this.consumer = new KafkaConsumer(all);
            this.consumer.assign(Collections.singletonList(place));
        }

        /** Goes to an offset, or to the first there is. */
        void seek(long start) {
            if (start >= 0 && start == position) {
                return;
            }
            drop();
            position = start >= 0 ? start : first();
            consumer.seek(place, position);
        }

        /** The next record before `end`, which stays the next; null when there is none any more. */
        ConsumerRecord peek(long end, long patienceMs) {
            long progressMs = System.currentTimeMillis();
            while (ahead == null) {
                if (fetched.hasNext()) {
                    ahead = (ConsumerRecord) fetched.next();
                    position = ahead.offset();
                    break;
                }
                long reached = consumer.position(place);
                if (reached != position) { // also over what is no record: ends of transactions
                    position = reached;
                    progressMs = System.currentTimeMillis();
                }
                if (position >= end) {
                    return null;
                }
                if (System.currentTimeMillis() - progressMs > patienceMs) {
                    throw new TimeoutException("Kafka gave no record of " + place + " from offset " + position
                        + " on, up to " + end + ", within " + patienceMs + " ms");
                }
                poll(end);
            }
            if (ahead.offset() >= end) {
                return null;
            }
            return ahead;
        }

        private void poll(long end) {
            try {
                fetched = consumer.poll(Duration.ofMillis(POLL_MS)).records(place).iterator();
            } catch (OffsetOutOfRangeException e) {
                long first = first();
                long on = first > position ? Math.min(first, end) : end; // deleted, or the topic is a new one
                LOG.warn("{} has no records any more from offset {} to {}", new Object[] {place, position, on});
                drop();
                consumer.seek(place, on);
            }
        }

        private long first() {
            Object found = consumer.beginningOffsets(Collections.singletonList(place)).get(place);
            return ((Long) found).longValue();
        }

        private void drop() {
            fetched = Collections.emptyIterator();
            ahead = null;
        }

        void close() {
            consumer.close(Duration.ZERO);
        }
    }

    /** One that rests, or a new one. */
    private static Source taken(TopicPartition place, Map settings) {
        Object name = Arrays.asList(new Object[] {place, settings});
        Source found;
        synchronized (IDLE) {
            found = (Source) IDLE.remove(name);
        }
        return found != null ? found : new Source(place, settings, name);
    }

    /** Lets one rest until its partition's next batch, or for a while. */
    private static void kept(Source source) {
        source.restingSince = System.currentTimeMillis();
        Source other;
        synchronized (IDLE) {
            other = (Source) IDLE.put(source.name, source);
        }
        if (other != null) {
            other.close();
        }
    }

    /** Closes what nobody has used for a while. */
    private static class Closer implements Runnable {
        public void run() {
            try {
                while (true) {
                    Thread.sleep(IDLE_MS / 4);
                    List over = new ArrayList();
                    synchronized (IDLE) {
                        Iterator each = IDLE.values().iterator();
                        while (each.hasNext()) {
                            Source source = (Source) each.next();
                            if (System.currentTimeMillis() - source.restingSince > IDLE_MS) {
                                each.remove();
                                over.add(source);
                            }
                        }
                    }
                    for (int i = 0; i < over.size(); i++) {
                        ((Source) over.get(i)).close();
                    }
                }
            } catch (InterruptedException e) {
                LOG.warn("idle consumers are not closed any more: {}", e.toString());
            }
        }
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

        Row row() {
            if (records == 0) {
                return null;
            }
            if (headers.records > 0) {
                headers.pad(records);
            }
            return RowFactory.create(new Object[] {
                place.topic(), Integer.valueOf(place.partition()), Integer.valueOf(timestampType),
                bytes(offsets, records), bytes(timestamps, records),
                keys.there(), keys.ends(), keys.bytes(),
                head, values.there(), values.ends(), values.bytes(),
                headers.there(), headers.ends(), headers.bytes()
            });
        }
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

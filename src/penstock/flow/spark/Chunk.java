// Compiled by Janino in Spark's JVM, so without generics, and without classes that capture variables.
package penstock;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/**
 * Records of one topic partition, as the buffers of Arrow columns. All values of a chunk begin
 * with its head, which is sent once.
 */
class Chunk {
    private static final int MOST_RECORDS = 4000; // measured: fits the processor's cache
    private static final int MOST_BYTES = 1 << 20;
    private static final int MOST_WHOLE = 1 << 22; // bytes of values with their heads
    private static final int KIND_CHUNK = 1;
    private static final int SECTIONS = 13;
    private static final int FRAME_HEAD = (4 * (6 + SECTIONS) + 7) & ~7;

    private TopicPartition partition;
    private byte[] head;
    private int records;
    private int timestampType;
    private long[] offsets = new long[64];
    private long[] timestamps = new long[64];
    private final Cells keys = new Cells();
    private final Cells values = new Cells();
    private final Cells headers = new Cells();

    /** Empties the chunk; its arrays stay. */
    void clear(TopicPartition partition, byte[] head) {
        this.partition = partition;
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
     * Whether a record has the chunk's timestamp type and head; the first record determines
     * both.
     */
    boolean takes(ConsumerRecord record) {
        ByteBuffer value = (ByteBuffer) record.value();
        int alike = value == null ? head.length : alike(value);
        if (records > 0) {
            return alike == head.length && record.timestampType().id == timestampType;
        }
        if (alike < head.length) {
            head = alike < Cells.LEAST_HEAD ? Cells.NO_HEAD : Arrays.copyOf(head, alike);
        }
        return true;
    }

    /** How many bytes of the head a value begins with. */
    private int alike(ByteBuffer value) {
        if (head.length == 0) {
            return 0;
        }
        int different = value.mismatch(ByteBuffer.wrap(head));
        return different < 0 ? head.length : different;
    }

    /** The head expected of the next chunk. */
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
        Header[] added = record.headers().toArray();
        if (added.length > 0) {
            headers.pad(records);
            headers.add(ByteBuffer.wrap(json(added)));
        }
        records++;
    }

    /** The chunk as a frame, in the layout of chunks.py; null if there are no records. */
    byte[] frame(int task, int epoch) {
        if (records == 0) {
            return null;
        }
        if (headers.records > 0) {
            headers.pad(records);
        }
        byte[][] sections = new byte[][] {
            partition.topic().getBytes(StandardCharsets.UTF_8),
            bytes(offsets, records), bytes(timestamps, records),
            keys.valid(), keys.ends(), keys.bytes(),
            head, values.valid(), values.ends(), values.bytes(),
            headers.valid(), headers.ends(), headers.bytes()
        };
        int size = FRAME_HEAD;
        for (int i = 0; i < sections.length; i++) {
            size += padded(sections[i].length);
        }
        ByteBuffer out = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
        out.putInt(KIND_CHUNK).putInt(task).putInt(epoch).putInt(partition.partition());
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

    /** Sections of a frame begin at multiples of 8, as Arrow requires of its buffers. */
    private static int padded(int length) {
        return (length + 7) & ~7;
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

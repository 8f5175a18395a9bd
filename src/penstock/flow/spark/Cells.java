// Compiled by Janino in Spark's JVM, so without generics, and without classes that capture variables.
package penstock;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** A column of byte strings in Arrow's layout: validity bits, the end of each, and all bytes. */
class Cells {
    static final int LEAST_HEAD = 64; // bytes; a shorter one is not worth it
    static final byte[] NO_HEAD = new byte[0];

    int records;
    int size;
    private boolean gaps;
    private byte[] data = new byte[1024];
    private int[] ends = new int[64];
    private byte[] valid = new byte[8];

    void clear() {
        records = 0;
        size = 0;
        gaps = false;
        Arrays.fill(valid, (byte) 0);
    }

    void add(ByteBuffer cell) {
        if (records + 1 >= ends.length) {
            ends = Arrays.copyOf(ends, 2 * ends.length);
            valid = Arrays.copyOf(valid, 2 * valid.length);
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
            valid[records >> 3] |= (byte) (1 << (records & 7));
        }
        records++;
        ends[records] = size;
    }

    /** Adds nulls up to a number of records. */
    void pad(int upTo) {
        while (records < upTo) {
            add(null);
        }
    }

    byte[] bytes() {
        return Arrays.copyOf(data, size);
    }

    /** The longest common prefix of two or more cells; empty if it is too short. */
    byte[] head() {
        int head = records > 1 ? ends[1] : 0;
        for (int i = 1; i < records && head >= LEAST_HEAD; i++) {
            int different = Arrays.mismatch(data, 0, head, data, ends[i], ends[i + 1]);
            head = different < 0 ? head : different;
        }
        return head < LEAST_HEAD ? NO_HEAD : Arrays.copyOf(data, head);
    }

    /** Empty if there are no records. */
    byte[] ends() {
        if (records == 0) {
            return new byte[0];
        }
        ByteBuffer out = ByteBuffer.allocate(4 * (records + 1)).order(ByteOrder.LITTLE_ENDIAN);
        out.asIntBuffer().put(ends, 0, records + 1);
        return out.array();
    }

    /** Validity bits; empty if there are no nulls. */
    byte[] valid() {
        return gaps ? Arrays.copyOf(valid, (records + 7) / 8) : new byte[0];
    }
}

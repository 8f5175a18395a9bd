// Moves rows between a JDBC driver and Python, a column at a time: a call from Python for every cell
// would take longer than everything else. Spark's compiler compiles it on first use (Janino: no
// lambdas, no diamonds, casts instead of type arguments).
//
// Columns have the layout of Arrow arrays, so that Python can use them without conversion. A letter
// says what a column holds:
//
//     l  whole numbers, truth values as 0 and 1     D  dates, days since 1970
//     d  floating point numbers                     T  times, microseconds of the day
//     n  decimal numbers, as texts                  Z  times with an offset, the same in UTC
//     s  texts                                      M  timestamps, microseconds since 1970
//     c  texts in CLOBs                             b  bytes
//     x  texts in SQLXML                            B  bytes in BLOBs
//     z  truth values, when written                 F  timestamps, and nanoseconds beyond those
//
// Java's zone has to be UTC: then a timestamp or a time equals its digits, and in a column with a
// zone it is an instant.

package penstock;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Blob;
import java.sql.Clob;
import java.sql.Date;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLXML;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public final class Rows {
    private static final long DAY_US = 86400000000L;

    /** The start of the Gregorian calendar, from which Java's and Python's dates agree, in ms. */
    private static final long GREGORIAN_MS = -12219292800000L;

    private Rows() {
    }

    /** Fills its arrays with rows; each call overwrites the previous rows. */
    public static final class Reader {
        public final long[][] numbers;
        public final double[][] fractions;
        public final byte[][] bytes;
        public final int[][] ends;
        public final byte[][] valid;
        public final int[] nulls;
        public final short[][] rests;

        /** The cells of these rows that the driver cannot convert: {column, row, value, why}. */
        public final List failed = new ArrayList();

        private final ResultSet rows;
        private final char[] kinds;
        private final int most;
        private final boolean[] old; // the driver does not support java.time for this column

        public Reader(ResultSet rows, String kinds, int most) {
            this.rows = rows;
            this.kinds = kinds.toCharArray();
            this.most = most;
            int count = this.kinds.length;
            numbers = new long[count][];
            fractions = new double[count][];
            bytes = new byte[count][];
            ends = new int[count][];
            valid = new byte[count][];
            nulls = new int[count];
            rests = new short[count][];
            old = new boolean[count];
            for (int at = 0; at < count; at++) {
                valid[at] = new byte[(most + 7) / 8];
                switch (this.kinds[at]) {
                    case 'd':
                        fractions[at] = new double[most];
                        break;
                    case 'n': case 's': case 'c': case 'x': case 'b': case 'B':
                        ends[at] = new int[most + 1];
                        bytes[at] = new byte[1024];
                        break;
                    case 'F':
                        rests[at] = new short[most];
                        numbers[at] = new long[most];
                        break;
                    default:
                        numbers[at] = new long[most];
                }
            }
        }

        /** Skips rows; false if there are fewer. */
        public boolean skip(int count) throws SQLException {
            for (int at = 0; at < count; at++) {
                if (!rows.next()) {
                    return false;
                }
            }
            return true;
        }

        /** Reads the next rows and returns their number: fewer if they are large, 0 at the end. */
        public int fill(long mostBytes) throws SQLException {
            for (int at = 0; at < kinds.length; at++) {
                Arrays.fill(valid[at], (byte) 0);
                nulls[at] = 0;
            }
            failed.clear();
            int row = 0;
            long size = 0;
            while (row < most && size < mostBytes && rows.next()) {
                for (int at = 0; at < kinds.length; at++) {
                    int before = ends[at] == null ? 0 : ends[at][row];
                    boolean present = convertible(at, row);
                    if (present) {
                        valid[at][row >> 3] |= (byte) (1 << (row & 7));
                    } else {
                        nulls[at]++;
                    }
                    if (ends[at] != null) {
                        if (!present) {
                            ends[at][row + 1] = before;
                        }
                        size += ends[at][row + 1] - before;
                    }
                }
                row++;
            }
            return row;
        }

        /** Whether there is a value; also false if the driver cannot convert it. */
        private boolean convertible(int at, int row) throws SQLException {
            try {
                return cell(at, row);
            } catch (SQLException error) {
                String state = error.getSQLState();
                if (state == null || !state.startsWith("22")) { // a data exception
                    throw error;
                }
                failed(at, row, error.getMessage());
            } catch (ArithmeticException error) {
                failed(at, row, "it is too far away");
            }
            return false;
        }

        private void failed(int at, int row, String why) {
            String value = "?";
            try {
                value = rows.getString(at + 1);
            } catch (SQLException unknown) {
                value = "?";
            }
            failed.add(new String[] {String.valueOf(at), String.valueOf(row), value, why});
        }

        private boolean cell(int at, int row) throws SQLException {
            int place = at + 1;
            switch (kinds[at]) {
                case 'l':
                    numbers[at][row] = rows.getLong(place);
                    return !rows.wasNull();
                case 'd':
                    fractions[at][row] = rows.getDouble(place);
                    return !rows.wasNull();
                case 'n':
                    BigDecimal number = rows.getBigDecimal(place);
                    return number != null && text(at, row, number.toPlainString());
                case 's':
                    return text(at, row, rows.getString(place));
                case 'c':
                    Clob clob = rows.getClob(place);
                    return clob != null && text(at, row, clob.getSubString(1L, (int) clob.length()));
                case 'x':
                    SQLXML xml = rows.getSQLXML(place);
                    return xml != null && text(at, row, xml.getString());
                case 'b':
                    return put(at, row, rows.getBytes(place));
                case 'B':
                    Blob blob = rows.getBlob(place);
                    return blob != null && put(at, row, blob.getBytes(1L, (int) blob.length()));
                case 'D':
                    Date date = rows.getDate(place);
                    if (date != null) {
                        numbers[at][row] = date.getTime() < GREGORIAN_MS
                            ? oldDate(place, date)
                            : date.toLocalDate().toEpochDay();
                    }
                    return date != null;
                case 'T':
                    return time(at, row);
                case 'Z':
                    return offsetTime(at, row);
                default:
                    Timestamp moment = rows.getTimestamp(place);
                    if (moment != null) {
                        long seconds = moment.getTime() < GREGORIAN_MS
                            ? oldSeconds(place, moment)
                            : Math.floorDiv(moment.getTime(), 1000L);
                        int nanos = moment.getNanos();
                        numbers[at][row] =
                            Math.addExact(Math.multiplyExact(seconds, 1000000L), nanos / 1000);
                        if (rests[at] != null) {
                            rests[at][row] = (short) (nanos % 1000);
                        }
                    }
                    return moment != null;
            }
        }

        /** Drivers agree on days before 1582 only in java.time's classes, not in java.sql's. */
        private long oldDate(int place, Date date) {
            try {
                return ((LocalDate) rows.getObject(place, LocalDate.class)).toEpochDay();
            } catch (SQLException unknown) {
                return date.toLocalDate().toEpochDay();
            } catch (LinkageError unknown) {
                return date.toLocalDate().toEpochDay();
            } catch (RuntimeException unknown) {
                return date.toLocalDate().toEpochDay();
            }
        }

        private long oldSeconds(int place, Timestamp moment) {
            LocalDateTime local = moment.toLocalDateTime();
            try {
                local = (LocalDateTime) rows.getObject(place, LocalDateTime.class);
            } catch (SQLException unknown) {
                return local.toEpochSecond(ZoneOffset.UTC);
            } catch (LinkageError unknown) {
                return local.toEpochSecond(ZoneOffset.UTC);
            } catch (RuntimeException unknown) {
                return local.toEpochSecond(ZoneOffset.UTC);
            }
            return local.toEpochSecond(ZoneOffset.UTC);
        }

        private boolean time(int at, int row) throws SQLException {
            if (!old[at]) {
                try {
                    LocalTime time = (LocalTime) rows.getObject(at + 1, LocalTime.class);
                    if (time != null) {
                        numbers[at][row] = time.toNanoOfDay() / 1000L;
                    }
                    return time != null;
                } catch (SQLException unknown) {
                    old[at] = true;
                } catch (LinkageError unknown) {
                    old[at] = true;
                } catch (RuntimeException unknown) {
                    old[at] = true;
                }
            }
            Time time = rows.getTime(at + 1);
            if (time != null) {
                numbers[at][row] = Math.floorMod(time.getTime() * 1000L, DAY_US);
            }
            return time != null;
        }

        private boolean offsetTime(int at, int row) throws SQLException {
            if (!old[at]) {
                try {
                    OffsetTime time = (OffsetTime) rows.getObject(at + 1, OffsetTime.class);
                    if (time != null) {
                        OffsetTime utc = time.withOffsetSameInstant(ZoneOffset.UTC);
                        numbers[at][row] = utc.toLocalTime().toNanoOfDay() / 1000L;
                    }
                    return time != null;
                } catch (SQLException unknown) {
                    old[at] = true;
                } catch (LinkageError unknown) {
                    old[at] = true;
                } catch (RuntimeException unknown) {
                    old[at] = true;
                }
            }
            return time(at, row);
        }

        private boolean text(int at, int row, String text) {
            return text != null && put(at, row, text.getBytes(StandardCharsets.UTF_8));
        }

        private boolean put(int at, int row, byte[] cell) {
            if (cell == null) {
                return false;
            }
            int start = ends[at][row];
            int end = Math.addExact(start, cell.length);
            if (end > bytes[at].length) {
                long size = Math.min(Math.max(2L * bytes[at].length, end), Integer.MAX_VALUE - 8L);
                bytes[at] = Arrays.copyOf(bytes[at], (int) size);
            }
            System.arraycopy(cell, 0, bytes[at], start, cell.length);
            ends[at][row + 1] = end;
            return true;
        }
    }

    /** Binds rows to a statement, and runs it in batches. */
    public static final class Writer {
        private static final int BATCH_ROWS = 1000;

        private final PreparedStatement statement;
        private final char[] kinds;
        private final int[] types; // of java.sql.Types, for nulls
        private final byte[][] valid;
        private final long[][] numbers;
        private final double[][] fractions;
        private final byte[][] bytes;
        private final int[][] ends;

        public Writer(PreparedStatement statement, String kinds, int[] types) {
            this.statement = statement;
            this.kinds = kinds.toCharArray();
            this.types = types;
            int count = this.kinds.length;
            valid = new byte[count][];
            numbers = new long[count][];
            fractions = new double[count][];
            bytes = new byte[count][];
            ends = new int[count][];
        }

        public void numbers(int at, byte[] valid, long[] cells) {
            this.valid[at] = valid;
            numbers[at] = cells;
        }

        public void fractions(int at, byte[] valid, double[] cells) {
            this.valid[at] = valid;
            fractions[at] = cells;
        }

        public void bytes(int at, byte[] valid, int[] ends, byte[] cells) {
            this.valid[at] = valid;
            this.ends[at] = ends;
            bytes[at] = cells;
        }

        /** Runs the statement for these rows. Returns how many rows it changed for each, negative
         *  where the driver does not report it. `order` are the columns of its parameters. */
        public int[] run(int[] rows, int[] order) throws SQLException {
            int[] changed = new int[rows.length];
            int done = 0;
            for (int next = 0; next < rows.length; next++) {
                for (int place = 0; place < order.length; place++) {
                    bind(place + 1, order[place], rows[next]);
                }
                statement.addBatch();
                if (next + 1 - done == BATCH_ROWS || next + 1 == rows.length) {
                    int[] counts = statement.executeBatch();
                    System.arraycopy(counts, 0, changed, done, Math.min(counts.length, next + 1 - done));
                    done = next + 1;
                }
            }
            return changed;
        }

        /** The same row by row, for drivers that do not report how many rows a batch changed. */
        public int[] runSingly(int[] rows, int[] order) throws SQLException {
            int[] changed = new int[rows.length];
            for (int next = 0; next < rows.length; next++) {
                for (int place = 0; place < order.length; place++) {
                    bind(place + 1, order[place], rows[next]);
                }
                changed[next] = statement.executeUpdate();
            }
            return changed;
        }

        private void bind(int place, int at, int row) throws SQLException {
            if (valid[at] != null && (valid[at][row >> 3] >> (row & 7) & 1) == 0) {
                statement.setNull(place, types[at]);
                return;
            }
            switch (kinds[at]) {
                case 'l':
                    statement.setLong(place, numbers[at][row]);
                    break;
                case 'z':
                    statement.setBoolean(place, numbers[at][row] != 0L);
                    break;
                case 'd':
                    statement.setDouble(place, fractions[at][row]);
                    break;
                case 'n':
                    statement.setBigDecimal(place, new BigDecimal(text(at, row)));
                    break;
                case 's':
                    statement.setString(place, text(at, row));
                    break;
                case 'b':
                    statement.setBytes(place, Arrays.copyOfRange(bytes[at], ends[at][row], ends[at][row + 1]));
                    break;
                case 'D':
                    date(place, LocalDate.ofEpochDay(numbers[at][row]));
                    break;
                case 'T':
                    statement.setTime(place, new Time(numbers[at][row] / 1000L));
                    break;
                default:
                    long seconds = Math.floorDiv(numbers[at][row], 1000000L);
                    int nanos = (int) (Math.floorMod(numbers[at][row], 1000000L) * 1000L);
                    moment(place, seconds, nanos);
            }
        }

        private void date(int place, LocalDate date) throws SQLException {
            if (date.getYear() < 1583) {
                try {
                    statement.setObject(place, date);
                    return;
                } catch (SQLException unknown) {
                    // use java.sql's class, as for later days
                } catch (LinkageError unknown) {
                    // the same
                }
            }
            statement.setDate(place, Date.valueOf(date));
        }

        private void moment(int place, long seconds, int nanos) throws SQLException {
            if (seconds * 1000L < GREGORIAN_MS) {
                try {
                    statement.setObject(
                        place, LocalDateTime.ofEpochSecond(seconds, nanos, ZoneOffset.UTC));
                    return;
                } catch (SQLException unknown) {
                    // use java.sql's class, as for later days
                } catch (LinkageError unknown) {
                    // the same
                }
            }
            Timestamp moment = new Timestamp(seconds * 1000L);
            moment.setNanos(nanos);
            statement.setTimestamp(place, moment);
        }

        private String text(int at, int row) {
            int start = ends[at][row];
            return new String(bytes[at], start, ends[at][row + 1] - start, StandardCharsets.UTF_8);
        }
    }
}

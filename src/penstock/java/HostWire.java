package penstock;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import org.apache.kafka.common.errors.RetriableException;

/**
 * The connection to the worker: frames of JSON, each after its length in four bytes, big-endian.
 * The worker sends orders. A frame with `re` answers the order of that number; one with `event` is
 * news.
 */
class HostWire {
    static final ObjectMapper JSON = new ObjectMapper();

    private final SocketChannel channel;
    private final Object sending = new Object();

    HostWire(String path) throws IOException {
        channel = SocketChannel.open(UnixDomainSocketAddress.of(path));
    }

    /** The next order; null when the worker has closed the connection, or ended. */
    JsonNode read() throws IOException {
        ByteBuffer length = ByteBuffer.allocate(4);
        if (!filled(length)) {
            return null;
        }
        ByteBuffer text = ByteBuffer.allocate(length.getInt(0));
        return filled(text) ? JSON.readTree(text.array()) : null;
    }

    private boolean filled(ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining()) {
            if (channel.read(buffer) < 0) {
                return false;
            }
        }
        return true;
    }

    /** Sends a frame; from any thread. A worker that has gone needs no answers. */
    void send(ObjectNode frame) {
        try {
            byte[] text = JSON.writeValueAsBytes(frame);
            ByteBuffer out = ByteBuffer.allocate(4 + text.length);
            out.putInt(text.length).put(text).flip();
            synchronized (sending) {
                while (out.hasRemaining()) {
                    channel.write(out);
                }
            }
        } catch (IOException e) {
            JavaHost.end(JavaHost.WORKER_GONE);
        }
    }

    /** Answers the order of this number. */
    void answer(int order, Object result) {
        ObjectNode frame = JsonNodeFactory.instance.objectNode();
        frame.put("re", order);
        frame.set("result", JSON.valueToTree(result));
        send(frame);
    }

    void refuse(int order, Throwable error) {
        ObjectNode frame = JsonNodeFactory.instance.objectNode();
        frame.put("re", order);
        frame.set("error", described(error));
        send(frame);
    }

    static ObjectNode event(String what) {
        ObjectNode frame = JsonNodeFactory.instance.objectNode();
        frame.put("event", what);
        return frame;
    }

    /** An error as the worker needs it: its class, message and stack, and whether a retry may help. */
    static ObjectNode described(Throwable error) {
        StringWriter trace = new StringWriter();
        error.printStackTrace(new PrintWriter(trace, true));
        ObjectNode node = JsonNodeFactory.instance.objectNode();
        node.put("class", error.getClass().getName());
        node.put("message", error.getMessage());
        node.put("trace", trace.toString());
        boolean retriable = false;
        Throwable cause = error;
        while (cause != null) {
            retriable = retriable
                || cause instanceof RetriableException
                || cause instanceof org.apache.kafka.connect.errors.RetriableException;
            cause = cause.getCause();
        }
        node.put("retriable", retriable);
        return node;
    }
}

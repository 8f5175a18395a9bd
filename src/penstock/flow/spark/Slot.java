// Compiled by Janino in Spark's JVM, so without generics, and without classes that capture variables.
package penstock;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/** The JVM side of a slot: frames for the Python stage, and commands from it. */
class Slot implements Iterator, TaskCompletionListener, Runnable {
    private static final int KIND_EVENT = 0;
    private static final long LOOK_MS = 200; // how soon a killed task is noticed
    private static final int CONNECT_MS = 60000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final TaskContext context = TaskContext.get();
    private final LinkedBlockingQueue frames = new LinkedBlockingQueue();
    private final Map consumers = new ConcurrentHashMap(); // Integer -> SlotConsumer
    private final ServerSocket server;
    private final String token;
    private volatile boolean ended = false; // no more commands follow
    private byte[] next = null;

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
        return frame;
    }

    public void remove() {
        throw new UnsupportedOperationException();
    }

    public void onTaskCompletion(TaskContext context) {
        end();
    }

    /** Reads commands until the stage closes the connection. */
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
            // the stage has ended, or never connected
        } finally {
            end();
        }
    }

    private void obey(JsonNode command) {
        Integer task = Integer.valueOf(command.get("task").asInt());
        String what = command.get("do").asText();
        if (what.equals("open")) {
            SlotConsumer consumer = new SlotConsumer(this, task.intValue(), command);
            consumers.put(task, consumer);
            start(consumer, "consumer-" + command.get("name").asText());
            return;
        }
        SlotConsumer consumer = (SlotConsumer) consumers.get(task);
        if (consumer != null) {
            consumer.tell(what, command);
        }
    }

    private void end() {
        ended = true;
        Iterator each = consumers.values().iterator();
        while (each.hasNext()) {
            ((SlotConsumer) each.next()).tell("close", null);
        }
        try {
            server.close();
        } catch (IOException e) {
            // already closed
        }
    }

    /** Sends an event to the stage; from any thread. */
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

    /** Sends a chunk to the stage; from any thread. */
    void give(byte[] frame) {
        frames.add(frame);
    }

    void closed(int task) {
        consumers.remove(Integer.valueOf(task));
    }

    private static void start(Runnable what, String name) {
        Thread thread = new Thread(what, name);
        thread.setDaemon(true);
        thread.start();
    }

    static ObjectNode event(String what, int task) {
        ObjectNode event = JsonNodeFactory.instance.objectNode();
        event.put("event", what);
        event.put("task", task);
        return event;
    }
}

package penstock;

import java.util.function.Supplier;

/** A name, where Kafka Connect expects a supplier of one. */
class HostName implements Supplier {
    private final String name;

    HostName(String name) {
        this.name = name;
    }

    public Object get() {
        return name;
    }
}

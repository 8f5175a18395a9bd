// Compiled by Janino in Spark's JVM, so without generics, and without classes that capture variables.
package penstock;

import java.util.Iterator;
import org.apache.spark.api.java.function.MapPartitionsFunction;

/** The rows of a slot's Spark task: frames, until the stage ends. It ignores its input. */
public class SlotReading implements MapPartitionsFunction {
    public Iterator call(Iterator numbers) {
        while (numbers.hasNext()) {
            numbers.next();
        }
        return new Slot();
    }
}

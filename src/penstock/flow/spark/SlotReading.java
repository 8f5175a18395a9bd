// Compiled by Janino in Spark's JVM, so without generics, and without classes that capture variables.
package penstock;

import java.util.Iterator;
import org.apache.spark.api.java.function.FlatMapFunction;

/** The elements of a slot's Spark task: frames, until the stage ends. It ignores its input. */
public class SlotReading implements FlatMapFunction {
    public Iterator call(Object numbers) {
        return new Slot();
    }
}

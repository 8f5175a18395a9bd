// Spark's notes of how far a query is, as files that Hadoop's own way would give permissions to, for
// which it starts the program `chmod`, twice for every file. Compiled by Janino in Spark's JVM.
package penstock;

import java.net.URI;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Local files under a scheme of their own, with the permissions that the process gives them. */
public class Scratch extends RawLocalFileSystem {
    private static final URI NAME = URI.create("penstock:///");

    public URI getUri() {
        return NAME;
    }

    public void setPermission(Path path, FsPermission permission) {
        // as the process made it
    }
}

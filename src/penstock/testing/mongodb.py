"""A MongoDB for tests: mongo-java-server, which keeps its documents in memory, in a process of its
own on the loopback.

It does reads and writes. Its change streams are not MongoDB's: a source is tested with
`penstock.testing.change_streams`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock.host import jars
from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.testing.waiting import wait_until

_SMALL: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_START_S: Final = 60.0
_STOP_S: Final = 30.0
_PROGRAM: Final = """\
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;

public class MongoJavaServer {
  public static void main(String[] arguments) throws Exception {
    MongoServer server = new MongoServer(new MemoryBackend());
    if (Boolean.parseBoolean(arguments[1])) {
      server.enableOplog();
    }
    server.bind("127.0.0.1", Integer.parseInt(arguments[0]));
    Thread.sleep(Long.MAX_VALUE);
  }
}
"""


class MongoServer:
    """A server, started with `start` or as a context manager. It forgets everything when it ends;
    started again, it has the same port. With an `oplog` it opens change streams, as a source does
    before it copies what exists; what they tell is not MongoDB's."""

    def __init__(self, *, options: Sequence[str] = _SMALL, oplog: bool = False) -> None:
        self.port = free_port()
        self.uri = f"mongodb://127.0.0.1:{self.port}/"
        self._options = options
        self._oplog = oplog
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-mongodb-")
        self._process: Process | None = None

    def start(self) -> None:
        """Starts the server, and returns when it answers."""
        folder = Path(self._folder.name)
        program = folder / "MongoJavaServer.java"
        program.write_text(_PROGRAM)
        classes = os.pathsep.join(str(jar) for jar in sorted(jars.folder("mongodb").glob("*.jar")))
        command = [jars.java(), *self._options, "-cp", classes, str(program)]
        command += [str(self.port), str(self._oplog).lower()]
        self._process = process = Process(command, folder / "log", name="mongo-java-server")
        process.start()

        def answers() -> bool:
            assert process.alive, f"mongo-java-server has ended: {(folder / 'log').read_text()}"
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            return False

        wait_until(answers, _START_S, "mongo-java-server")

    def kill(self) -> None:
        """Ends it at once."""
        if self._process is not None and self._process.alive:
            self._process.kill()

    def close(self) -> None:
        if self._process is not None and self._process.alive:
            self._process.stop(_STOP_S)
        self._folder.cleanup()

    def __enter__(self) -> MongoServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

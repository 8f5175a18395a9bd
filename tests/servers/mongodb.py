"""Servers for tests that speak MongoDB's protocol, each in its own process on loopback:
mongo-java-server, which keeps its documents in memory, and FerretDB, which keeps them in SQLite.

They read and write. The change streams of the first differ from MongoDB's, and the second has
none: a source is tested with `tests/connectors/mongodb/wire.py`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock.host import jars
from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.testing.waiting import is_listening, wait_until

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
    """A server, started with `start` or as a context manager. It forgets everything when it ends,
    but keeps its port. With an `oplog` it opens change streams, as a source does before it copies
    existing documents; their events differ from MongoDB's."""

    name = "mongo-java-server"

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
        log = folder / "log"
        self._process = process = Process(self._command(folder), log, name=self.name)
        process.start()

        def answers() -> bool:
            assert process.alive, f"{self.name} has ended: {log.read_text()}"
            return is_listening(self.port)

        wait_until(answers, _START_S, self.name)

    def _command(self, folder: Path) -> list[str]:
        program = folder / "MongoJavaServer.java"
        program.write_text(_PROGRAM)
        classes = os.pathsep.join(str(jar) for jar in sorted(jars.folder("mongodb").glob("*.jar")))
        command = [jars.java(), *self._options, "-cp", classes, str(program)]
        return [*command, str(self.port), str(self._oplog).lower()]

    def kill(self) -> None:
        """Kills it."""
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


class FerretServer(MongoServer):
    """FerretDB. It keeps its documents across restarts."""

    name = "ferretdb"

    def __init__(self) -> None:
        super().__init__()
        self._data = tempfile.TemporaryDirectory(prefix="penstock-ferretdb-")

    @staticmethod
    def program() -> Path:
        """Where `make tools` builds it."""
        return jars.home() / "tools" / "bin" / "ferretdb"

    def close(self) -> None:
        super().close()
        self._data.cleanup()

    def _command(self, folder: Path) -> list[str]:
        return [str(self.program()), f"127.0.0.1:{self.port}", self._data.name]

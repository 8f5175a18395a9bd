"""Sinks that write files under chaos."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import orjson

from penstock.connectors.files.stores.hadoop import Hadoop, HadoopOptions
from tests.servers.hadoop import HadoopServer

from .base import Family
from .objects import BY_COUNT_AND_TIME, PLAIN, Files


class Hdfs(Files):
    """Confluent's sink to HDFS. The namenode can be killed, and it refuses access. Names have the
    offsets, so a record is there once."""

    def __init__(self) -> None:
        self._server = HadoopServer()
        self._client: Any = None

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        """The root folder is there."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.hdfs.HdfsSinkConnector",
            "store.url": f"hdfs://127.0.0.1:{port}",
            "format.class": "io.confluent.connect.hdfs.json.JsonFormat",
            **BY_COUNT_AND_TIME,
            **PLAIN,
        }

    def refuse(self, keys: Iterable[str]) -> None:
        self._server.make_folder("/", "000")

    def mend(self) -> None:
        self._server.make_folder("/", "777")

    def files(self) -> Iterable[tuple[str, bytes]]:
        self._client = Hadoop(HadoopOptions(self._server.url))
        for topic in self._folders("/topics"):
            for partition in self._folders(topic):
                for entry in self._client.entries(partition):
                    yield entry.path, self._client.read(entry.path)

    def _folders(self, path: str) -> Iterable[str]:
        """Without those of tasks' sessions."""
        for entry in self._client.entries(path):
            if not entry.path.endswith("/+tmp"):
                yield entry.path

    def kill(self) -> None:
        self._server.stop_namenode()

    def start(self) -> None:
        self._server.start_namenode()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._server.close()


class Immutable(Family):
    """A target in a folder of this machine, without a server: it refuses writes while it has the
    attribute `i`, which only root may set."""

    networked = kills = False

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="penstock-chaos-")
        self.folder = Path(self._temporary.name)

    @property
    def port(self) -> int:
        raise NotImplementedError("there is no server")

    def refuse(self, keys: Iterable[str]) -> None:
        _chattr("+i", self.folder)

    def mend(self) -> None:
        _chattr("-i", self.folder)

    def kill(self) -> None:
        raise NotImplementedError("there is no server")

    def start(self) -> None:
        raise NotImplementedError("there is no server")

    def close(self) -> None:
        self.mend()
        with suppress(FileNotFoundError):
            self._temporary.cleanup()


def _chattr(change: str, folder: Path) -> None:
    subprocess.run(["chattr", "-R", change, str(folder)], check=True)


class LocalFolder(Immutable, Files):
    """Penstock's own sink to a folder, with Confluent's names."""

    def prepare(self, topic: str) -> None:
        """The folder is there."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.penstock.files.LocalFileSinkConnector",
            "store.url": str(self.folder / "lake"),
            "format.class": "JsonFormat",
            **BY_COUNT_AND_TIME,
            **PLAIN,
        }

    def files(self) -> Iterable[tuple[str, bytes]]:
        for file in (self.folder / "lake").rglob("[!.]*.json"):
            yield str(file), file.read_bytes()


class Lines(Immutable):
    """FileStreamSink. It appends at once, so what was not committed is there again after a restart.
    Lines are whole: a worker that is killed while it writes one leaves none in half."""

    keyed = deletes = reports = False
    blocks = True
    settings: ClassVar = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}

    def prepare(self, topic: str) -> None:
        """The folder is there."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(self.folder / "lines.txt"),
            **self.settings,
        }

    def stored(self) -> Iterable[tuple[str, int]]:
        for line in (self.folder / "lines.txt").read_bytes().splitlines():
            row = orjson.loads(line)
            yield row["id"], int(row["n"])

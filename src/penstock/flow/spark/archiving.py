"""Creates Spark's class archive: `python -m penstock.flow.spark.archiving FILE` starts Spark, and
its JVM writes the file when it ends."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from penstock.errors import StartupFailed
from penstock.flow.spark import java, job
from penstock.flow.spark.session import Session, archiving_settings, class_path
from penstock.host import class_archive, jars

_MAKING_S: Final = 600.0
_WRITING_S: Final = 300.0
_POLL_MS: Final = 100
_DESERIALIZER: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


def make(say: Callable[[str], None]) -> Path:
    """The archive; creates it if it is missing (about ten seconds, 100 MB). Raises
    StartupFailed."""
    if not java.compiled():  # they belong in the archive
        session = Session({}, say)
        session.start()
        session.stop()
    classes = [*jars.pyspark_jars(), *class_path(say)]
    return class_archive.make("spark", jars.java(), classes, _run, say)


def _run(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(path)],
        capture_output=True,
        text=True,
        timeout=_MAKING_S,
        check=False,
    )
    if done.returncode != 0:
        raise StartupFailed(f"Java wrote no archive of its classes:\n{done.stderr[-2000:]}")


def _write(path: Path) -> None:
    """Starts Spark with the classes that slots and their consumers load."""
    session = Session(archiving_settings(path), lambda text: None)
    session.start()
    _consume(session.get()._jvm)
    job.run(session.get(), leave)
    session.stop(_WRITING_S)
    if not path.is_file() or session.exit_code != 0:
        raise StartupFailed(
            f"Spark's JVM exited with {session.exit_code} and wrote no class archive"
        )


def _consume(jvm: Any) -> None:
    """Creates a consumer such as sinks have, which finds no broker."""
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "archiving",
        "key.deserializer": _DESERIALIZER,
        "value.deserializer": _DESERIALIZER,
    }
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    consumer.subscribe(["archiving"])
    consumer.poll(jvm.java.time.Duration.ofMillis(_POLL_MS))
    consumer.close()
    for name in java.CLASSES:
        jvm.java.lang.Class.forName(f"penstock.{name}")


def leave(frames: Iterable[bytes]) -> Iterator[bytes]:
    """A stage that takes the first frame and ends its slot, as stages do: the connection that the
    frame describes is opened and closed."""
    started = json.loads(next(iter(frames))[4:])
    with socket.create_connection((started["host"], started["port"])) as connection:
        connection.sendall(started["token"].encode() + b"\n")
    yield from frames


if __name__ == "__main__":
    _write(Path(sys.argv[1]))

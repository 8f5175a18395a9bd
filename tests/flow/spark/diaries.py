"""A sink whose calls tests can read: each is a line of a file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import orjson
from pyspark import cloudpickle

from penstock.api import (
    Failed,
    Plugin,
    Props,
    Records,
    SinkConnector,
    SinkContext,
    SinkWriter,
    TopicPartition,
)
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FOLDER = Key("folder", STRING, importance=HIGH, doc="Where the diary is.")


class DiaryWriter(SinkWriter):
    """Notes every call. Tests override what they test."""

    def __init__(self, folder: Path, context: SinkContext) -> None:
        self.folder = folder
        self.context = context
        self.note("open")

    def note(self, *call: Any) -> None:
        with (self.folder / "diary").open("ab") as out:
            out.write(orjson.dumps(call) + b"\n")

    def write(self, records: Records, failed: Failed) -> None:
        rows = zip(records.partitions, records.offsets, records.values.values, strict=True)
        self.note("write", list(rows))

    def flush(self) -> None:
        self.note("flush")

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.note("pre_commit", by_partition(reached))
        return reached

    def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:
        self.note("assigned", by_partition(partitions))

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:
        self.note("revoked", sorted(at.partition for at in partitions), lost)

    def close(self) -> None:
        self.note("close")


def by_partition(offsets: Mapping[TopicPartition, int]) -> list[tuple[int, int]]:
    return sorted((at.partition, offset) for at, offset in offsets.items())


class Diary(SinkConnector):
    """A sink connector with one of these writers."""

    plugin = Plugin("test.Diary", "1", ConfigDef(FOLDER))
    writer: ClassVar[type[DiaryWriter]] = DiaryWriter

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        return self.writer(Path(config[FOLDER]), context)


def keeper(writer: type[DiaryWriter], folder: Path) -> dict[str, Any]:
    """The connector part of a sink task's plan, with this writer."""
    folder.mkdir(exist_ok=True)
    connector = type("Diary", (Diary,), {"writer": writer})
    return {"connector": connector, "config": Diary.plugin.config.parse({"folder": str(folder)})}


def calls(folder: Path, *kinds: str) -> list[list[Any]]:
    """The calls so far, in order; of these kinds, if any are named."""
    file = folder / "diary"
    diary = file.read_bytes() if file.exists() else b""
    complete = diary[: diary.rfind(b"\n") + 1]  # another process may be writing the last line
    found = [orjson.loads(line) for line in complete.splitlines()]
    return [call for call in found if not kinds or call[0] in kinds]


def batches(folder: Path) -> list[list[Any]]:
    """The records of each `write`: partition, offset and value."""
    return [rows for _, rows in calls(folder, "write")]


def written(folder: Path) -> list[str]:
    """The values that were written, in order."""
    return [value for rows in batches(folder) for _, _, value in rows]

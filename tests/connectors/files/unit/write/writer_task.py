"""A FileWriter called as a worker calls it, on a store in memory."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.api import Column, Failed, Header, Records, TopicPartition
from penstock.api.schema import Schema, Value
from penstock.connectors.files.settings.local import LOCAL_SINK, local_plan
from penstock.connectors.files.stores.store import (
    FileExists,
    NewFile,
    Origin,
    Store,
    StoreUnavailable,
)
from penstock.connectors.files.write.plan import SchemaFolder
from penstock.connectors.files.write.writer import FileWriter
from penstock.testing.contexts import SinkContextStub


class MemoryStore(Store):
    """Its files are in a dict, which stores may share."""

    def __init__(self, files: dict[str, bytes], chance: random.Random | None = None) -> None:
        self.files = files
        self.away = False
        self.chance = chance  # makes one call in three fail
        self.commits: list[str] = []
        self.ends: dict[str, int] = {}  # the last offset in each file
        self.origins: dict[str, Origin] = {}

    def create(self, path: str) -> NewFile:
        return _MemoryFile(path, self)

    def check(self) -> None:
        if self.away or (self.chance is not None and self.chance.random() < 0.3):
            raise StoreUnavailable("the store is away")


class _MemoryFile(NewFile):
    def __init__(self, path: str, store: MemoryStore) -> None:
        super().__init__(path)
        self._store = store

    def settle(self) -> None:
        self._store.check()

    def commit(self) -> None:
        self._store.check()
        if self.create_only and self._store.origins.get(self.path) == self.origin:
            raise FileExists(self.path, self._store.ends[self.path])
        self._store.ends[self.path] = int(self.about["endOffset"])
        self._store.origins[self.path] = self.origin
        self._store.commits.append(self.path)
        self._store.files[self.path] = b"".join(self.held)

    def drop(self) -> None:
        self.held = []


AT = TopicPartition("orders", 3)
BASE = {"store.url": "/store", "format.class": "JsonFormat", "flush.size": "3"}
HOURLY = {"partitioner.class": "HourlyPartitioner", "timezone": "UTC"}


class Clock:
    """A clock that is set by hand, in ms."""

    now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


class Task:
    """A writer, called as a worker calls it."""

    def __init__(
        self,
        settings: Mapping[str, str] = {},
        store: MemoryStore | None = None,
        *,
        start: int = 0,
        tolerates_errors: bool = False,
        schema_folder: SchemaFolder = SchemaFolder.NONE,
        create_only: bool = False,
        one_topic: bool = True,
    ) -> None:
        self.store = MemoryStore({}) if store is None else store
        self.clock = Clock()
        plan = replace(
            local_plan(LOCAL_SINK.parse({**BASE, **settings})),
            schema_folder=schema_folder,
            create_only=create_only,
            one_topic=one_topic,
        )
        self.context = SinkContextStub(tolerates_errors=tolerates_errors)
        self.writer = FileWriter(plan, self.store, self.context, self.clock)
        self.writer.assigned({AT: start})
        self.reached = start

    def write(self, records: Records) -> Failed:
        failed: Failed = {}
        self.writer.write(records, failed)
        if len(records):
            self.reached = records.offsets[-1] + 1
        return failed

    def flush(self) -> None:
        self.writer.flush()

    def committed(self) -> int | None:
        self.writer.flush()
        return self.writer.pre_commit({AT: self.reached}).get(AT)

    @property
    def files(self) -> dict[str, bytes]:
        return {
            name.removeprefix("topics/orders/"): data for name, data in self.store.files.items()
        }


def batch(
    values: Sequence[Value],
    *,
    first: int = 0,
    schema: Schema | None = None,
    keys: Sequence[Value] | None = None,
    key_schema: Schema | None = None,
    times: Sequence[int | None] | None = None,
    headers: Sequence[Sequence[Header]] = (),
) -> Records:
    count = len(values)
    return Records(
        topics=[AT.topic] * count,
        partitions=[AT.partition] * count,
        timestamps=[1_700_000_000_000] * count if times is None else list(times),
        keys=Column.of([None] * count if keys is None else list(keys), key_schema),
        values=Column.of(list(values), schema),
        offsets=list(range(first, first + count)),
        headers=list(headers),
    )

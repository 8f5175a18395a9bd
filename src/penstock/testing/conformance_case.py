"""What a test of the conformance suite defines for its connector, and the flags it may set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import orjson
import pytest

from penstock.api import (
    Column,
    Records,
    SinkConnector,
    SourceConnector,
)
from penstock.api.schema import STRING, Schema, Value
from penstock.api.settings import Config


class Case(ABC):
    """What a subclass defines for both sources and sinks."""

    bad_configs: ClassVar[Sequence[tuple[Mapping[str, str | None], str]]] = ()
    """Changes to `config` that make it invalid (None removes a setting), each with a part of the
    error message, such as the name of the setting."""

    plugin_path: ClassVar[str | Path] = ""
    """Where a worker finds the connector if it is not installed: its `plugin.path`."""

    folder: Path
    """Empty when a test starts, and removed after it."""

    @abstractmethod
    def config(self) -> dict[str, str]:
        """The connector's own settings; nothing about tasks or converters."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "system"
        self.folder.mkdir()

    def _props(self) -> dict[str, str]:
        """The complete settings of the connector, including the common ones."""
        plugin = self._connector_class().plugin
        common = {"name": "conformance", "connector.class": plugin.class_name, "tasks.max": "1"}
        return {**common, **self.config()}

    def _parsed(self) -> Config:
        return self._connector_class().plugin.config.parse(self._props())

    def _tasks(self, most: int = 1) -> list[Config]:
        """The task configurations as `open` receives them: stored and read back."""
        connector = self._connector_class()
        planned = connector().plan_tasks(self._parsed(), most)
        stored = [orjson.loads(orjson.dumps(dict(props))) for props in planned]
        return [connector.plugin.config.parse(props) for props in stored]

    def _connector_class(self) -> type[SourceConnector] | type[SinkConnector]:
        return cast("type[SourceConnector] | type[SinkConnector]", type(self).connector)  # type: ignore[attr-defined]


class SourceCase(Case):
    """A source connector, and how to add records to its source."""

    connector: ClassVar[type[SourceConnector]]

    wait_ms: ClassVar[int] = 0
    """How long a poll may wait for existing records: if none arrive by then, there are none."""

    resumes_within_polls: ClassVar[bool] = False
    """Whether `Polled.offsets_before` has the exact offset after each record."""

    @abstractmethod
    def add(self, numbers: range) -> None:
        """Adds one distinct record for each of these numbers to the source. Called several times in
        a test, with increasing numbers; later records are read later."""


def records_of(
    values: Sequence[Value],
    *,
    schema: Schema | None = None,
    keys: Sequence[Value] | None = None,
    key_schema: Schema | None = None,
    topic: str = "conformance",
    first: int = 0,
) -> Records:
    """A batch for a sink: records of one partition, starting at offset `first`."""
    nulls: list[Value] = [None] * len(values)
    return Records(
        topics=[topic] * len(values),
        partitions=[0] * len(values),
        timestamps=[1_700_000_000_000 + first + row for row in range(len(values))],
        keys=Column.of([*(nulls if keys is None else keys)], key_schema),
        values=Column.of([*values], schema),
        offsets=[first + row for row in range(len(values))],
    )


class SinkCase(Case):
    """A sink connector, and how to read its target."""

    connector: ClassVar[type[SinkConnector]]

    idempotent: ClassVar[bool] = False
    """Whether repeated writes of the same records have no effect, as with an upsert. Otherwise the
    target may have duplicates after a failure, which the connector's documentation should say."""

    ordered: ClassVar[bool] = True
    """Whether the target keeps the order of writes."""

    @abstractmethod
    def contents(self) -> list[Any]:
        """The contents of the target, an entry per record; empty if it does not exist yet."""

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        """One record for each number, with or without schemas; None if the sink rejects those. By
        default, keys and values are strings."""
        kind = STRING if schema else None
        return records_of(
            [f"value {number}" for number in numbers],
            schema=kind,
            keys=[f"key-{number}" for number in numbers],
            key_schema=kind,
            first=numbers.start,
        )

    def expected(self, records: Records) -> list[Any]:
        """The entries of `contents` for records that were written; by default their values."""
        return list(records.values.values)

    def bad_records(self) -> Records | None:
        """Records that the target rejects; None if it accepts everything."""
        return None

    def unreachable_target(self) -> AbstractContextManager[object] | None:
        """A context in which the target is unavailable, as when its server is down. None if it
        cannot be simulated."""
        return None

    def refusing_target(self) -> AbstractContextManager[object] | None:
        """A context in which writing fails with an error that no retry helps, and that is not a
        record's: as when the permission to write was withdrawn. None if it cannot be simulated."""
        return None


OTHER_RECORDS: Final = "the target has other records than were written; see `expected`"


def compare(case: SinkCase, contents: list[Any], expected: list[Any]) -> None:
    """Fails unless the target has the written records, in order if `ordered`."""
    same = Counter(map(repr, contents)) == Counter(map(repr, expected))
    if case.ordered:
        hint = "; set `ordered = False` if the target does not keep the order of writes"
        assert contents == expected, (
            f"the target has the records in another order{hint}" if same else OTHER_RECORDS
        )
    else:
        assert same, OTHER_RECORDS


def either_records(case: SinkCase, numbers: range) -> tuple[Records, bool]:
    """Records, with schemas if the sink accepts any; and whether they have some."""
    for schema in (True, False):
        records = case.records(numbers, schema=schema)
        if records is not None:
            return records, schema
    raise AssertionError("`records` has to make records with schemas, without, or both")

"""The folders, times and schemas of a batch's records, which decide where files begin and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.api import DataError, Failed, Fields, Records
from penstock.api.schema import STRING, Value, array, struct, text
from penstock.connectors.common.paths import MISSING, member
from penstock.connectors.files.boundaries.paths import (
    TimeFolders,
    default_folder,
    field_text,
    schema_text,
)
from penstock.connectors.files.boundaries.spans import Place, Rows, Schemas
from penstock.connectors.files.boundaries.templates import Stamps, folder_of
from penstock.connectors.files.boundaries.times import time_of
from penstock.connectors.files.write.plan import (
    ByFields,
    ByPartition,
    ByTemplate,
    Clock,
    Nulls,
    SchemaFolder,
    SinkPlan,
)

HEADERS: Final = array(struct({"key": STRING, "value": STRING}))
"""The schema of files of headers: a record's headers in their order, with their values as text."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The records of a batch that go to files, their rows in the batch (None: all), and what
    selects these files."""

    records: Records
    batch_rows: Sequence[int] | None
    rows: Rows


def without_stored(accepted: Accepted, ends: Mapping[Place, int]) -> Accepted:
    """Leaves out records that the files of their topics and folders already hold: those up to these
    offsets."""
    folders, topics = accepted.rows.folders, accepted.rows.topics
    offsets = accepted.records.offsets
    row_folders = [folders] * len(offsets) if isinstance(folders, str) else folders
    row_topics = [topics] * len(offsets) if isinstance(topics, str) else topics
    stored = {
        row
        for row, (place, offset) in enumerate(
            zip(zip(row_topics, row_folders, strict=True), offsets, strict=True)
        )
        if offset <= ends.get(place, -1)
    }
    if not stored:
        return accepted
    records, batch_rows = _without(accepted.records, stored, accepted.batch_rows)
    rows = accepted.rows
    remaining = [row for row in range(len(offsets)) if row not in stored]
    runs = [(sum(1 for row in remaining if row < stop), schemas) for stop, schemas in rows.schemas]
    return Accepted(
        records,
        batch_rows,
        Rows(
            records.offsets,
            folders if isinstance(folders, str) else [folders[row] for row in remaining],
            [
                run
                for index, run in enumerate(runs)
                if run[0] > (runs[index - 1][0] if index else 0)
            ],
            None if rows.times is None else [rows.times[row] for row in remaining],
            rows.tombstones
            if isinstance(rows.tombstones, bool)
            else [rows.tombstones[row] for row in remaining],
            topics if isinstance(topics, str) else [topics[row] for row in remaining],
        ),
    )


class RowReader:
    """Reads batches of one sink."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan
        folders = plan.folders
        self._periods: TimeFolders | None = None
        self._stamps: Stamps | None = None
        if isinstance(folders, ByTemplate):
            self._stamps = Stamps(folders.template.units, folders.zone)
        elif not isinstance(folders, ByPartition | ByFields):
            self._periods = TimeFolders(folders.write, folders.zone, folders.duration_ms)

    def read(
        self, records: Records, now: int, failed: Failed, ignored: Callable[[int], None]
    ) -> Accepted:
        """The records of a batch of one topic partition that go to files. Rows that are refused get
        an entry in `failed`; rows that are left out are passed to `ignored`."""
        tombstones = self._tombstones(records)
        without: set[int] = set()
        if tombstones:
            without = self._nulls(tombstones, failed, ignored)
        if self._plan.keys is not None:
            for row, key in enumerate(records.keys.values):
                if key is None and row not in without:
                    failed[row] = DataError("Key cannot be null for SinkRecord: store.kafka.keys")
        without |= failed.keys()
        remaining, batch_rows = _without(records, without, None)
        bad: Failed = {}
        times = self._times(remaining, now, bad)
        if bad:
            self._refuse(bad, batch_rows, failed)
            times = _times_without(times, bad)
            remaining, batch_rows = _without(remaining, bad.keys(), batch_rows)
        bad = {}
        folders = self._folders(remaining, times, bad)
        if bad:
            self._refuse(bad, batch_rows, failed)
            folders = [folder for row, folder in enumerate(folders) if row not in bad]
            times = _times_without(times, bad)
            remaining, batch_rows = _without(remaining, bad.keys(), batch_rows)
        if self._plan.schema_folder is not SchemaFolder.NONE:
            folders = self._by_schemas(remaining, folders)
        tombstone_flags: bool | list[bool] = False
        if tombstones and self._plan.nulls is Nulls.WRITE:
            tombstone_flags = [value is None for value in remaining.values.values]
            row_folders = folders if isinstance(folders, list) else [folders] * len(remaining)
            folders = [
                self._plan.tombstone_folder if is_tombstone else folder
                for is_tombstone, folder in zip(tombstone_flags, row_folders, strict=True)
            ]
        return Accepted(
            remaining,
            batch_rows,
            Rows(
                remaining.offsets,
                folders,
                self._schemas(remaining),
                times,
                tombstone_flags,
                self._topics(remaining),
            ),
        )

    @staticmethod
    def _tombstones(records: Records) -> list[int]:
        if isinstance(records.values, Fields):
            return []
        return [row for row, value in enumerate(records.values.values) if value is None]

    def _nulls(self, rows: list[int], failed: Failed, ignored: Callable[[int], None]) -> set[int]:
        """Which of these rows without a value are left out."""
        match self._plan.nulls:
            case Nulls.WRITE | Nulls.KEEP:
                return set()
            case Nulls.IGNORE:
                for row in rows:
                    ignored(row)
                return set(rows)
        for row in rows:
            failed[row] = DataError(
                "The record has no value, and behavior.on.null.values is 'fail'; 'ignore' skips "
                "such records, 'write' stores their keys"
            )
        return set()

    def _refuse(self, bad: Failed, batch_rows: Sequence[int] | None, failed: Failed) -> None:
        for row, error in bad.items():
            failed[row if batch_rows is None else batch_rows[row]] = error

    def _times(self, records: Records, now: int, bad: Failed) -> list[int] | None:
        match self._plan.clock:
            case None:
                return None
            case Clock.WALL:
                return [now] * len(records)
            case Clock.RECORD:
                for row, time in enumerate(records.timestamps):
                    if time is None:
                        bad[row] = DataError(
                            "The record has no timestamp, which timestamp.extractor=Record needs"
                        )
                return [time or 0 for time in records.timestamps]
        path = self._plan.time_field
        array = _member(records, path)
        if array is not None and pa.types.is_int64(array.type) and not array.null_count:
            return array.to_numpy().tolist()  # type: ignore[no-any-return]
        times: list[int] = []
        for row, value in enumerate(records.values.values):
            time = 0
            if value is not None or self._plan.nulls is not Nulls.WRITE:
                try:
                    time = time_of(_inside(value, path, "timestamp.field"), ".".join(path))
                except DataError as error:
                    bad[row] = error
            times.append(time)
        return times

    def _folders(self, records: Records, times: list[int] | None, bad: Failed) -> str | list[str]:
        folders = self._plan.folders
        if isinstance(folders, ByPartition):
            return default_folder(records.partitions[0] or 0) if len(records) else ""
        if isinstance(folders, ByFields):
            return self._by_fields(records, folders.fields, bad)
        if isinstance(folders, ByTemplate):
            return self._by_template(records, times, folders.template.has_key, bad)
        assert self._periods is not None, "made for time"
        assert times is not None, "folders of times need them"
        try:
            paths = self._periods.of(times)
        except DataError:
            paths = []
            for row, time in enumerate(times):
                try:
                    paths += self._periods.of([time])
                except DataError as error:
                    bad[row] = error
                    paths.append("")
        return paths[0] if paths and paths.count(paths[0]) == len(paths) else paths

    def _by_fields(self, records: Records, names: tuple[str, ...], bad: Failed) -> list[str]:
        columns: list[list[str]] = []
        named = self._plan.named
        for name in names:
            array = _member(records, (name,))
            cells = None if array is None else array.to_pylist()
            texts: dict[Value, str] = {}  # of values of one type each
            column: list[str] = []
            values = records.values.values if cells is None else cells
            for row, value in enumerate(values):
                try:
                    cell = value
                    if cells is None:
                        if value is None and self._plan.nulls is Nulls.WRITE:
                            column.append("")
                            continue
                        cell = _partition_field(value, name)
                    if type(cell) is not str:
                        text = named(field_text(name, cell))
                    elif (text := texts.get(cell, "")) == "":
                        text = texts[cell] = named(field_text(name, cell))
                except DataError as error:
                    bad[row] = error
                    text = ""
                column.append(text)
            columns.append(column)
        if len(columns) == 1:
            return columns[0]
        return list(map(self._plan.naming.delimiter.join, zip(*columns, strict=True)))

    def _by_schemas(self, records: Records, folders: str | list[str]) -> str | list[str]:
        """Adds folders with the names of schemas before or after the others."""
        is_prefix = self._plan.schema_folder is SchemaFolder.PREFIX
        delimiter = self._plan.naming.delimiter
        paths: list[str] = []
        for schema, start, stop in records.values.slices():
            name = self._plan.named(schema_text(None if schema is None else schema.name))
            run_folders = [folders] if isinstance(folders, str) else folders[start:stop]
            joined = [
                delimiter.join((name, folder) if is_prefix else (folder, name))
                for folder in run_folders
            ]
            if isinstance(folders, str) and len(records.values.runs) == 1:
                return joined[0]
            paths += joined * (stop - start) if isinstance(folders, str) else joined
        return paths

    def _by_template(
        self, records: Records, times: list[int] | None, has_key: bool, bad: Failed
    ) -> str | list[str]:
        assert self._stamps is not None, "made for templates"
        if times is None and not has_key:
            return folder_of("", "")
        texts: list[str] = []
        for row in range(len(records)):
            key = ""
            try:
                if has_key:
                    cell = records.keys.values[row]
                    schema = records.keys.schemas()[row] if cell is not None else None
                    key = "null" if cell is None else self._plan.named(text(schema, cell) or "")
                texts.append(folder_of("" if times is None else self._stamps.of(times[row]), key))
            except DataError as error:
                bad[row] = error
                texts.append("")
        return texts

    def _topics(self, records: Records) -> str | list[str]:
        """The topics of records after transforms: one for all if they have the same, or if names of
        files do not contain it."""
        folders, topics = self._plan.folders, records.topics
        if isinstance(folders, ByTemplate) and "topic" not in folders.template.names:
            return ""
        return topics[0] if topics and topics.count(topics[0]) == len(topics) else topics

    def _schemas(self, records: Records) -> list[tuple[int, Schemas]]:
        shape = self._plan.shape
        if shape is not None and not shape.by_schema:
            return [(len(records), (None, None))]
        values = records.values.runs
        if self._plan.keys is None and shape is None:
            return [(run.stop, (run.schema, None)) for run in values]
        keys = iter(records.keys.runs)
        runs: list[tuple[int, Schemas]] = []
        start = 0
        key = next(keys, None)
        for run in values:
            while start < run.stop:
                assert key is not None, "as long as the values"
                start = min(run.stop, key.stop)
                runs.append((start, (run.schema, key.schema)))
                if start == key.stop:
                    key = next(keys, None)
        return runs


def _without(
    records: Records, without: Any, batch_rows: Sequence[int] | None
) -> tuple[Records, Sequence[int] | None]:
    if not without:
        return records, batch_rows
    rows = [row for row in range(len(records)) if row not in without]
    return records.only(rows), rows if batch_rows is None else [batch_rows[row] for row in rows]


def _times_without(times: list[int] | None, bad: Failed) -> list[int] | None:
    return None if times is None else [time for row, time in enumerate(times) if row not in bad]


def _member(records: Records, path: tuple[str, ...]) -> Any | None:
    """The values of a field as an array, if the batch holds them as one."""
    values = records.values
    if len(path) != 1 or not isinstance(values, Fields):
        return None
    return values.members.get(path[0])


def _partition_field(value: Value, name: str) -> Value:
    """The value of a field of `partition.field.name`: of that name, or nested (`a.b`); None if a
    struct around it is null. Raises DataError."""
    if "." not in name or (isinstance(value, dict) and name in value):
        return _inside(value, (name,), "partition.field.name")
    path = tuple(name.split("."))
    for end in range(1, len(path)):
        if _inside(value, path[:end], "partition.field.name") is None:
            return None
    return _inside(value, path, "partition.field.name")


def _inside(value: Value, path: tuple[str, ...], setting: str) -> Value:
    """The value of a field. Raises DataError if the record has none of that name."""
    found: Value = member(value, path)
    if found is MISSING:
        raise DataError(f"The record has no field '{'.'.join(path)}', which {setting} names")
    return found

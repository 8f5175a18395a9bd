"""What boundaries depend on, of a batch: folders, times and schemas of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.api import DataError, Failed, Fields, Records
from penstock.api.schema import STRING, Value, array, struct, text
from penstock.connectors.files.boundaries.paths import (
    TimeFolders,
    default_folder,
    field_text,
    schema_text,
    time_of,
)
from penstock.connectors.files.boundaries.spans import Rows, Schemas
from penstock.connectors.files.boundaries.templates import Stamps, folder_of
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
"""What files of headers hold: the headers of a record in their order, their values as text."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The records of a batch that go to files, which rows of it they are (None: all), and what
    decides which files these are."""

    records: Records
    places: Sequence[int] | None
    rows: Rows


def behind(taken: Taken, ends: Mapping[str, int]) -> Taken:
    """The records without those that the files of their folders have already: up to these
    offsets."""
    folders = taken.rows.folders
    offsets = taken.records.offsets
    each = [folders] * len(offsets) if isinstance(folders, str) else folders
    without = {
        row
        for row, (folder, offset) in enumerate(zip(each, offsets, strict=True))
        if offset <= ends.get(folder, -1)
    }
    if not without:
        return taken
    kept, places = _but(taken.records, without, taken.places)
    rows = taken.rows
    left = [row for row in range(len(offsets)) if row not in without]
    runs = [(sum(1 for row in left if row < stop), schemas) for stop, schemas in rows.schemas]
    return Taken(
        kept,
        places,
        Rows(
            kept.offsets,
            folders if isinstance(folders, str) else [folders[row] for row in left],
            [run for at, run in enumerate(runs) if run[0] > (runs[at - 1][0] if at else 0)],
            None if rows.times is None else [rows.times[row] for row in left],
            rows.tombstones
            if isinstance(rows.tombstones, bool)
            else [rows.tombstones[row] for row in left],
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
    ) -> Taken:
        """What becomes of a batch of one topic partition. Rows that no file takes get an entry in
        `failed`, or are told to `ignored`."""
        tombstones = self._tombstones(records)
        without: set[int] = set()
        if tombstones:
            without = self._nulls(records, tombstones, failed, ignored)
        if self._plan.keys is not None:
            for row, key in enumerate(records.keys.values):
                if key is None and row not in without:
                    failed[row] = DataError("Key cannot be null for SinkRecord: store.kafka.keys")
        without |= failed.keys()
        kept, places = _but(records, without, None)
        bad: Failed = {}
        times = self._times(kept, now, bad)
        if bad:
            self._refuse(bad, places, failed)
            times = (
                None
                if times is None
                else [time for row, time in enumerate(times) if row not in bad]
            )
            kept, places = _but(kept, bad.keys(), places)
        bad = {}
        folders = self._folders(kept, times, bad)
        if bad:
            self._refuse(bad, places, failed)
            folders = [folder for row, folder in enumerate(folders) if row not in bad]
            times = (
                None
                if times is None
                else [time for row, time in enumerate(times) if row not in bad]
            )
            kept, places = _but(kept, bad.keys(), places)
        if self._plan.schema_folder is not SchemaFolder.NONE:
            folders = self._by_schemas(kept, folders)
        kinds: bool | list[bool] = False
        if tombstones and self._plan.nulls is Nulls.WRITE:
            kinds = [value is None for value in kept.values.values]
            each = folders if isinstance(folders, list) else [folders] * len(kept)
            folders = [
                self._plan.tombstone_folder if kind else folder
                for kind, folder in zip(kinds, each, strict=True)
            ]
        return Taken(kept, places, Rows(kept.offsets, folders, self._schemas(kept), times, kinds))

    @staticmethod
    def _tombstones(records: Records) -> list[int]:
        if isinstance(records.values, Fields):
            return []
        return [row for row, value in enumerate(records.values.values) if value is None]

    def _nulls(
        self, records: Records, rows: list[int], failed: Failed, ignored: Callable[[int], None]
    ) -> set[int]:
        """The rows of these that are ignored."""
        match self._plan.nulls:
            case Nulls.WRITE | Nulls.KEEP:
                return set()
            case Nulls.IGNORE:
                for row in rows:
                    ignored(row)
                return set(rows)
        for row in rows:
            failed[row] = DataError(
                "The record has no value, and behavior.on.null.values is 'fail'; 'ignore' leaves "
                "such records out, 'write' stores their keys"
            )
        return set()

    def _refuse(self, bad: Failed, places: Sequence[int] | None, failed: Failed) -> None:
        for row, error in bad.items():
            failed[row if places is None else places[row]] = error

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
                    time = time_of(_inside(value, path, "timestamp.field"))
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
            each = self._periods.of(times)
        except DataError:
            each = []
            for row, time in enumerate(times):
                try:
                    each += self._periods.of([time])
                except DataError as error:
                    bad[row] = error
                    each.append("")
        return each[0] if each and each.count(each[0]) == len(each) else each

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
                        cell = _inside(value, (name,), "partition.field.name")
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
        """The folders with those of the names of schemas before or behind them."""
        first = self._plan.schema_folder is SchemaFolder.PREFIX
        delimiter = self._plan.naming.delimiter
        found: list[str] = []
        for schema, start, stop in records.values.slices():
            name = self._plan.named(schema_text(None if schema is None else schema.name))
            each = [folders] if isinstance(folders, str) else folders[start:stop]
            joined = [
                delimiter.join((name, folder) if first else (folder, name)) for folder in each
            ]
            if isinstance(folders, str) and len(records.values.runs) == 1:
                return joined[0]
            found += joined * (stop - start) if isinstance(folders, str) else joined
        return found

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

    def _schemas(self, records: Records) -> list[tuple[int, Schemas]]:
        shape = self._plan.shape
        if shape is not None and not shape.by_schema:
            return [(len(records), (None, None))]
        values = records.values.runs
        if self._plan.keys is None and shape is None:
            return [(run.stop, (run.schema, None)) for run in values]
        keys = iter(records.keys.runs)
        found: list[tuple[int, Schemas]] = []
        start = 0
        key = next(keys, None)
        for run in values:
            while start < run.stop:
                assert key is not None, "as long as the values"
                start = min(run.stop, key.stop)
                found.append((start, (run.schema, key.schema)))
                if start == key.stop:
                    key = next(keys, None)
        return found


def _but(
    records: Records, without: Any, places: Sequence[int] | None
) -> tuple[Records, Sequence[int] | None]:
    if not without:
        return records, places
    rows = [row for row in range(len(records)) if row not in without]
    return records.only(rows), rows if places is None else [places[row] for row in rows]


def _member(records: Records, path: tuple[str, ...]) -> Any | None:
    """The values of a field as an array, where they are held so."""
    values = records.values
    if len(path) != 1 or not isinstance(values, Fields):
        return None
    return values.members.get(path[0])


def _inside(value: Value, path: tuple[str, ...], setting: str) -> Value:
    """The value of a field. Raises DataError where the record has none of that name."""
    for name in path:
        if not isinstance(value, dict) or name not in value:
            raise DataError(f"The record has no field '{'.'.join(path)}', which {setting} names")
        value = value[name]
    return value

"""Shows users a task's next records, step by step (`GET …/trace`).

A tap watches the records in a pipeline; nothing runs twice. It costs time only for the batches it
watches.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from datetime import time as clock_time
from decimal import Decimal
from typing import Any, Final, Protocol

import orjson

from penstock.api.schema import Schema, Value
from penstock.data.records import Column, Records

Json = dict[str, Any]

HIDDEN: Final = "[hidden]"
_LONGEST: Final = 2_000
"""Characters of a text, and members of a map or list, that are shown."""
_MOST_BYTES: Final = 32_768
"""Bytes of a record that are shown for one step."""


class StepLike(Protocol):
    """The part of a step that a tap shows."""

    @property
    def label(self) -> Json: ...


@dataclass(slots=True)
class WatchedRecord:
    """A record that is being watched."""

    origin: int
    steps: list[Json]
    end: Json = field(default_factory=dict)

    @property
    def place(self) -> Place | None:
        """None: it was not consumed."""
        read = self.steps[0]
        return (read["topic"], read["partition"], read["offset"]) if "offset" in read else None

    def shown(self) -> Json:
        return {"steps": self.steps, **self.end}


Place = tuple[str, int | None, int]
"""Where a consumed record is: topic, partition, offset."""


class Tap:
    """Watches the next `records` that enter a pipeline within `seconds`, and passes them to `show`:
    those of a source once converted, those of a sink once written. Used by the task's thread."""

    def __init__(
        self,
        records: int,
        seconds: float,
        hidden: re.Pattern[str] | None,
        show: Callable[[Sequence[Json]], None],
    ) -> None:
        self._show = show
        self._pending: dict[Place, WatchedRecord] = {}
        self._remaining = records
        self._until = time.monotonic() + seconds
        self._hidden = hidden

    @property
    def over(self) -> bool:
        """Whether it watches no more records."""
        return self._remaining <= 0 or self._late

    @property
    def done(self) -> bool:
        """Whether there is nothing more to show. Some records are never written here, because their
        partition was revoked."""
        return self._late or (self._remaining <= 0 and not self._pending)

    @property
    def _late(self) -> bool:
        return time.monotonic() > self._until

    def begin(self, records: Records) -> WatchedBatch | None:
        """Watches the first records of a batch; None if it is over."""
        if self.over:
            return None
        rows = min(self._remaining, len(records))
        self._remaining -= rows
        return WatchedBatch(records.only(range(rows)), self._hidden)

    def passed(self, watch: WatchedBatch) -> None:
        """The records of a batch have passed the pipeline."""
        ended = []
        for record in watch.watched.values():
            place = record.place
            if record.end or place is None:
                record.end = record.end or {"outcome": "converted"}
                ended.append(record.shown())
            else:
                self._pending[place] = record
        if ended:
            self._show(ended)

    def written(self, places: Iterable[Place], refused: Mapping[int, Exception], by: Json) -> None:
        """A sink's writer has written records, except the rows in `refused`."""
        if not self._pending:
            return
        ended = []
        for row, place in enumerate(places):
            record = self._pending.pop(place, None)
            if record is not None:
                record.end = (
                    failed_end(by, refused[row]) if row in refused else {"outcome": "written"}
                )
                ended.append(record.shown())
        if ended:
            self._show(ended)


class WatchedBatch:
    """The watched records of one batch."""

    def __init__(self, records: Records, hidden: re.Pattern[str] | None) -> None:
        self._hidden = hidden
        first = self._shown(records)
        self.watched = {
            origin: WatchedRecord(origin, [{"step": "READ", **shown}])
            for origin, shown in zip(records.origins, first, strict=True)
        }

    def after(self, step: StepLike, records: Records) -> None:
        """The records after a step; missing ones were dropped or have failed."""
        rows = [row for row, origin in enumerate(records.origins) if origin in self.watched]
        passed = records.only(rows)
        shown = self._shown(passed)
        for origin, record in zip(passed.origins, shown, strict=True):
            self.watched[origin].steps.append({**step.label, **record})
        for origin in self.watched.keys() - set(passed.origins):
            watched = self.watched[origin]
            if not watched.end:
                watched.end = {"outcome": "dropped", "by": step.label}

    def failed(self, origin: int, by: Json, error: Exception) -> None:
        """A record has failed."""
        if origin in self.watched:
            self.watched[origin].end = failed_end(by, error)

    def _shown(self, records: Records) -> list[Json]:
        keys, values = records.keys, records.values
        headers = records.headers or [()] * len(records)
        schemas = keys.schemas(), values.schemas()
        return [
            self._bounded(
                {
                    "topic": records.topics[row],
                    "partition": records.partitions[row],
                    **({"offset": records.offsets[row]} if records.offsets else {}),
                    "timestamp": records.timestamps[row],
                    "key": self._cell(keys, row),
                    "value": self._cell(values, row),
                    "headers": [
                        [header.name, self._member(header.name, header.value)]
                        for header in headers[row]
                    ],
                    "key_schema": _name_of(schemas[0][row]),
                    "value_schema": _name_of(schemas[1][row]),
                }
            )
            for row in range(len(records))
        ]

    def _cell(self, column: Column, row: int) -> object:
        value = column.values[row]
        return self._raw(value) if isinstance(value, bytes) else self._value(value)

    def _raw(self, cell: bytes) -> object:
        """Bytes as they are in Kafka. Fields are hidden if the bytes are JSON; bytes that might be
        a record in another format are not shown."""
        try:
            text = cell.decode()
        except UnicodeDecodeError:
            return f"<{len(cell)} bytes>"
        if text.lstrip()[:1] not in ("{", "["):
            return self._value(text)
        try:
            return self._value(orjson.loads(cell))
        except ValueError:
            return f"<{len(cell)} bytes>"

    def _member(self, name: str, value: Value) -> object:
        if self._hidden is not None and self._hidden.search(name):
            return HIDDEN
        return self._raw(value) if isinstance(value, bytes) else self._value(value)

    def _value(self, value: Value) -> object:
        match value:
            case None | bool() | int():
                return value
            case float():
                return value if value - value == 0 else str(value)
            case str():
                more = len(value) - _LONGEST
                return value if more <= 0 else f"{value[:_LONGEST]}… ({more} more)"
            case bytes():
                return f"<{len(value)} bytes>"
            case Mapping():
                return {
                    str(name): self._member(str(name), member)
                    for name, member in list(value.items())[:_LONGEST]
                }
            case list() | tuple():
                return [self._value(element) for element in value[:_LONGEST]]
            case Decimal():
                return str(value)
            case date() | clock_time():
                return value.isoformat()
        return str(value)[:_LONGEST]

    def _bounded(self, shown: Json) -> Json:
        size = len(orjson.dumps(shown, option=orjson.OPT_NON_STR_KEYS, default=str))
        if size <= _MOST_BYTES:
            return shown
        note = f"<not shown: the record takes {size} bytes>"
        return {**shown, "key": note, "value": note, "headers": []}


def failed_end(by: Json, error: Exception) -> Json:
    return {
        "outcome": "failed",
        "by": by,
        "error": f"{type(error).__name__}: {error}"[:_LONGEST],
    }


def _name_of(schema: Schema | None) -> str | None:
    if schema is None:
        return None
    name = schema.type.name if schema.name is None else f"{schema.type.name} {schema.name}"
    return f"{name} (optional)" if schema.optional else name

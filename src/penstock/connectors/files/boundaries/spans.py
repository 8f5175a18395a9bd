"""Where the files of a topic partition begin and end.

A *span* is a run of records whose files are completed together, by a *cut*, and only offsets at
cuts are committed. A cut resets all state, so later files depend only on later records: a task
that restarts at a committed offset creates the same files with the same names, regardless of
batches. Records that transforms route to several topics share a span, for the same reason: its
files, one for each topic and folder, are completed together. The one exception is the clock:
`rotate.schedule.interval.ms`, and partitioners that use it.

A cut happens, as in Confluent's connectors (connectors.md §13),

- after a record: when the span has `flush.size` records, in all its files together;
- before a record: when its time is `rotate.interval.ms` after that of the span's first; with
  `rotate.interval.ms`, also when its folder differs from that of its topic's previous record; when
  its schema does not fit its file; when the record is a tombstone and the previous one is not, or
  vice versa; when it would exceed the limit of open files;
- at any time: when the clock reaches a multiple of `rotate.schedule.interval.ms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.api.schema import Schema
from penstock.connectors.files.boundaries.schemas import Compatibility, Fit, fit, refusal

Schemas = tuple[Schema | None, Schema | None]
"""The schemas of a record's value and, if keys are written, of its key."""

Place = tuple[str, str]
"""The topic and the folder of a record."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When a span ends. Times are in ms; None disables a rule."""

    flush_size: int
    interval_ms: int | None = None
    schedule_ms: int | None = None
    cut_on_folder: bool = True
    max_files: int | None = None
    compatibility: Compatibility = Compatibility.NONE
    by_span: bool = False
    """Whether file names have the first offset of the span instead of the file."""


@dataclass(frozen=True, slots=True)
class SpanFile:
    """A file of the current span."""

    folder: str
    start: int  # the offset of its first record, which is in its name
    schemas: Schemas
    tombstones: bool = False
    topic: str = ""  # of its records, after transforms

    @property
    def place(self) -> Place:
        return self.topic, self.folder


@dataclass(frozen=True, slots=True)
class Span:
    """The records since the last cut, of all topics that transforms route them to."""

    files: Mapping[Place, SpanFile] = field(default_factory=dict)
    count: int = 0
    first_ms: int | None = None
    folders: Mapping[str, str] = field(default_factory=dict)  # of the last record, by topic
    tombstones: bool = False  # of the last record
    opened_ms: int = 0  # by the clock
    start: int = 0  # the offset of the first record


EMPTY: Final = Span()


@dataclass(frozen=True, slots=True)
class Rows:
    """The properties of consecutive records of one topic partition that boundaries depend on.

    `folders`, `tombstones` and `topics` are one value for all rows, or a value for each. Only
    `Rules.interval_ms` needs `times`. `schemas` are runs: the row after each, and its schemas.
    """

    offsets: Sequence[int]
    folders: str | Sequence[str]
    schemas: Sequence[tuple[int, Schemas]]
    times: Sequence[int] | None = None
    tombstones: bool | Sequence[bool] = False
    topics: str | Sequence[str] = ""

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class Add:
    """Appends these rows to a file, which is created if it was not open."""

    file: SpanFile
    rows: Sequence[int]


@dataclass(frozen=True, slots=True)
class Cut:
    """Completes all open files; `offset` may be committed once they are stored."""

    offset: int


Action = Add | Cut
Refused = dict[int, str]
"""Rows that no file accepts, with the reasons."""


def advance(rules: Rules, span: Span, rows: Rows, now: int) -> tuple[Span, list[Action], Refused]:
    """The span after these rows, and the actions for them, in order."""
    plan = _Plan(rules, span, rows, now)
    if len(rows):
        if span.count and is_due(rules, span, now):
            plan.cut(rows.offsets[0])
        if (
            isinstance(rows.folders, str)
            and isinstance(rows.tombstones, bool)
            and isinstance(rows.topics, str)
        ):
            plan.take_runs((rows.topics, rows.folders), rows.tombstones)
        else:
            plan.take_rows(0, len(rows))
    return plan.end()


def is_due(rules: Rules, span: Span, now: int) -> bool:
    """Whether the clock has passed a scheduled cut since the span began. `opened_ms` and `now` are
    local ms: the schedule starts at midnight of the configured time zone."""
    if rules.schedule_ms is None or not span.count:
        return False
    return next_scheduled(span.opened_ms, rules.schedule_ms) <= now


def is_over(rules: Rules, span: Span, time: int) -> bool:
    """Whether a record of that time would cause a cut before it."""
    if rules.interval_ms is None or span.first_ms is None:
        return False
    return time - span.first_ms >= rules.interval_ms


def next_scheduled(after: int, every_ms: int) -> int:
    """The next multiple of an interval since midnight. Both are local ms."""
    midnight = after - after % 86_400_000
    return midnight + ((after - midnight) // every_ms + 1) * every_ms


class _Plan:
    """The state of one `advance`."""

    def __init__(self, rules: Rules, span: Span, rows: Rows, now: int) -> None:
        self._rules = rules
        self._rows = rows
        self._now = now
        self._files = dict(span.files)
        self._count = span.count
        self._first_ms = span.first_ms
        self._folders = dict(span.folders)
        self._tombstones = span.tombstones
        self._opened_ms = span.opened_ms
        self._start = span.start
        self._adds: dict[Place, list[int] | range] = {}  # since the last cut
        self._actions: list[Action] = []
        self._refused: Refused = {}

    def end(self) -> tuple[Span, list[Action], Refused]:
        self._flush_adds()
        span = Span(
            self._files,
            self._count,
            self._first_ms,
            self._folders,
            self._tombstones,
            self._opened_ms,
            self._start,
        )
        return span if self._count else EMPTY, self._actions, self._refused

    def cut(self, offset: int) -> None:
        self._flush_adds()
        self._actions.append(Cut(offset))
        self._files = {}
        self._count = 0
        self._first_ms = None
        self._folders = {}

    def take_runs(self, place: Place, tombstones: bool) -> None:
        """Takes all rows of one topic and folder: whole runs of one schema at once."""
        start = 0
        for stop, schemas in self._rows.schemas:
            at = start
            while at < stop:
                # A cut is possible before the first row; later only by time or count.
                self._take(at, place, tombstones, schemas)
                at += 1
                if self._rules.interval_ms is not None:
                    continue
                if at < stop and self._count and at - 1 not in self._refused:
                    more = min(stop - at, self._rules.flush_size - self._count)
                    if more > 0:
                        self._extend(place, at, at + more)
                        at += more
            start = stop

    def take_rows(self, start: int, stop: int) -> None:
        """Takes rows one by one."""
        rows = self._rows
        runs = iter(rows.schemas)
        end, schemas = next(runs)
        one_folder = rows.folders if isinstance(rows.folders, str) else None
        one_topic = rows.topics if isinstance(rows.topics, str) else None
        one_kind = rows.tombstones if isinstance(rows.tombstones, bool) else None
        for at in range(start, stop):
            while at >= end:
                end, schemas = next(runs)
            folder = rows.folders[at] if one_folder is None else one_folder
            kind = rows.tombstones[at] if one_kind is None else one_kind  # type: ignore[index]
            topic = rows.topics[at] if one_topic is None else one_topic
            self._take(at, (topic, folder), kind, schemas)

    def _take(self, at: int, place: Place, tombstone: bool, schemas: Schemas) -> None:
        rules, rows = self._rules, self._rows
        time = rows.times[at] if rows.times is not None else None
        file = self._files.get(place)
        if self._count:
            cut = tombstone != self._tombstones or self._is_over(time, place)
            if not cut and file is None and rules.max_files is not None:
                cut = len(self._files) >= rules.max_files
            if not cut and file is not None and file.schemas is not schemas:
                result = _fit(rules.compatibility, file.schemas, schemas)
                if result is Fit.REFUSE:
                    self._refused[at] = refusal(rules.compatibility, file.schemas[0], schemas[0])
                    return
                cut = result is Fit.CUT
            if cut:
                self.cut(rows.offsets[at])
                file = None
        if not self._count:
            self._first_ms = time
            self._opened_ms = self._now
            self._start = rows.offsets[at]
        if file is None:
            start = self._start if rules.by_span else rows.offsets[at]
            self._files[place] = SpanFile(place[1], start, schemas, tombstone, place[0])
        if rules.interval_ms is not None:
            self._folders[place[0]] = place[1]
        self._tombstones = tombstone
        self._extend(place, at, at + 1)

    def _is_over(self, time: int | None, place: Place) -> bool:
        interval_ms = self._rules.interval_ms
        if interval_ms is None:
            return False
        topic, folder = place
        if self._rules.cut_on_folder and folder != self._folders.get(topic, folder):
            return True
        return (
            time is not None and self._first_ms is not None and time - self._first_ms >= interval_ms
        )

    def _extend(self, place: Place, start: int, stop: int) -> None:
        """Adds consecutive rows to an open file, and cuts when the span is full."""
        rows = self._adds.get(place)
        if rows is None:
            self._adds[place] = range(start, stop)
        elif isinstance(rows, range) and rows.stop == start:
            self._adds[place] = range(rows.start, stop)
        else:
            if isinstance(rows, range):
                rows = self._adds[place] = list(rows)
            rows.extend(range(start, stop))
        self._count += stop - start
        if self._count >= self._rules.flush_size:
            self.cut(self._rows.offsets[stop - 1] + 1)

    def _flush_adds(self) -> None:
        self._actions += [Add(self._files[place], rows) for place, rows in self._adds.items()]
        self._adds = {}


def _fit(compatibility: Compatibility, file: Schemas, record: Schemas) -> Fit:
    if file[1] != record[1]:
        return Fit.CUT  # keys are never projected
    return fit(compatibility, file[0], record[0])

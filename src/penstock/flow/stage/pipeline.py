"""Runs batches through converters and transforms, and collects records that fail.

Everything between Kafka and a connector is a list of steps over `Records`: for a sink from consumed
bytes to Connect records, for a source from Connect records to the bytes to produce. A record that
fails in a step skips the later ones; it is a `Failure`, and the others continue without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from penstock.api import HeaderConverter, Predicate, Transform, Use
from penstock.data.columns import Cells
from penstock.data.records import Column, Failed, Header, Records
from penstock.errors import is_transient
from penstock.flow.plan import Conversion, Tolerance, TransformPlan
from penstock.flow.stage.retrying import Retrying
from penstock.flow.stage.tap import Tap


class Stage(Enum):
    """Where a record failed; the names that Kafka Connect writes to dead letter headers."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


Apply = Callable[[Records, Failed], Records]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a batch's processing. `apply` returns its input rows, in order, without those it
    drops; the value it returns for a row in `failed` is ignored."""

    stage: Stage
    class_name: str
    apply: Apply
    close: Callable[[], None] = lambda: None
    alias: str | None = None
    """The name that the connector gives a transform."""

    @property
    def label(self) -> dict[str, str]:
        """How users see it."""
        alias = {} if self.alias is None else {"alias": self.alias}
        return {"step": self.stage.value, **alias, "class": self.class_name}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record failed; `origin` is its place in the batch that was read."""

    origin: int
    stage: Stage
    class_name: str
    cause: Exception


class Observer(Protocol):
    """Whoever wants to know when batches are converted."""

    def stage(self, name: str, records: int, failed: Sized) -> AbstractContextManager[None]:
        """The block is a stage of so many records, which fills `failed`."""


@dataclass(slots=True)
class Pipeline:
    """The steps of one task, in order."""

    steps: Sequence[Step]
    tolerance: Tolerance
    wait: Callable[[float], object] | None = None
    observer: Observer | None = None
    tap: Tap | None = None
    """Watches the next records; may be set by another thread."""
    _retries: int = 0

    def take_retries(self) -> int:
        """The number of retries of steps since the last call."""
        retries, self._retries = self._retries, 0
        return retries

    def close(self) -> None:
        """Closes all converters and transforms, even if one of them raises."""
        for step in self.steps:
            with contextlib.suppress(Exception):
                step.close()

    def run(self, records: Records) -> tuple[Records, list[Failure]]:
        """The records that passed all steps, and the failures; a record in neither was dropped by a
        transform. The observer is told of every run with records."""
        if self.observer is None or not len(records):
            return self._run(records)
        failures: list[Failure] = []
        with self.observer.stage("convert", len(records), failures):
            passed, found = self._run(records)
            failures += found
        return passed, failures

    def _run(self, records: Records) -> tuple[Records, list[Failure]]:
        failures: list[Failure] = []
        tap = self.tap  # another thread may replace it meanwhile
        watch = None if tap is None else tap.begin(records)
        for step in self.steps:
            if not len(records):
                break
            earlier = len(failures)
            records = self._do(step, records, failures)
            if watch is not None:
                for failure in failures[earlier:]:
                    watch.failed(failure.origin, step.label, failure.cause)
                watch.after(step, records)
        failures.sort(key=lambda failure: failure.origin)
        if tap is not None:
            if watch is not None:
                tap.passed(watch)
            if tap.over and self.tap is tap:
                self.tap = None
        return records, failures

    def _do(self, step: Step, records: Records, failures: list[Failure]) -> Records:
        done, failed = _attempt(step, records)
        if not failed:
            return done
        done, failed = self._retried(step, records, done, failed)
        bad = {records.origins[row]: error for row, error in failed.items()}
        failures += [
            Failure(origin, step.stage, step.class_name, error) for origin, error in bad.items()
        ]
        return _without(done, bad)

    def _retried(
        self, step: Step, records: Records, done: Records, failed: Failed
    ) -> tuple[Records, Failed]:
        """Retries rows that failed with a retriable error, for as long as configured."""
        if not any(map(is_transient, failed.values())):
            return done, failed
        retrying = Retrying(
            self.tolerance.retry_timeout_ms, self.tolerance.retry_delay_max_ms, self.wait
        )
        while any(map(is_transient, failed.values())) and retrying.again():
            self._retries += 1
            rows = sorted(row for row, error in failed.items() if is_transient(error))
            once_more, still = _attempt(step, records.only(rows))
            done = Records.together(
                _without(done, {records.origins[row] for row in rows}), once_more
            )
            failed = {row: error for row, error in failed.items() if not is_transient(error)}
            failed |= {rows[row]: error for row, error in still.items()}
        return done, failed


def _attempt(step: Step, records: Records) -> tuple[Records, Failed]:
    """One attempt of a step. If the plugin raises although it should not, it is called record by
    record, so that only the records at fault fail."""
    failed: Failed = {}
    try:
        return step.apply(records, failed), failed
    except Exception as error:
        if len(records) == 1:
            return records, {0: error}
    failed.clear()
    done = [records.only([])]
    for row in range(len(records)):
        row_done, row_failed = _attempt(step, records.only([row]))
        if row_failed:
            failed[row] = row_failed[0]
        else:
            done.append(row_done)
    return Records.together(*done), failed


def _without(records: Records, origins: Mapping[int, object] | set[int]) -> Records:
    if not origins:
        return records
    return records.only([row for row, at in enumerate(records.origins) if at not in origins])


def sink_steps(plan: Conversion, *, fields: bool = False) -> list[Step]:
    """From consumed records (keys, values and headers are bytes) to the sink's records. With
    `fields`, values are `Fields` where possible."""
    key, value, header = _built(plan)
    transforms = [(planned, planned.build()) for planned in plan.transforms]
    if any(planned.predicate or not transform.keeps_fields for planned, transform in transforms):
        fields = False

    def values(records: Records, failed: Failed) -> Records:
        cells = records.values
        if fields and isinstance(cells, Cells):
            as_fields = value.to_fields(cells)
            if as_fields is not None:
                return records.with_values(as_fields)
        return records.with_values(value.to_connect(records.topics, cells.values, failed))

    return [
        Step(
            Stage.KEY_CONVERTER,
            key.plugin.class_name,
            lambda records, failed: records.with_keys(
                key.to_connect(records.topics, records.keys.values, failed)
            ),
            key.close,
        ),
        Step(Stage.VALUE_CONVERTER, value.plugin.class_name, values, value.close),
        Step(
            Stage.HEADER_CONVERTER,
            header.plugin.class_name,
            _headers(_read_headers(header)),
            header.close,
        ),
        *(_transform(planned, transform) for planned, transform in transforms),
    ]


def source_steps(plan: Conversion) -> list[Step]:
    """From the source's records to those to produce: keys, values and headers as bytes."""
    key, value, header = _built(plan)

    def keys(records: Records, failed: Failed) -> Records:
        cells = key.from_connect(records.topics, records.keys, failed)
        return records.with_keys(Column.of(cells, None))

    def values(records: Records, failed: Failed) -> Records:
        cells = value.from_connect(records.topics, records.values, failed)
        return records.with_values(Column.of(cells, None))

    return [
        *(_transform(planned, planned.build()) for planned in plan.transforms),
        Step(
            Stage.HEADER_CONVERTER,
            header.plugin.class_name,
            _headers(_write_headers(header)),
            header.close,
        ),
        Step(Stage.KEY_CONVERTER, key.plugin.class_name, keys, key.close),
        Step(Stage.VALUE_CONVERTER, value.plugin.class_name, values, value.close),
    ]


def _built(plan: Conversion) -> tuple[HeaderConverter, HeaderConverter, HeaderConverter]:
    return plan.key.build(Use.KEY), plan.value.build(Use.VALUE), plan.header.build(Use.HEADER)


def _transform(plan: TransformPlan, transform: Transform) -> Step:
    apply: Apply = transform.apply
    if plan.predicate is not None:
        apply = _guarded(transform, plan.predicate.build(), plan.negate)
    class_name = plan.plugin.class_name
    return Step(Stage.TRANSFORMATION, class_name, apply, transform.close, plan.alias)


def _guarded(transform: Transform, predicate: Predicate, negate: bool) -> Apply:
    """Applies a transform to the records for which the predicate holds, or does not."""

    def apply(records: Records, failed: Failed) -> Records:
        hits = predicate.test(records, failed)
        chosen = [row for row, hit in enumerate(hits) if hit is not negate and row not in failed]
        if len(chosen) == len(records):
            return transform.apply(records, failed)
        if not chosen:
            return records
        untouched = set(range(len(records))).difference(chosen)
        badly: Failed = {}
        changed = transform.apply(records.only(chosen), badly)
        failed |= {chosen[row]: error for row, error in badly.items()}
        return Records.together(changed, records.only(sorted(untouched)))

    return apply


ConvertHeaders = Callable[[Sequence[str], list[Header], Failed], Iterable[Header]]


def _headers(convert: ConvertHeaders) -> Apply:
    """Converts all headers together; a header shared by neighbours for the same topic, only once. A
    record fails if one of its headers does."""

    def apply(records: Records, failed: Failed) -> Records:
        if not any(records.headers):
            return records
        topics: list[str] = []
        flat: list[Header] = []  # keeps them alive, so that no id is reused
        rows: list[list[int]] = []  # the places in `flat` of a record's headers
        places_by_id: dict[int, int] = {}
        last: str | None = None
        for topic, headers in zip(records.topics, records.headers, strict=True):
            if topic != last:
                places_by_id = {}
                last = topic
            places: list[int] = []
            for header in headers:
                place = places_by_id.setdefault(id(header), len(flat))
                if place == len(flat):
                    flat.append(header)
                    topics.append(topic)
                places.append(place)
            rows.append(places)
        badly: Failed = {}
        converted = list(convert(topics, flat, badly))
        if badly:
            for row, places in enumerate(rows):
                first = next((place for place in places if place in badly), None)
                if first is not None:
                    failed[row] = badly[first]
        return records.with_headers([[converted[place] for place in places] for places in rows])

    return apply


def _read_headers(converter: HeaderConverter) -> ConvertHeaders:
    def convert(topics: Sequence[str], flat: list[Header], failed: Failed) -> Iterable[Header]:
        column = converter.to_connect(topics, [header.value for header in flat], failed)
        return [
            Header(header.name, value, schema)
            for header, value, schema in zip(flat, column.values, column.schemas(), strict=True)
        ]

    return convert


def _write_headers(converter: HeaderConverter) -> ConvertHeaders:
    def convert(topics: Sequence[str], flat: list[Header], failed: Failed) -> Iterable[Header]:
        values = [header.value for header in flat]
        column = Column.gather(values, [header.schema for header in flat])
        cells = converter.from_connect(topics, column, failed)
        return [Header(header.name, cell) for header, cell in zip(flat, cells, strict=True)]

    return convert

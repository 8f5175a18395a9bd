"""Shows the first records that the tasks of a source would send."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli import show
from penstock.cli.exits import HasFailed

if TYPE_CHECKING:
    from penstock.api import Polled, SourceReader
    from penstock.data.records import Records
    from penstock.data.schema import Schema
    from penstock.flow.plan import ConverterPlan, SourcePlan
    from penstock.flow.stage.pipeline import Pipeline

_WINDOW_BYTES: Final = 1 << 20
"""The approximate size of a poll: small, as only the first records are shown."""

_SLICE: Final = 64  # records that are converted together; of more, most would not be shown
_MOST_READ: Final = 10_000
"""The maximum number of records that are read for a topic, as transforms may drop all of them."""
_MOST_POLLS: Final = 1_000
_IDLE_MS: Final = 100  # before the next poll of a reader that waits in `poll`


def as_shown(plan: SourcePlan) -> SourcePlan:
    """The plan, with converters that show records instead of its own."""
    json_converter = _json_converter()
    conversion = replace(
        plan.conversion, key=json_converter, value=json_converter, header=json_converter
    )
    # No retries: the user waits for the output.
    tolerance = replace(plan.tolerance, retry_timeout_ms=0)
    return replace(plan, conversion=conversion, tolerance=tolerance)


def _json_converter() -> ConverterPlan:
    from penstock.convert.json import JsonConverter
    from penstock.flow.plan import ConverterPlan
    from penstock.plugins.ref import PluginRef

    settings = {"schemas.enable": "false", "decimal.format": "NUMERIC"}
    return ConverterPlan(PluginRef.of(JsonConverter), JsonConverter.plugin.config.parse(settings))


class PreviewOutput:
    """The output so far. A topic is full if it has enough records, or if too many were read."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.lines: Counter[str] = Counter()  # by the reader's topic
        self.read: Counter[str] = Counter()
        self.schemas: dict[str, Any] = {}  # by the topic after transforms

    def full(self, topic: str) -> bool:
        return self.lines[topic] >= self.rows or self.read[topic] >= _MOST_READ


class SourcePreview:
    """Reads the beginning of one task's share."""

    def __init__(self, plan: SourcePlan, shown: PreviewOutput) -> None:
        from penstock.flow.stage.pipeline import Pipeline, source_steps

        steps = source_steps(plan.conversion)
        count = len(plan.conversion.transforms)
        self._plan = plan
        self._shown = shown
        self._transforms = Pipeline(steps[:count], plan.tolerance)
        self._converters = Pipeline(steps[count:], plan.tolerance)

    def run(self, wait_for_more: Callable[[int], bool]) -> None:
        """Polls until there is nothing more to show, or to read. While nothing was read at all,
        calls `wait_for_more` with milliseconds; it returns whether to poll again."""
        from penstock.plugins.contexts import SourceContextStub

        context = SourceContextStub(task=self._plan.task)  # without stored offsets
        connector = self._plan.connector.load()()
        connector.check_installed(self._plan.config)
        reader = connector.open(self._plan.config, context)
        try:
            any_polled = False
            for _ in range(_MOST_POLLS):
                while (polled := reader.poll(_WINDOW_BYTES, 0)) is None:
                    if any_polled or not wait_for_more(reader.idle_ms or _IDLE_MS):
                        return
                any_polled = True
                if not self._polled(reader, polled):
                    return
        finally:
            reader.close()

    def _polled(self, reader: SourceReader, polled: Polled) -> bool:
        """Shows the polled records; returns whether another poll is useful."""
        from penstock.api import Transaction

        if polled.transaction is Transaction.ABORTED:
            return True  # nothing of it is sent
        if not polled.parts:
            return not len(polled.records) or self._batch(polled.records)
        useful = False
        for part in polled.parts:
            for records in reader.read(part):
                if not self._batch(records):
                    break
                useful = True
        return useful

    def _batch(self, records: Records) -> bool:
        """Shows the records of a batch; returns whether any of its topics was not full."""
        useful = False
        rows = range(len(records))
        while rows:
            chosen = [row for row in rows[:_SLICE] if not self._shown.full(records.topics[row])]
            rows = rows[_SLICE:]
            if chosen:
                useful = True
                self._shown.read.update(records.topics[row] for row in chosen)
                self._show(
                    records.only(chosen), dict(zip(records.origins, records.topics, strict=True))
                )
        return useful

    def _show(self, records: Records, topics: Mapping[int, str]) -> None:
        shown = self._shown
        transformed = self._through(self._transforms, records)
        sides = zip(transformed.keys.schemas(), transformed.values.schemas(), strict=True)
        schemas = dict(zip(transformed.origins, sides, strict=True))
        converted = self._through(self._converters, transformed)
        for row, origin in enumerate(converted.origins):
            topic = converted.topics[row]
            if shown.lines[topics[origin]] >= shown.rows:
                continue
            shown.lines[topics[origin]] += 1
            described = tuple(map(short, schemas[origin]))
            if shown.schemas.get(topic) != described:
                shown.schemas[topic] = described
                key, value = described
                _print({"topic": _text(topic), "schema": _text({"key": key, "value": value})})
            _print(_cells(converted, row))

    def _through(self, pipeline: Pipeline, records: Records) -> Records:
        from penstock.flow.stage.failures import describe

        done, failures = pipeline.run(records)
        for failure in failures:
            text = describe(failure)
            if not self._plan.tolerance.tolerate_all:
                raise HasFailed(
                    f"The task {self._plan.task} would fail: {text}",
                    "errors.tolerance=all skips such records.",
                )
            show.note(f"A record is skipped: {text}")
        return done


def _cells(records: Records, row: int) -> dict[str, str]:
    """A record's cells as JSON; those that most sources leave out only if they are set."""
    cells = {"topic": _text(records.topics[row])}
    if records.partitions[row] is not None:
        cells["partition"] = _text(records.partitions[row])
    if records.timestamps[row] is not None:
        cells["timestamp"] = _text(records.timestamps[row])
    if records.headers and records.headers[row]:
        pairs = (f"[{_text(header.name)}, {_raw(header.value)}]" for header in records.headers[row])
        cells["headers"] = f"[{', '.join(pairs)}]"
    return {
        **cells,
        "key": _raw(records.keys.values[row]),
        "value": _raw(records.values.values[row]),
    }


def _print(cells: Mapping[str, str]) -> None:
    """Prints one line of JSON, with control characters escaped."""
    line = "{" + ", ".join(f"{_text(name)}: {cell}" for name, cell in cells.items()) + "}"
    click.echo("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line))


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _raw(cell: bytes | None) -> str:
    return "null" if cell is None else cell.decode()


def short(schema: Schema | None) -> str | None:
    """A schema in a few words; None without a schema.

    >>> from penstock.data import schema as s
    >>> short(s.struct({"id": s.INT64, "tags": s.array(s.STRING, optional=True)}, name="order"))
    'order {id INT64, tags [STRING]?}'
    >>> short(s.map_of(s.STRING, s.decimal(2)))
    'map of STRING to Decimal(2)'
    """
    if schema is None:
        return None
    return _short(schema)


def _short(schema: Schema) -> str:
    from penstock.data.schema import Logical, Type

    mark = "?" if schema.optional else ""
    if schema.logical is Logical.DECIMAL:
        return f"Decimal({schema.scale}){mark}"
    simple = (schema.name or "").rpartition(".")[2]
    match schema.type:
        case Type.STRUCT:
            fields = ", ".join(f"{field.name} {_short(field.schema)}" for field in schema.fields)
            return f"{simple} {{{fields}}}{mark}".lstrip()
        case Type.ARRAY:
            return f"[{_inner(schema.value_schema)}]{mark}"
        case Type.MAP:
            key, value = _inner(schema.key_schema), _inner(schema.value_schema)
            text = f"map of {key} to {value}"
            return f"({text})?" if mark else text
    return f"{simple or schema.type.name}{mark}"


def _inner(schema: Schema | None) -> str:
    return "any" if schema is None else _short(schema)

"""`penstock preview`: the first records that a source connector would send, read in this process,
without a cluster, and not sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli import files, show
from penstock.cli.connectors import config_errors, file_argument, name_option, set_option
from penstock.cli.exits import HasFailed, NotThere, NotValid, Unusable
from penstock.cli.session import Session, pass_session
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.api import Polled, SourceReader
    from penstock.config.properties import ConnectorFile
    from penstock.data.records import Records
    from penstock.data.schema import Schema
    from penstock.flow.plan import ConverterPlan, SourcePlan
    from penstock.flow.stage.pipeline import Pipeline
    from penstock.plugins.registry import Registry
    from penstock.runtime.planning import Planner

_WINDOW_BYTES: Final = 1 << 20
"""About how much a poll is to read: small, for only the first records are shown."""

_SLICE: Final = 64  # records that are converted together; of more, most would not be shown
_MOST_READ: Final = 10_000
"""Records of a topic after which no more are read for it, if transforms leave all of them out."""
_MOST_POLLS: Final = 1_000
_IDLE_MS: Final = 100  # before the next poll of a reader that would wait in it

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_WORKER: Final[Mapping[str, str]] = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "penstock-preview",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "config.storage.topic": "penstock-preview-configs",
    "offset.storage.topic": "penstock-preview-offsets",
    "status.storage.topic": "penstock-preview-status",
}
"""What a worker needs to be told to plan; nothing here is ever reached."""


@click.command()
@file_argument
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="The maximum number of records of each topic.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0,
    metavar="SECONDS",
    help="How long to wait for records; by default not at all.",
)
@click.option(
    "--worker",
    "worker_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A worker's settings, for its plugin.path and config providers.",
)
@name_option
@set_option
@pass_session
def preview(
    session: Session,
    file: str,
    rows: int,
    wait_s: float,
    worker_file: Path | None,
    name: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Show the first records that the source in FILE would send.

    Reads from the beginning (it looks up no offsets), in this process, and sends nothing. Prints a
    JSON object for each: its topic, its key and value after the transforms, as the
    JsonConverter writes them without schemas, decimals as numbers. Before the first one of a
    topic, and when they change, one with the schemas; `?` marks what may be null.

    Exits with 3 if the configuration is invalid, with 4 if the task would fail.
    """
    wanted = files.read_connector(file, name, files.settings(pairs))
    planner, registry = _planner(session, worker_file)
    try:
        _demand_source(registry, wanted)
        _demand_valid(planner, wanted)
        plans = _plans(planner, wanted)
    finally:
        planner.providers.close()
    deadline = session.clock.now() + int(wait_s * 1000)

    def again(idle_ms: int) -> bool:
        """Waits a little; False, at once, when it was long enough."""
        left = deadline - session.clock.now()
        if left > 0:
            session.pause(min(idle_ms, left) / 1000)
        return left > 0

    shown = _Shown(rows)
    for plan in plans:
        try:
            _Preview(plan, shown).run(again)
        except PenstockError:
            raise
        except Exception as error:  # other people's code may raise anything
            raise HasFailed(
                f"The task {plan.task} would fail: {type(error).__name__}: {error}"
            ) from error
    if not shown.lines:
        left_out = " that the transforms do not leave out" if shown.read else ""
        show.note(f"'{wanted.name}' finds no records{left_out}.")


def _planner(session: Session, worker_file: Path | None) -> tuple[Planner, Registry]:
    """What plans as a worker with these settings would."""
    from penstock.cli import start
    from penstock.config.worker import parse_distributed
    from penstock.plugins import path as plugin_path
    from penstock.runtime.planning import Planner
    from penstock.runtime.providers import resolved_worker

    settings = {**_WORKER, **start.worker_settings(worker_file, session.environ)}
    registry = plugin_path.registry(settings)
    return Planner(parse_distributed(resolved_worker(settings, registry)), registry), registry


def _demand_source(registry: Registry, wanted: ConnectorFile) -> None:
    from penstock.plugins.registry import Kind

    named = wanted.config.get("connector.class")
    if not named:
        raise NotValid('Missing required configuration "connector.class".')
    found = registry.find_connector(named)
    if found is None:
        raise NotThere(
            f"There is no connector '{named}' here.",
            "`penstock plugins doctor` lists the plugins; --worker names a plugin.path.",
        )
    if found.kind is Kind.SINK:
        raise Unusable(
            f"'{wanted.name}' is a sink connector.",
            "Only source connectors have a preview.",
        )


def _demand_valid(planner: Planner, wanted: ConnectorFile) -> None:
    errors = config_errors(planner.validate(wanted.config))
    if errors:
        told = [f"{key}: {error}" for key, _, error in errors]
        raise NotValid("\n".join(["The configuration is invalid.", *told]))


def _plans(planner: Planner, wanted: ConnectorFile) -> list[SourcePlan]:
    """The plans of the tasks, with what is shown in place of what would be sent."""
    from penstock.flow.plan import SourcePlan
    from penstock.ids import TaskId

    json_converter = _json_converter()
    plans = []
    for number, config in enumerate(planner.planned(wanted.name, wanted.config).configs):
        plan = planner.flow(TaskId(wanted.name, number), 1, wanted.config, config)
        assert isinstance(plan, SourcePlan)
        conversion = replace(
            plan.conversion, key=json_converter, value=json_converter, header=json_converter
        )
        # Whoever looks on is told at once.
        tolerance = replace(plan.tolerance, retry_timeout_ms=0)
        plans.append(replace(plan, conversion=conversion, tolerance=tolerance))
    return plans


def _json_converter() -> ConverterPlan:
    from penstock.convert.json import JsonConverter
    from penstock.flow.plan import ConverterPlan

    settings = {"schemas.enable": "false", "decimal.format": "NUMERIC"}
    return ConverterPlan(JsonConverter, JsonConverter.plugin.config.parse(settings))


class _Shown:
    """What was printed so far. A topic is full when it has enough records, or will not have."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.lines: Counter[str] = Counter()  # by the topic that the reader said
        self.read: Counter[str] = Counter()
        self.schemas: dict[str, Any] = {}  # by the topic where they go to

    def full(self, topic: str) -> bool:
        return self.lines[topic] >= self.rows or self.read[topic] >= _MOST_READ


class _Preview:
    """Reads the beginning of one task's share."""

    def __init__(self, plan: SourcePlan, shown: _Shown) -> None:
        from penstock.flow.stage.pipeline import Pipeline, source_steps

        steps = source_steps(plan.conversion)
        count = len(plan.conversion.transforms)
        self._plan = plan
        self._shown = shown
        self._transforms = Pipeline(steps[:count], plan.tolerance)
        self._converters = Pipeline(steps[count:], plan.tolerance)

    def run(self, again: Callable[[int], bool]) -> None:
        """Polls until there is nothing more to show, or to read; `again` says whether to poll once
        more, if there was nothing at all, after so many milliseconds."""
        from penstock.testing.contexts import SourceContextStub

        context = SourceContextStub(task=self._plan.task)  # which knows no offsets
        connector = self._plan.connector()
        connector.check_installed(self._plan.config)
        reader = connector.open(self._plan.config, context)
        try:
            found = False
            for _ in range(_MOST_POLLS):
                while (polled := reader.poll(_WINDOW_BYTES, 0)) is None:
                    if found or not again(reader.idle_ms or _IDLE_MS):
                        return
                found = True
                if not self._polled(reader, polled):
                    return
        finally:
            reader.close()

    def _polled(self, reader: SourceReader, polled: Polled) -> bool:
        """Whether there was anything that is worth another poll."""
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
        """Shows what is to be shown of a batch; whether there was a topic that was not full."""
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
        from penstock.flow.stage.failures import told

        done, failures = pipeline.run(records)
        for failure in failures:
            text = told(failure)
            if not self._plan.tolerance.tolerate_all:
                raise HasFailed(
                    f"The task {self._plan.task} would fail: {text}",
                    "errors.tolerance=all skips such records.",
                )
            show.note(f"A record is skipped: {text}")
        return done


def _cells(records: Records, row: int) -> dict[str, str]:
    """A record's cells as JSON; those that most sources leave open only where they are given."""
    cells = {"topic": _text(records.topics[row])}
    if records.partitions[row] is not None:
        cells["partition"] = _text(records.partitions[row])
    if records.timestamps[row] is not None:
        cells["timestamp"] = _text(records.timestamps[row])
    if records.headers and records.headers[row]:
        pairs = (f"[{_text(each.name)}, {_raw(each.value)}]" for each in records.headers[row])
        cells["headers"] = f"[{', '.join(pairs)}]"
    return {
        **cells,
        "key": _raw(records.keys.values[row]),
        "value": _raw(records.values.values[row]),
    }


def _print(cells: Mapping[str, str]) -> None:
    """One line of JSON, in which nothing is left that a terminal would obey."""
    line = "{" + ", ".join(f"{_text(name)}: {cell}" for name, cell in cells.items()) + "}"
    click.echo("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line))


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _raw(cell: bytes | None) -> str:
    return "null" if cell is None else cell.decode()


def short(schema: Schema | None) -> str | None:
    """A schema in a few words; None: there is none.

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
            fields = ", ".join(f"{each.name} {_short(each.schema)}" for each in schema.fields)
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

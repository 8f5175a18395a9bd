"""`penstock preview`: runs a connector in this process to show what it would send or write. Nothing
is sent, and nothing is written."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from penstock.cli import files, show
from penstock.cli.connectors import config_errors, file_argument, name_option, set_option
from penstock.cli.exits import HasFailed, NotThere, NotValid, Unusable
from penstock.cli.session import CommandSession, pass_session
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.config.properties import ConnectorFile
    from penstock.flow.plan import SinkPlan, SourcePlan
    from penstock.plugins.registry import PluginKind, Registry
    from penstock.runtime.planning import Planner

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_BOOTSTRAP: Final = "bootstrap.servers"
_SOURCE_ROWS: Final = 10
_SINK_ROWS: Final = 100_000
_WORKER: Final[Mapping[str, str]] = {
    _BOOTSTRAP: "localhost:9092",
    "group.id": "penstock-preview",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "config.storage.topic": "penstock-preview-configs",
    "offset.storage.topic": "penstock-preview-offsets",
    "status.storage.topic": "penstock-preview-status",
}
"""The settings that a worker requires to plan; only Kafka's address is used, for sinks."""


@click.command()
@file_argument
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    help=f"The maximum number of records: of each topic for a source ({_SOURCE_ROWS}), of each "
    f"partition for a sink ({_SINK_ROWS}).",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0,
    metavar="SECONDS",
    help="How long a source waits for records; by default not at all.",
)
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help="Where a sink begins: earliest, an offset (42), before the end (-10), an age (15m), or a "
    "time.",
)
@click.option(
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT",
    help="Kafka, for a sink; or PENSTOCK_BOOTSTRAP_SERVERS (localhost:9092).",
)
@click.option(
    "--worker",
    "worker_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A worker's settings, for its Kafka, converters, plugin.path and config providers.",
)
@name_option
@set_option
@pass_session
def preview(
    session: CommandSession,
    file: str,
    rows: int | None,
    wait_s: float,
    start: str,
    bootstrap: str | None,
    worker_file: Path | None,
    name: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Show what the connector in FILE would send or write.

    For a source: its first records. Reads from the beginning (it looks up no offsets), in this
    process, and sends nothing. Prints a JSON object for each: its topic, its key and value after
    the transforms, as the JsonConverter writes them without schemas, decimals as numbers. Before
    the first one of a topic, and when they change, one with the schemas; `?` marks what may be
    null.

    For a sink that has a preview: what it would write of the records that its topics have now, such
    as the names of files. Reads the topics without joining a group, and writes nothing.

    Exits with 3 if the configuration is invalid, with 4 if the task would fail.
    """
    from penstock.flow.plan import SinkPlan
    from penstock.plugins.registry import PluginKind

    connector = files.read_connector(file, name, files.settings(pairs))
    planner, registry, origin = _planner(session, worker_file, bootstrap)
    try:
        kind = _kind(registry, connector)
        if kind is PluginKind.SINK:
            _demand_preview(registry, connector)
        _demand_valid(planner, connector)
        plans = _plans(planner, connector)
    finally:
        planner.providers.close()
    sinks = [plan for plan in plans if isinstance(plan, SinkPlan)]
    if sinks:
        from penstock.cli.previews.sink import SinkPreview

        # Each task would write its own partitions; here the first one writes them all.
        _guarded(sinks[0], SinkPreview(session, sinks[0], origin, rows or _SINK_ROWS, start).run)
        return
    _show_source(
        session, connector.name, [p for p in plans if not isinstance(p, SinkPlan)], rows, wait_s
    )


def _show_source(
    session: CommandSession, name: str, plans: list[SourcePlan], rows: int | None, wait_s: float
) -> None:
    from penstock.cli.previews.source import PreviewOutput, SourcePreview, as_shown

    deadline = session.clock.now() + int(wait_s * 1000)

    def wait_for_more(idle_ms: int) -> bool:
        """Waits a moment; returns False, at once, after the deadline."""
        remaining_ms = deadline - session.clock.now()
        if remaining_ms > 0:
            session.pause(min(idle_ms, remaining_ms) / 1000)
        return remaining_ms > 0

    shown = PreviewOutput(rows or _SOURCE_ROWS)
    for plan in plans:
        reading = SourcePreview(as_shown(plan), shown)
        _guarded(plan, partial(reading.run, wait_for_more))
    if not shown.lines:
        left_out = " that the transforms keep" if shown.read else ""
        show.note(f"'{name}' finds no records{left_out}.")


def _guarded(plan: SourcePlan | SinkPlan, run: Callable[[], None]) -> None:
    try:
        run()
    except PenstockError:
        raise
    except Exception as error:  # other people's code may raise anything
        raise HasFailed(
            f"The task {plan.task} would fail: {type(error).__name__}: {error}"
        ) from error


def _planner(
    session: CommandSession, worker_file: Path | None, bootstrap: str | None
) -> tuple[Planner, Registry, str]:
    """A planner with a worker's settings, its registry, and the origin of Kafka's address."""
    from penstock.cli import start
    from penstock.cli.records.settings import VARIABLE
    from penstock.config.worker import parse_distributed
    from penstock.plugins import path as plugin_path
    from penstock.runtime.planning import Planner
    from penstock.runtime.providers import resolved_worker

    worker = start.worker_settings(worker_file, session.environ)
    variable = session.environ.get(VARIABLE)
    settings = {**_WORKER, **worker}
    if bootstrap:
        settings[_BOOTSTRAP], origin = bootstrap, "--bootstrap-server"
    elif _BOOTSTRAP in worker and (worker_file is not None or not variable):
        origin = str(worker_file) if worker_file is not None else "CONNECT_BOOTSTRAP_SERVERS"
    elif variable:
        settings[_BOOTSTRAP], origin = variable, VARIABLE
    else:
        origin = "the default"
    registry = plugin_path.registry(settings)
    planner = Planner(parse_distributed(resolved_worker(settings, registry)), registry)
    return planner, registry, origin


def _kind(registry: Registry, connector: ConnectorFile) -> PluginKind:
    class_name = connector.config.get("connector.class")
    if not class_name:
        raise NotValid('Missing required configuration "connector.class".')
    entry = registry.find_connector(class_name)
    if entry is None:
        raise NotThere(
            f"There is no connector '{class_name}' here.",
            "`penstock plugins doctor` lists the plugins; --worker names a plugin.path.",
        )
    return entry.kind


def _demand_preview(registry: Registry, connector: ConnectorFile) -> None:
    from penstock.api import SinkConnector

    entry = registry.find_connector(connector.config["connector.class"])
    assert entry is not None, "its kind is known"
    assert issubclass(entry.cls, SinkConnector), "that is its kind"
    if entry.cls.open_preview is SinkConnector.open_preview:
        raise Unusable(
            f"'{connector.name}' is a sink connector without a preview.",
            "Sources have one, and sinks that implement `open_preview`, such as those of files.",
        )


def _demand_valid(planner: Planner, connector: ConnectorFile) -> None:
    errors = config_errors(planner.validate(connector.config))
    if errors:
        problems = [f"{key}: {error}" for key, _, error in errors]
        raise NotValid("\n".join(["The configuration is invalid.", *problems]))


def _plans(planner: Planner, connector: ConnectorFile) -> list[SourcePlan | SinkPlan]:
    from penstock.ids import TaskId

    return [
        planner.flow(TaskId(connector.name, number), 1, connector.config, config)
        for number, config in enumerate(planner.planned(connector.name, connector.config).configs)
    ]

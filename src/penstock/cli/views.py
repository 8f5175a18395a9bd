"""Commands about the cluster: list, topics, offsets, logs, health, clusters,
completion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from penstock.cli import clusters as known_clusters
from penstock.cli import files, rest, show
from penstock.cli.connectors import name_argument
from penstock.cli.exits import CommandError, Exit
from penstock.cli.predefined import PREDEFINED
from penstock.cli.session import CommandSession, common, pass_session

SHELLS: Final = ("bash", "zsh", "fish")
LEVELS: Final = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")

_LOOK_S: Final = 1.0


@click.group("list")
def listing() -> None:
    """List connectors, plugins, or predefined connectors."""


@listing.command("connectors")
@click.option("-q", "--names", is_flag=True, help="Only names, one per line.")
@common
@pass_session
def list_connectors(session: CommandSession, names: bool) -> None:
    """The connectors of the cluster. With --json, their names."""
    with session.connect() as connect:
        plain = session.json or names
        answer = connect.get("/connectors", None if plain else {"expand": "info"})
    if session.prints_json(answer):
        return
    if names:
        for name in sorted(answer.read(rest.NAMES)):
            show.echo(name)
        return
    infos = [entry["info"] for _, entry in sorted(answer.read(rest.INFOS).items())]
    show.table(
        ("NAME", "TYPE", "TASKS", "CLASS"),
        [
            (
                info["name"],
                info.get("type"),
                len(info.get("tasks", ())),
                info["config"].get("connector.class"),
            )
            for info in infos
        ],
    )


@listing.command("plugins")
@click.option("--all", "every", is_flag=True, help="Also converters, transforms and predicates.")
@common
@pass_session
def list_plugins(session: CommandSession, every: bool) -> None:
    """The connector classes of the worker."""
    with session.connect() as connect:
        query = {"connectorsOnly": "false"} if every else None
        answer = connect.get("/connector-plugins", query)
    if not session.prints_json(answer):
        rows = [
            (plugin["type"], plugin["class"], plugin.get("version"))
            for plugin in answer.read(rest.PLUGINS)
        ]
        show.table(("TYPE", "CLASS", "VERSION"), rows)


@listing.command("predefined")
@common
@pass_session
def list_predefined(session: CommandSession) -> None:
    """The connectors that `penstock load NAME` creates without a file."""
    if session.json:
        show.pretty(PREDEFINED)
        return
    rows = [
        (name, " ".join(f"{key}={value}" for key, value in config.items()))
        for name, config in PREDEFINED.items()
    ]
    show.table(("NAME", "SETTINGS"), rows)


@click.command()
@name_argument
@click.option("--reset", is_flag=True, help="Reset them; topics in use are soon tracked again.")
@common
@pass_session
def topics(session: CommandSession, name: str, reset: bool) -> None:
    """Show the active topics of a connector."""
    with session.connect() as connect:
        if reset:
            if not session.prints_json(connect.ask("PUT", rest.connector(name, "topics", "reset"))):
                show.echo(f"{name}: topics reset")
            return
        answer = connect.get(rest.connector(name, "topics"))
    if not session.prints_json(answer):
        for topic in sorted(answer.read(rest.TOPICS).get(name, {}).get("topics", ())):
            show.echo(topic)


@click.group()
def offsets() -> None:
    """Show, alter or reset the offsets of a connector.

    Stop the connector before you alter or reset them.
    """


@offsets.command("get")
@name_argument
@common
@pass_session
def get_offsets(session: CommandSession, name: str) -> None:
    """Show the offsets of the connector."""
    with session.connect() as connect:
        answer = connect.get(rest.connector(name, "offsets"))
    if session.prints_json(answer):
        return
    entries: list[Mapping[str, Any]] = answer.read(rest.OFFSETS)["offsets"]
    if all(_is_sinks(entry) for entry in entries) and entries:
        show.table(("TOPIC", "PARTITION", "OFFSET"), sorted(map(_sink_row, entries)))
    else:
        rows = [(_compact(entry["partition"]), _compact(entry["offset"])) for entry in entries]
        show.table(("PARTITION", "OFFSET"), sorted(rows))


@offsets.command("alter")
@name_argument
@click.argument("file", type=click.Path(allow_dash=True))
@common
@pass_session
def alter_offsets(session: CommandSession, name: str, file: str) -> None:
    """Alter offsets to those in FILE, in the format of `offsets get --json`; `-` is stdin."""
    body = files.read_offsets(file)
    with session.connect() as connect:
        answer = connect.ask("PATCH", rest.connector(name, "offsets"), body=body)
    if not session.prints_json(answer):
        show.echo(answer.read(rest.MESSAGE)["message"])


@offsets.command("reset")
@name_argument
@common
@pass_session
def reset_offsets(session: CommandSession, name: str) -> None:
    """Reset all offsets: the connector starts from the beginning when it is resumed."""
    with session.connect() as connect:
        answer = connect.ask("DELETE", rest.connector(name, "offsets"))
    if not session.prints_json(answer):
        show.echo(answer.read(rest.MESSAGE)["message"])


def _is_sinks(entry: Mapping[str, Any]) -> bool:
    partition, offset = entry.get("partition"), entry.get("offset")
    return (
        isinstance(partition, dict)
        and set(partition) == {"kafka_topic", "kafka_partition"}
        and isinstance(offset, dict)
        and set(offset) == {"kafka_offset"}
    )


def _sink_row(entry: Mapping[str, Any]) -> tuple[str, int, int]:
    partition = entry["partition"]
    return (
        str(partition["kafka_topic"]),
        int(partition["kafka_partition"]),
        int(entry["offset"]["kafka_offset"]),
    )


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@click.group()
def logs() -> None:
    """Show or set log levels."""


@logs.command("level")
@click.argument("logger", required=False)
@click.argument("level", required=False)
@click.option("--cluster-wide", is_flag=True, help="On every worker of the cluster.")
@common
@pass_session
def log_level(
    session: CommandSession, logger: str | None, level: str | None, cluster_wide: bool
) -> None:
    """Show the levels of all loggers, or of LOGGER; or set LOGGER and those below it to LEVEL."""
    if cluster_wide and level is None:
        raise click.UsageError("--cluster-wide needs a LEVEL.")
    if level is not None and level.upper() not in LEVELS:
        raise click.UsageError(f"Unknown level '{level}'; the levels are {', '.join(LEVELS)}.")
    path = "/admin/loggers" if logger is None else f"/admin/loggers/{rest.in_path(logger)}"
    with session.connect() as connect:
        if level is not None:
            query = {"scope": "cluster"} if cluster_wide else None
            answer = connect.ask("PUT", path, query=query, body={"level": level.upper()})
        else:
            answer = connect.get(path)
    if session.prints_json(answer):
        return
    if level is None:
        levels = answer.read(rest.LEVELS) if logger is None else {logger: answer.read(rest.LEVEL)}
        rows = [
            (name, entry.get("level"), _time(entry.get("last_modified")))
            for name, entry in levels.items()
        ]
        show.table(("LOGGER", "LEVEL", "CHANGED"), rows)
    elif not answer.content:
        show.echo(f"{logger} is {level.upper()} on every worker")
    else:
        for name in answer.read(rest.NAMES):
            show.echo(f"{name} is {level.upper()}")


def _time(ms: int | None) -> str | None:
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")


@click.command()
@click.option("--wait", is_flag=True, help="Wait until every worker is healthy.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
)
@common
@pass_session
def health(session: CommandSession, wait: bool, timeout: float) -> int:
    """Show the health of the workers.

    Checks all that --url or the cluster names. Exits with 0 when all are healthy, with 6 when one
    does not answer, otherwise with 4; with 7 when --wait times out. With --json, prints a line for
    each response.
    """
    deadline = session.clock.now() + int(timeout * 1000)
    with session.connect() as connect:
        responses = connect.each("/health")
        while wait and _worst(responses) is not Exit.DONE and session.clock.now() < deadline:
            session.pause(_LOOK_S)
            responses = connect.each("/health")
    worst = _worst(responses)
    if session.json:
        for _, answer in responses:
            if not isinstance(answer, CommandError):
                click.echo(answer.content.rstrip(b"\n"))
    else:
        show.table(("WORKER", "HEALTH", "MESSAGE"), [(url, *_words(a)) for url, a in responses])
        for _, answer in responses:
            if isinstance(answer, CommandError) and len(responses) == 1:
                raise answer
    return Exit.TIMED_OUT if wait and worst is not Exit.DONE else worst


def _worst(responses: list[tuple[str, Any]]) -> Exit:
    if any(isinstance(answer, CommandError) for _, answer in responses):
        return Exit.NO_ANSWER
    return (
        Exit.DONE if all(_words(answer)[0] == "healthy" for _, answer in responses) else Exit.FAILED
    )


def _words(answer: Any) -> tuple[str, str]:
    """A worker's health in a word, and its message."""
    if isinstance(answer, CommandError):
        return "no answer", str(answer).rpartition(": ")[2]
    try:
        document = json.loads(answer.content)
        return str(document["status"]), str(document.get("message", ""))
    except (ValueError, KeyError, TypeError):
        return "unknown", f"HTTP {answer.status}: {answer.content[:200].decode('utf-8', 'replace')}"


@click.command()
@common
@pass_session
def clusters(session: CommandSession) -> None:
    """Show the known clusters, and the current one."""
    clusters = known_clusters.read_clusters(session.environ)
    chosen = known_clusters.choose(session.url, session.cluster, session.environ)
    if session.json:
        show.pretty(
            {
                "file": str(clusters.file),
                "chosen": {"name": chosen.name, "urls": [a.url for a in chosen.addresses]},
                "clusters": {
                    name: {"urls": [a.url for a in cluster.addresses], "user": cluster.user}
                    for name, cluster in clusters.by_name.items()
                },
            }
        )
        return
    listed = [*clusters.by_name.values()]
    if chosen.name is None or chosen != clusters.by_name.get(chosen.name):
        listed.append(chosen)  # by its URL
    show.table(
        ("", "CLUSTER", "USER", "URL"),
        [
            (
                "*" if cluster == chosen else "",
                cluster.name or "-",
                cluster.user or next((a.auth[0] for a in cluster.addresses if a.auth), None),
                ", ".join(address.url for address in cluster.addresses),
            )
            for cluster in listed
        ],
    )
    if not clusters.by_name:
        show.note(f"No clusters in {clusters.file}.")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for completion in a shell.

    It completes commands, options and the names of connectors.

    \b
      bash  eval "$(penstock completion bash)"          in ~/.bashrc
      zsh   eval "$(penstock completion zsh)"           in ~/.zshrc
      fish  penstock completion fish | source           in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows the three"
    root = ctx.find_root()
    click.echo(kind(root.command, {}, "penstock", "_PENSTOCK_COMPLETE").source())

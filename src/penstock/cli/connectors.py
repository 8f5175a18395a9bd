"""Commands about configurations: load, create, update, patch, delete, config, validate,
diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli import differences, files, rest, show, states
from penstock.cli.exits import Exit, NotThere, NotValid
from penstock.cli.predefined import PREDEFINED
from penstock.cli.session import CommandSession, common, connector_names, pass_session
from penstock.config.properties import ConnectorFile, render_properties

if TYPE_CHECKING:
    from penstock.cli.client import Connect

F = TypeVar("F", bound=Callable[..., Any])

WAIT_S = 60.0
_CLASS = "connector.class"

name_argument = click.argument("name", shell_complete=connector_names)
names_argument = click.argument("names", nargs=-1, required=True, shell_complete=connector_names)
file_argument = click.argument("file", type=click.Path(allow_dash=True))
name_option = click.option("--name", help="The connector's name; overrides the file's.")
set_option = click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Overrides the file; repeatable."
)


def waiting(command: F) -> F:
    """Adds `--wait` and `--timeout`."""
    command = click.option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=WAIT_S,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait.",
    )(command)
    return click.option("--wait", is_flag=True, help="Wait until this state is reached.")(command)


@click.command()
@name_argument
@click.option(
    "-d", "--file", type=click.Path(allow_dash=True), help=".properties or .json; `-` is stdin."
)
@set_option
@waiting
@common
@pass_session
def load(
    session: CommandSession,
    name: str,
    file: str | None,
    pairs: tuple[str, ...],
    wait: bool,
    timeout: float,
) -> None:
    """Create a connector from a file, or a predefined one.

    NAME overrides the name in the file. `penstock list predefined` lists the connectors that need
    no file. Prints the created connector.
    """
    overrides = files.settings(pairs)
    if file is not None:
        connector = files.read_connector(file, name, overrides)
    elif name in PREDEFINED:
        connector = ConnectorFile(name, {**PREDEFINED[name], **overrides, "name": name})
    else:
        raise NotThere(
            f"'{name}' is not predefined (known: {', '.join(PREDEFINED)}).",
            f"Name a file: penstock load {name} -d FILE",
        )
    with session.connect() as connect:
        answer = _created(connect, connector)
        if not session.prints_json(answer):
            info = answer.read(rest.INFO)
            info["config"] = show.masked_config(info["config"], session.show_secrets)
            show.pretty(info)
        if wait:
            _await(session, connect, connector, timeout)


@click.command()
@file_argument
@name_option
@set_option
@click.option(
    "--initial-state",
    type=click.Choice(["RUNNING", "PAUSED", "STOPPED"], case_sensitive=False),
    help="The initial target state.",
)
@waiting
@common
@pass_session
def create(
    session: CommandSession,
    file: str,
    name: str | None,
    pairs: tuple[str, ...],
    initial_state: str | None,
    wait: bool,
    timeout: float,
) -> None:
    """Create a connector from FILE.

    FILE is a create request, flat JSON, or properties; `-` is stdin.
    """
    read = files.read_connector(file, name, files.settings(pairs))
    connector = ConnectorFile(read.name, read.config, initial_state or read.initial_state)
    with session.connect() as connect:
        answer = _created(connect, connector)
        if not session.prints_json(answer):
            show.echo(f"created {connector.name} ({answer.read(rest.INFO).get('type', 'unknown')})")
        if wait:
            _await(session, connect, connector, timeout)


@click.command()
@file_argument
@name_option
@set_option
@click.option("--create", "may_create", is_flag=True, help="Create it if it does not exist.")
@waiting
@common
@pass_session
def update(
    session: CommandSession,
    file: str,
    name: str | None,
    pairs: tuple[str, ...],
    may_create: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Replace a connector's configuration with FILE.

    FILE is as for `create`. Prints the changes.
    """
    connector = files.read_connector(file, name, files.settings(pairs))
    with session.connect() as connect:
        stored = _stored(connect, connector.name)
        if stored is None and not may_create:
            raise NotThere(
                f"There is no connector '{connector.name}' to update.",
                "`penstock create` creates it, as does `penstock update --create`.",
            )
        _replaced(session, connect, connector, stored)
        if wait:
            _await(session, connect, connector, timeout)


@click.command()
@name_argument
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@set_option
@click.option(
    "--unset", "removed", multiple=True, metavar="KEY", help="A key to remove; repeatable."
)
@waiting
@common
@pass_session
def patch(
    session: CommandSession,
    name: str,
    file: str | None,
    pairs: tuple[str, ...],
    removed: tuple[str, ...],
    wait: bool,
    timeout: float,
) -> None:
    """Change some settings of a connector.

    First those in FILE (a JSON null removes one), then those of --set and --unset.
    """
    body: dict[str, str | None] = files.read_changes(file) if file is not None else {}
    body = {**body, **files.settings(pairs), **dict.fromkeys(removed)}
    if not body:
        raise click.UsageError("Nothing to change: give FILE, --set or --unset.")
    with session.connect() as connect:
        before = {} if session.json else _stored(connect, name) or {}
        answer = connect.ask("PATCH", rest.connector(name, "config"), body=body)
        if not session.prints_json(answer):
            _print_changes(session, name, before, answer.read(rest.INFO)["config"])
        if wait:
            _await(session, connect, ConnectorFile(name, body), timeout)


def _remove(session: CommandSession, names: tuple[str, ...]) -> None:
    """Delete connectors.

    Their offsets stay: a new connector of the same name resumes there.
    """
    with session.connect() as connect:
        for name in names:
            if not session.prints_json(connect.ask("DELETE", rest.connector(name))):
                show.echo(f"deleted {name}")


delete = click.command("delete")(common(names_argument(pass_session(_remove))))
unload = click.command("unload")(common(names_argument(pass_session(_remove))))


@click.command()
@name_argument
@click.option(
    "-d", "--file", type=click.Path(allow_dash=True), help="Replace it with that in this file."
)
@click.option(
    "--properties", is_flag=True, help="Print a file that can be loaded, including secrets."
)
@common
@pass_session
def config(session: CommandSession, name: str, file: str | None, properties: bool) -> None:
    """Show a connector's configuration, or replace it."""
    with session.connect() as connect:
        if file is not None:
            connector = files.read_connector(file, name)
            _replaced(session, connect, connector, _stored(connect, name))
            return
        answer = connect.get(rest.connector(name, "config"))
    if session.prints_json(answer):
        return
    settings: dict[str, str | None] = answer.read(dict)
    if properties:
        click.echo(
            render_properties({k: v for k, v in settings.items() if v is not None}), nl=False
        )
        return
    rows = [(k, show.masked(k, settings[k], session.show_secrets)) for k in sorted(settings)]
    show.table(("KEY", "VALUE"), rows)


@click.command()
@file_argument
@name_option
@set_option
@common
@pass_session
def validate(session: CommandSession, file: str, name: str | None, pairs: tuple[str, ...]) -> int:
    """Validate the configuration in FILE.

    Creates nothing. Exits with 3 if it is invalid.
    """
    connector = files.read_connector(file, name, files.settings(pairs))
    with session.connect() as connect:
        answer = _validated(connect, connector)
    infos = answer.read(rest.VALIDATION)
    if not session.prints_json(answer):
        _print_validation(session, connector, infos)
    return Exit.INVALID if config_errors(infos) else Exit.DONE


@click.command()
@file_argument
@name_option
@set_option
@click.option("--validate", "check", is_flag=True, help="Also validate it.")
@common
@pass_session
def diff(
    session: CommandSession, file: str, name: str | None, pairs: tuple[str, ...], check: bool
) -> int:
    """Show what `update` with FILE would change.

    Exits with 1 if anything would, with 3 if it would be invalid (--validate). With --json it
    prints {"name", "exists", "added", "removed", "changed"}, and "validation" with the worker's
    response.
    """
    connector = files.read_connector(file, name, files.settings(pairs))
    with session.connect() as connect:
        stored = _stored(connect, connector.name)
        validation = _validated(connect, connector).read(rest.VALIDATION) if check else None
    changes = differences.changes(stored or {}, connector.config)
    secrets = session.show_secrets
    if session.json:
        document: Any = differences.document(
            connector.name, stored is not None, changes, show_secrets=secrets
        )
        show.pretty(document if validation is None else {**document, "validation": validation})
    else:
        if stored is None:
            show.note(f"There is no connector '{connector.name}'; it would be created.")
        titles = (f"{connector.name} (stored)", f"{connector.name} ({file})")
        show.coloured(differences.unified(changes, *titles, show_secrets=secrets))
        if not changes:
            show.note(f"'{connector.name}' would not change.")
        if validation is not None:
            _print_validation(session, connector, validation)
    if validation is not None and config_errors(validation):
        return Exit.INVALID
    return Exit.DIFFERENT if changes or stored is None else Exit.DONE


def _created(connect: Connect, connector: ConnectorFile) -> rest.RestAnswer:
    body: dict[str, Any] = {"name": connector.name, "config": dict(connector.config)}
    if connector.initial_state is not None:
        body["initial_state"] = connector.initial_state
    return connect.ask("POST", "/connectors", body=body)


def _replaced(
    session: CommandSession,
    connect: Connect,
    connector: ConnectorFile,
    stored: Mapping[str, str | None] | None,
) -> None:
    if stored is None and connector.initial_state is not None:
        answer = _created(connect, connector)  # only this request accepts a state
    else:
        if connector.initial_state is not None:
            show.note("initial_state applies only when a connector is created; ignored.")
        path = rest.connector(connector.name, "config")
        answer = connect.ask("PUT", path, body=dict(connector.config))
    if session.prints_json(answer):
        return
    if stored is None:
        show.echo(f"created {connector.name} ({answer.read(rest.INFO).get('type', 'unknown')})")
    else:
        _print_changes(session, connector.name, stored, answer.read(rest.INFO)["config"])


def _print_changes(
    session: CommandSession,
    name: str,
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
) -> None:
    changes = differences.changes(before, after)
    show.echo(f"updated {name}" if changes else f"{name} is unchanged")
    lines = differences.unified(changes, "before", "now", show_secrets=session.show_secrets)
    show.coloured(lines[2:])


def _stored(connect: Connect, name: str) -> dict[str, str | None] | None:
    """The stored configuration; None for an unknown connector."""
    try:
        stored: dict[str, str | None] = connect.get(rest.connector(name, "config")).read(dict)
    except rest.Unknown:
        return None
    return stored


def _await(
    session: CommandSession, connect: Connect, connector: ConnectorFile, timeout_s: float
) -> None:
    """Waits for the connector's initial state, by default RUNNING."""
    parts = states.await_state(
        session,
        connect,
        connector.name,
        connector.initial_state or states.RUNNING,
        deadline=session.clock.now() + int(timeout_s * 1000),
        settle_ms=states.SETTLE_MS,
    )
    if not session.json:
        show.parts(parts)


def _validated(connect: Connect, connector: ConnectorFile) -> rest.RestAnswer:
    plugin = connector.config.get(_CLASS)
    if not plugin:
        raise NotValid(f'Missing required configuration "{_CLASS}" which has no default value.')
    path = f"/connector-plugins/{rest.in_path(plugin)}/config/validate"
    return connect.ask("PUT", path, body=dict(connector.config))


def config_errors(infos: Mapping[str, Any]) -> list[tuple[str, str | None, str]]:
    """Key, value and text of every error in a `ConfigInfos` (kafka-connect.md §1.8)."""
    return [
        (value["name"], value.get("value"), error)
        for info in infos.get("configs", ())
        if (value := info["value"]) is not None
        for error in value.get("errors") or ()
    ]


def _print_validation(
    session: CommandSession, connector: ConnectorFile, infos: Mapping[str, Any]
) -> None:
    errors = config_errors(infos)
    if errors:
        rows = [(k, show.masked(k, v, session.show_secrets), error) for k, v, error in errors]
        show.table(("KEY", "VALUE", "ERROR"), rows)
    else:
        show.echo(f"'{connector.name}' is valid.")
    entries = (info["value"] or info["definition"] for info in infos.get("configs", ()))
    listed = {entry["name"] for entry in entries}
    strange = [key for key in connector.config if key not in listed]
    if strange:
        show.note(f"The worker does not know: {', '.join(strange)}. Are they spelt correctly?")

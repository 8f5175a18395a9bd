"""Commands about the state of connectors: status, wait, pause, resume, stop, restart."""

from __future__ import annotations

import click

from penstock.cli import rest, show, states
from penstock.cli.connectors import WAIT_S, name_argument, names_argument, waiting
from penstock.cli.exits import Exit, NotThere
from penstock.cli.session import CommandSession, common, connector_names, pass_session

ALL = "connectors"


@click.command()
@click.argument("name", required=False, default=ALL, shell_complete=connector_names)
@click.option("--trace", is_flag=True, help="Show traces in full.")
@common
@pass_session
def status(session: CommandSession, name: str, trace: bool) -> int:
    """Show the status of a connector and its tasks, or of all connectors.

    Without NAME, or with the word `connectors`, shows all of them. Exits with 4 if anything has
    failed.
    """
    with session.connect() as connect:
        if name == ALL:
            answer = connect.get("/connectors", {"expand": "status"})
            statuses = [entry["status"] for _, entry in sorted(answer.read(rest.STATUSES).items())]
        else:
            try:
                answer = connect.get(rest.connector(name, "status"))
            except rest.Unknown as error:
                if session.json:
                    raise
                connect.get(rest.connector(name))  # raises the error for an unknown connector
                raise NotThere(
                    f"'{name}' has no status yet.", f"`penstock wait {name}` waits until it runs."
                ) from error
            statuses = [answer.read(rest.STATUS)]
    parts = [part for entry in statuses for part in states.parts_of(entry)]
    if not session.prints_json(answer):
        types = {str(entry["name"]): str(entry.get("type", "")) for entry in statuses}
        show.parts(parts, types)
        if trace:
            _show_traces(parts)
        elif name != ALL and (failed := states.failures(parts)):
            show.echo("")
            show.table(["TO", "RUN"], states.advice(failed))
    return Exit.FAILED if states.failures(parts) else Exit.DONE


@click.command()
@names_argument
@click.option(
    "--state",
    type=click.Choice(states.WAITABLE, case_sensitive=False),
    default=states.RUNNING,
    show_default=True,
    help="What to wait for.",
)
@click.option("--tasks", type=click.IntRange(min=0), help="The required number of tasks.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=WAIT_S,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait, in total.",
)
@click.option("--ignore-failed", is_flag=True, help="Keep waiting when something has failed.")
@common
@pass_session
def wait(
    session: CommandSession,
    names: tuple[str, ...],
    state: str,
    tasks: int | None,
    timeout: float,
    ignore_failed: bool,
) -> None:
    """Wait until connectors and their tasks are in a state.

    Exits with 4 when something has failed, with 5 for an unknown connector, with 7 after the
    time-out.
    """
    deadline = session.clock.now() + int(timeout * 1000)
    with session.connect() as connect:
        for name in names:
            parts = states.await_state(
                session,
                connect,
                name,
                state.upper(),
                deadline=deadline,
                tasks=tasks,
                ignore_failed=ignore_failed,
            )
            if not session.json:
                show.parts(parts)
            else:
                session.prints_json(connect.get(_status_path(name)))


def _target_command(verb: str, state: str, help_text: str) -> click.Command:
    """A command that sets the target state of connectors."""

    @click.command(verb, help=help_text)
    @names_argument
    @waiting
    @common
    @pass_session
    def command(
        session: CommandSession, names: tuple[str, ...], wait: bool, timeout: float
    ) -> None:
        with session.connect() as connect:
            for name in names:
                if not session.prints_json(connect.ask("PUT", rest.connector(name, verb))):
                    show.echo(f"{name}: target state is {state}")
            deadline = session.clock.now() + int(timeout * 1000)
            for name in names if wait else ():
                parts = states.await_state(
                    session,
                    connect,
                    name,
                    state,
                    deadline=deadline,
                    settle_ms=states.SETTLE_MS,
                    # A failed connector or task stays FAILED when it is paused or stopped.
                    ignore_failed=state != states.RUNNING,
                )
                if not session.json:
                    show.parts(parts)

    return command


pause = _target_command(
    "pause", states.PAUSED, "Pause connectors.\n\nTheir tasks stay assigned and process no records."
)
resume = _target_command("resume", states.RUNNING, "Resume paused or stopped connectors.")
stop = _target_command(
    "stop",
    states.STOPPED,
    "Stop connectors.\n\nTheir tasks are shut down; offsets and configurations stay.",
)


@click.command()
@name_argument
@click.option("--include-tasks", is_flag=True, help="The connector and its tasks.")
@click.option("--only-failed", is_flag=True, help="Only what has failed.")
@click.option("--task", type=click.IntRange(min=0), help="Only the task of this number.")
@waiting
@common
@pass_session
def restart(
    session: CommandSession,
    name: str,
    include_tasks: bool,
    only_failed: bool,
    task: int | None,
    wait: bool,
    timeout: float,
) -> None:
    """Restart a connector, its tasks, or what has failed.

    Without options only the connector itself, not its tasks.
    """
    if task is not None and (include_tasks or only_failed):
        raise click.UsageError("--task excludes --include-tasks and --only-failed.")
    with session.connect() as connect:
        if task is not None:
            answer = connect.ask("POST", rest.connector(name, "tasks", str(task), "restart"))
        else:
            flags = {"includeTasks": include_tasks, "onlyFailed": only_failed}
            query = {flag: "true" for flag, is_set in flags.items() if is_set}
            answer = connect.ask("POST", rest.connector(name, "restart"), query=query or None)
        if not session.prints_json(answer):
            if answer.content:
                connector_status = answer.read(rest.STATUS)
                show.parts(
                    states.parts_of(connector_status), {name: str(connector_status.get("type", ""))}
                )
            else:
                title = name if task is None else f"task {task} of {name}"
                show.echo(f"restarted {title}")
        if wait:
            deadline = session.clock.now() + int(timeout * 1000)
            parts = states.await_state(
                session,
                connect,
                name,
                states.RUNNING,
                deadline=deadline,
                settle_ms=states.SETTLE_MS,
            )
            if not session.json:
                show.parts(parts)


def _status_path(name: str) -> str:
    return rest.connector(name, "status")


def _show_traces(parts: list[states.InstanceState]) -> None:
    for part in parts:
        if part.trace:
            show.echo(f"\n{part.connector}, {part.title}, on {part.worker or 'no worker'}:")
            show.echo(part.trace.rstrip())

"""Reads a connector's status (kafka-connect.md §1.5, §6.1), and waits for a state.

Pure except for `await_state`, which polls with the clock and the pause of the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.cli import rest
from penstock.cli.exits import CommandError, HasFailed, NoAnswer, NotThere, TimedOut

if TYPE_CHECKING:
    from penstock.cli.client import Connect
    from penstock.cli.session import CommandSession

RUNNING: Final = "RUNNING"
PAUSED: Final = "PAUSED"
STOPPED: Final = "STOPPED"
FAILED: Final = "FAILED"
WAITABLE: Final = (RUNNING, PAUSED, STOPPED, FAILED)

SETTLE_MS: Final = 2_000
"""How long a state must last after a change to count: statuses lag (kafka-connect.md §6.6)."""

_TOLERABLE: Final = "Tolerance exceeded in error handler"
_UNKNOWN_MS: Final = (
    5_000  # how long a worker may not know a connector that another one has created
)
_FIRST_LOOK_S: Final = 0.1
_LAST_LOOK_S: Final = 1.0
_SHORTEST_LOOK_S: Final = 2.0  # even after the deadline: there is always one poll


@dataclass(frozen=True, slots=True)
class InstanceState:
    """A connector (its `task` is None) or one of its tasks."""

    connector: str
    task: int | None
    state: str
    worker: str
    trace: str

    @property
    def title(self) -> str:
        return "connector" if self.task is None else f"task {self.task}"

    @property
    def reason(self) -> str:
        """The first line of the trace."""
        return self.trace.strip().split("\n", 1)[0].rstrip()


def parts_of(status: Mapping[str, Any]) -> list[InstanceState]:
    """The connector and its tasks, from a `ConnectorStateInfo`."""
    name = str(status["name"])

    def part(task: int | None, entry: Mapping[str, Any]) -> InstanceState:
        return InstanceState(
            name,
            task,
            str(entry.get("state")),
            str(entry.get("worker_id") or ""),
            str(entry.get("trace") or ""),
        )

    return [
        part(None, status["connector"]),
        *(part(task["id"], task) for task in status.get("tasks") or ()),
    ]


def failures(parts: Sequence[InstanceState]) -> list[InstanceState]:
    return [part for part in parts if part.state == FAILED]


def missing(parts: Sequence[InstanceState], state: str, tasks: int | None = None) -> str:
    """Why the connector is not in the wanted state; empty when it is.

    RUNNING: the connector and all its tasks run, `tasks` of them, by default at least one; PAUSED:
    all are paused; STOPPED: no task is left; FAILED: any has failed.
    """
    if not parts:
        return "it has no status yet"
    if state == FAILED:
        return "" if failures(parts) else "nothing has failed"
    own, others = parts[0], parts[1:]
    if own.state != state:
        return f"the connector is {own.state}"
    if state == STOPPED:
        return f"{len(others)} of its tasks are left" if others else ""
    if tasks is not None and len(others) != tasks:
        return f"it has {len(others)} tasks, not {tasks}"
    if tasks is None and not others and state == RUNNING:
        return "it has no tasks yet"
    differing = [part for part in others if part.state != state]
    return f"{differing[0].title} is {differing[0].state}" if differing else ""


def await_state(
    session: CommandSession,
    connect: Connect,
    name: str,
    state: str,
    *,
    deadline: int,
    settle_ms: int = 0,
    tasks: int | None = None,
    ignore_failed: bool = False,
) -> list[InstanceState]:
    """Polls until the connector has been in the wanted state for `settle_ms`; returns its parts.

    Raises HasFailed when something is FAILED for as long, unless that is wanted or ignored,
    NotThere for an unknown connector, and TimedOut, or NoAnswer, at the `deadline`.
    """
    look_s = _FIRST_LOOK_S
    last, since = "", session.clock.now()
    while True:
        problem: CommandError | None = None
        parts: list[InstanceState] | None = None
        try:
            left_s = (deadline - session.clock.now()) / 1000
            parts = look(connect, name, max(left_s, _SHORTEST_LOOK_S))
        except NoAnswer as error:
            problem = error
        now = session.clock.now()
        lacks = str(problem) if problem else missing(parts or [], state, tasks)
        failed = [] if state == FAILED or ignore_failed else failures(parts or [])
        kind = _kind(problem, parts, lacks, failed)
        if kind != last:
            last, since = kind, now
        settled = now - since >= settle_ms or now >= deadline
        if kind == "reached" and settled:
            return parts or []
        if kind == "failed" and settled:
            raise _failed(name, failed)
        if kind == "unknown" and now - since >= _UNKNOWN_MS:
            raise _unknown(name)
        if now >= deadline:
            if problem is not None:
                raise problem
            if kind == "unknown":
                raise _unknown(name)
            raise TimedOut(
                f"Timed out waiting for '{name}' to be {state}: {lacks}.",
                f"`penstock status {name}` shows details; --timeout waits longer.",
            )
        session.pause(min(look_s, max(deadline - now, 0) / 1000 + 0.001))
        look_s = min(look_s * 1.5, _LAST_LOOK_S)


def look(connect: Connect, name: str, within_s: float) -> list[InstanceState] | None:
    """The parts of a connector: empty while it has no status, None if it is not configured.

    A worker that cannot answer yet counts as one that does not answer.
    """
    path = rest.connector(name, "status")
    try:
        try:
            return parts_of(connect.get(path, within_s=within_s).read(rest.STATUS))
        except rest.Unknown:
            # A new connector has no status yet, a deleted one may keep one for a while.
            connect.get(rest.connector(name), within_s=within_s)
            return []
    except rest.Unknown:
        return None
    except rest.RequestRefused as error:
        if error.http_status < 500 and not error.passing:
            raise
        raise NoAnswer(str(error), error.advice) from error


def _kind(
    problem: CommandError | None,
    parts: list[InstanceState] | None,
    lacks: str,
    failed: list[InstanceState],
) -> str:
    if problem is not None:
        return "no answer"
    if parts is None:
        return "unknown"
    if failed:
        return "failed"
    return "waiting" if lacks else "reached"


def _failed(name: str, failed: Sequence[InstanceState]) -> HasFailed:
    details = "\n  ".join(f"{part.title}: {part.reason or 'no trace'}" for part in failed)
    return HasFailed(
        f"'{name}' has failed:\n  {details}",
        f"`penstock status {name} --trace` shows the trace; `penstock restart {name} "
        "--include-tasks --only-failed` restarts it.",
    )


def advice(failed: Sequence[InstanceState]) -> list[tuple[str, str]]:
    """What to do about a connector's failures: purposes, and the command for each."""
    name = failed[0].connector
    steps = [("see the causes and the stack", f"penstock status {name} --trace")]
    if any(_TOLERABLE in part.reason for part in failed):
        skip = f"penstock patch {name} --set errors.tolerance=all"
        steps.append(("skip such records", skip))
        keep = f"{skip} --set errors.deadletterqueue.topic.name=TOPIC"
        steps.append(("skip them, and keep them in a topic", keep))
    retry = f"penstock restart {name} --include-tasks --only-failed"
    return [*steps, ("restart what failed, once the cause is fixed", retry)]


def _unknown(name: str) -> NotThere:
    return NotThere(f"There is no connector '{name}'.", "`penstock list connectors` lists them.")

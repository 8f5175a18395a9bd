"""`apply`: makes the connectors of a cluster match their description in files; idempotent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli import connectors, differences, files, resources, rest, show, states
from penstock.cli.exits import Exit, NotValid, Unusable
from penstock.cli.resources import Wanted
from penstock.cli.session import CommandSession, common, pass_session

if TYPE_CHECKING:
    from penstock.cli.client import Connect

CREATE: Final = "create"
UPDATE: Final = "update"
UNCHANGED: Final = "unchanged"
DELETE: Final = "delete"

_DONE: Final = {CREATE: "created", UPDATE: "updated", UNCHANGED: "unchanged", DELETE: "deleted"}
_VERBS: Final = {states.RUNNING: "resume", states.PAUSED: "pause", states.STOPPED: "stop"}
_TARGETS: Final = (states.PAUSED, states.STOPPED)
"""States that a connector only has on a user's request."""


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """The change of one connector; `state` is the target state to set, if any, and `expected` the
    state afterwards."""

    name: str
    action: str  # CREATE, UPDATE, UNCHANGED or DELETE
    wanted: Wanted | None
    changes: tuple[differences.Change, ...] = ()
    state: str | None = None
    expected: str = states.RUNNING

    @property
    def acts(self) -> bool:
        return self.action != UNCHANGED or self.state is not None


def plan(
    declared: resources.Resources,
    stored: Mapping[str, Mapping[str, str | None]],
    current: Mapping[str, str],
    *,
    prune: bool = False,
    keep: Sequence[str] = (),
) -> list[ApplyStep]:
    """The steps from the stored connectors to the declared ones, deletions last. Pure.

    `stored` has the configurations by name, `current` the connectors' states; `keep` the patterns
    of names that pruning leaves alone.
    """
    steps = [
        _step(wanted, stored.get(wanted.name), current.get(wanted.name))
        for wanted in declared.wanted
    ]
    if prune:
        described = {wanted.name for wanted in declared.wanted} | declared.skipped
        steps += [
            ApplyStep(name, DELETE, None)
            for name in sorted(set(stored) - described)
            if not any(fnmatchcase(name, pattern) for pattern in keep)
        ]
    return steps


def _step(wanted: Wanted, before: Mapping[str, str | None] | None, state: str | None) -> ApplyStep:
    if before is None:
        added = tuple(differences.changes({}, wanted.config))
        expected = wanted.state or wanted.initial_state or states.RUNNING
        return ApplyStep(wanted.name, CREATE, wanted, added, None, expected)
    stored = {key: text for key, text in before.items() if text is not None}
    changes = tuple(differences.changes(stored, wanted.config))
    standing = state if state in _TARGETS else states.RUNNING
    # The state of a failed connector does not show its target state: setting it again is harmless.
    known = state not in (None, states.FAILED, "UNASSIGNED", "RESTARTING")
    wrong = wanted.state is not None and wanted.state != standing
    return ApplyStep(
        wanted.name,
        UPDATE if changes else UNCHANGED,
        wanted,
        changes,
        wanted.state if wrong and (known or wanted.state != states.RUNNING) else None,
        wanted.state or standing,
    )


@click.command()
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="JSON, .properties, YAML, or a folder of them; `-` is stdin. Repeatable.",
)
@click.argument("more", nargs=-1, type=click.Path(), metavar="[FILE]...")
@click.option("-R", "--recursive", is_flag=True, help="Read subfolders, too.")
@click.option(
    "-l",
    "--selector",
    "pairs",
    multiple=True,
    metavar="LABEL=VALUE",
    help="Only resources with this label; repeatable.",
)
@click.option("--prune", is_flag=True, help="Delete the connectors that no file describes.")
@click.option(
    "--keep", multiple=True, metavar="PATTERN", help="Connectors that --prune keeps; repeatable."
)
@click.option("--allow-empty", is_flag=True, help="Let --prune delete all connectors.")
@click.option("--dry-run", is_flag=True, help="Only show what would change; exits with 1 if so.")
@click.option("--no-validate", is_flag=True, help="Do not validate the configurations first.")
@connectors.waiting
@common
@pass_session
def apply(
    session: CommandSession,
    paths: tuple[str, ...],
    more: tuple[str, ...],
    recursive: bool,
    pairs: tuple[str, ...],
    prune: bool,
    keep: tuple[str, ...],
    allow_empty: bool,
    dry_run: bool,
    no_validate: bool,
    wait: bool,
    timeout: float,
) -> int:
    """Create, update and delete connectors to match their descriptions in files.

    FILE is JSON or properties as for `create`, or YAML: the same, or Strimzi's KafkaConnector
    resources. Configurations are validated before anything changes; connectors that match are not
    touched.
    """
    declared = resources.read((*paths, *more), recursive=recursive, selector=files.settings(pairs))
    if prune and not declared.wanted and not allow_empty:
        raise Unusable(
            "The files describe no connector, so --prune would delete all.",
            "If this is intended, use --allow-empty.",
        )
    for text in (*declared.notes, *(text for wanted in declared.wanted for text in wanted.notes)):
        show.note(text)
    with session.connect() as connect:
        steps = plan(declared, _stored(connect), _current(connect), prune=prune, keep=keep)
        if not no_validate:
            _validate(session, connect, steps)
        for step in steps:
            if not dry_run:
                _perform(connect, step)
            if not session.json:
                _print_step(session, step, dry_run=dry_run)
        if session.json:
            show.pretty({"dry_run": dry_run, "connectors": [_document(session, s) for s in steps]})
        if wait and not dry_run:
            _await(session, connect, steps, timeout)
    return Exit.DIFFERENT if dry_run and any(step.acts for step in steps) else Exit.DONE


def _stored(connect: Connect) -> dict[str, dict[str, str | None]]:
    infos = connect.get("/connectors", {"expand": "info"}).read(rest.INFOS)
    return {name: entry["info"]["config"] for name, entry in infos.items()}


def _current(connect: Connect) -> dict[str, str]:
    """The states of connectors; a connector that has just been created may have none."""
    statuses = connect.get("/connectors", {"expand": "status"}).read(rest.STATUSES)
    return {name: entry["status"]["connector"]["state"] for name, entry in statuses.items()}


def _validate(session: CommandSession, connect: Connect, steps: Sequence[ApplyStep]) -> None:
    """Raises NotValid with every error in the configurations, before any of them is written."""
    problems: list[str] = []
    for step in steps:
        if step.wanted is None or step.action == UNCHANGED:
            continue
        wanted = step.wanted
        plugin = wanted.config.get("connector.class")
        title = f"{wanted.name} ({wanted.source})"
        if not plugin:
            problems.append(f"{title}: connector.class is missing.")
            continue
        path = f"/connector-plugins/{rest.in_path(plugin)}/config/validate"
        try:
            answer = connect.ask("PUT", path, body=dict(wanted.config))
        except rest.Unknown as error:
            problems.append(f"{title}: {error.message}")
            continue
        except rest.Invalid as error:
            problems.append(f"{title}: {error.message}")
            continue
        problems += [
            f"{title}: {key}={show.masked(key, value, session.show_secrets)}: {text}"
            for key, value, text in connectors.config_errors(answer.read(rest.VALIDATION))
        ]
    if problems:
        raise NotValid(
            "Nothing was changed; configurations are invalid:\n  " + "\n  ".join(problems),
            "--no-validate skips this validation; the workers validate again in any case.",
        )


def _perform(connect: Connect, step: ApplyStep) -> None:
    if step.action == DELETE:
        connect.ask("DELETE", rest.connector(step.name))
        return
    assert step.wanted is not None
    config = dict(step.wanted.config)
    if step.action == CREATE:
        body: dict[str, Any] = {"name": step.name, "config": config}
        if step.wanted.initial_state or step.expected != states.RUNNING:
            body["initial_state"] = step.expected
        connect.ask("POST", "/connectors", body=body)
    # A connector that should stop is stopped before it could run with another configuration, and
    # one that should run gets its configuration first.
    if step.state is not None and step.state != states.RUNNING:
        connect.ask("PUT", rest.connector(step.name, _VERBS[step.state]))
    if step.action == UPDATE:
        connect.ask("PUT", rest.connector(step.name, "config"), body=config)
    if step.state == states.RUNNING:
        connect.ask("PUT", rest.connector(step.name, _VERBS[step.state]))


def _print_step(session: CommandSession, step: ApplyStep, *, dry_run: bool) -> None:
    verb = f"would {step.action}" if dry_run and step.action != UNCHANGED else _DONE[step.action]
    show.echo(f"{verb} {step.name}" if step.action != UNCHANGED else f"{step.name} is unchanged")
    if step.action == UPDATE or (dry_run and step.action == CREATE):
        titles = ("before", "now")
        lines = differences.unified(list(step.changes), *titles, show_secrets=session.show_secrets)
        show.coloured(lines[2:])
    if step.state is not None:
        would = "would be" if dry_run else "is"
        show.echo(f"{step.name}: target state {would} {step.state}")


def _document(session: CommandSession, step: ApplyStep) -> object:
    document: dict[str, Any] = {"name": step.name, "action": step.action, "state": step.state}
    if step.wanted is None:
        return document
    changes = differences.document(
        step.name,
        step.action != CREATE,
        list(step.changes),
        show_secrets=session.show_secrets,
    )
    assert isinstance(changes, dict)
    return {**changes, **document, "source": step.wanted.source}


def _await(
    session: CommandSession, connect: Connect, steps: Sequence[ApplyStep], timeout_s: float
) -> None:
    deadline = session.clock.now() + int(timeout_s * 1000)
    for step in steps:
        if step.action == DELETE:
            continue
        parts = states.await_state(
            session,
            connect,
            step.name,
            step.expected,
            deadline=deadline,
            settle_ms=states.SETTLE_MS if step.acts else 0,
            ignore_failed=step.expected != states.RUNNING,
        )
        if not session.json:
            show.parts(parts)

"""`penstock trace`: a task's next records, step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import click

from penstock.cli import rest, show
from penstock.cli.connectors import name_argument
from penstock.cli.exits import Exit
from penstock.cli.session import CommandSession, common, pass_session

_CELLS: Final = ("topic", "partition", "key", "value", "headers", "key_schema", "value_schema")


@click.command()
@name_argument
@click.option("-t", "--task", type=click.IntRange(min=0), default=0, help="The task's number.")
@click.option(
    "-n", "--records", type=click.IntRange(1, 100), default=1, show_default=True, help="How many."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.001, 60),
    default=10,
    show_default=True,
    help="How many seconds to wait for them.",
)
@common
@pass_session
def trace(session: CommandSession, name: str, task: int, records: int, timeout_s: float) -> int:
    """Show the next records of NAME through every step.

    Each record as it was read, and after each converter and transform, until it was written,
    dropped or failed. The task continues. Exits with 1 if no record came in time.
    """
    query = {"task": str(task), "records": str(records), "timeout": str(int(timeout_s * 1000))}
    with session.connect() as connect:
        answer = connect.get(rest.connector(name, "trace"), query)
    watched = answer.read(rest.TRACE)["records"]
    if not session.prints_json(answer):
        for number, record in enumerate(watched, 1):
            show.coloured(lines_of(number, record))
        if not watched:
            show.note(f"Task {task} of '{name}' has read no record within {timeout_s:g} s.")
    return Exit.DONE if watched else Exit.DIFFERENT


def lines_of(number: int, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines for a record, each with its style: for a step, only the changed cells."""
    first = record["steps"][0]
    place = first["topic"] if first.get("topic") else "a record"
    if "offset" in first:
        place += f"-{first['partition']}@{first['offset']}"
    lines: list[tuple[str, str]] = [(f"{number}. {place}", "bold")]
    before: Mapping[str, Any] = {}
    for step in record["steps"]:
        lines.append((f"  {_title(step)}", "cyan"))
        changed = [cell for cell in _CELLS if step.get(cell) != before.get(cell)]
        lines += [(f"    {cell:12} {_text(step.get(cell))}", "") for cell in changed]
        if not changed:
            lines.append(("    (no change)", "dim"))
        before = step
    outcome = str(record["outcome"])
    if "by" in record:
        outcome += f" by {_title(record['by'])}"
    style = "bold red" if record["outcome"] == "failed" else "green"
    lines.append((f"  → {outcome}", style))
    if "error" in record:
        lines.append((f"    {record['error']}", "red"))
    return lines


def _title(step: Mapping[str, Any]) -> str:
    alias = f" '{step['alias']}'" if "alias" in step else ""
    kind = f" ({str(step['class']).rpartition('.')[2]})" if "class" in step else ""
    return f"{step['step']}{alias}{kind}"


def _text(cell: object) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)

"""Output for people: tables, states in colour on a terminal, masked secrets, escaped control
characters."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.cli.states import InstanceState

MASK: Final = "********"

_SECRET: Final = re.compile(
    r"password|secret|token|credential|jaas\.config|user\.info|private\.?key|keystore\.key"
    r"|api\.?key",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"(\$\{[^{}]+\})+")
"""A config provider's placeholder (KIP-297): it refers to a secret, but is not secret."""

STYLES: Final[Mapping[str, str]] = {
    "RUNNING": "green",
    "FAILED": "bold red",
    "PAUSED": "yellow",
    "STOPPED": "yellow",
    "UNASSIGNED": "cyan",
    "RESTARTING": "cyan",
    "healthy": "green",
    "starting": "cyan",
    "unhealthy": "bold red",
    "no answer": "bold red",
}
"""The colour of a cell with exactly this text."""

_WIDE: Final = 100_000  # columns without a terminal: a program reads it, nothing is cut


def secret(key: str) -> bool:
    """Whether the value of a setting of this name is secret."""
    return bool(_SECRET.search(key))


def masked(key: str, value: str | None, show_secrets: bool) -> str | None:
    """The value to show; secrets as stars, unless they are empty or only refer to one.

    >>> masked("db.password", "x", False), masked("db.password", "${env:PW}", False)
    ('********', '${env:PW}')
    """
    if show_secrets or not value or not secret(key) or _REFERENCE.fullmatch(value):
        return value
    return MASK


def masked_config(config: Mapping[str, Any], show_secrets: bool) -> dict[str, Any]:
    return {
        key: masked(key, value, show_secrets) if isinstance(value, str) else value
        for key, value in config.items()
    }


def plain(text: str) -> str:
    """The text with control characters escaped.

    >>> plain("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def echo(text: str) -> None:
    click.echo(plain(text))


def note(text: str) -> None:
    """Prints a note, which is not part of the result, to standard error."""
    click.echo(plain(text), err=True)


def pretty(document: object) -> None:
    """Prints JSON with indentation."""
    echo(json.dumps(document, indent=2, ensure_ascii=False))


def coloured(lines: Sequence[tuple[str, str]]) -> None:
    """Prints lines, each with a style."""
    from rich.text import Text

    console = _console()
    for line, style in lines:
        console.print(Text(plain(line), style=style), soft_wrap=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table without lines; a cell that is None stays empty, a state gets its colour."""
    from rich.table import Table
    from rich.text import Text

    console = _console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        # A name that is cut or broken cannot be copied; only the last column may wrap.
        table.add_column(header, no_wrap=header != headers[-1], overflow="fold")
    for row in rows:
        texts = ["" if cell is None else plain(str(cell)) for cell in row]
        table.add_row(*(Text(text, style=STYLES.get(text, "")) for text in texts))
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), color=console.is_terminal)


def parts(instances: Sequence[InstanceState], types: Mapping[str, str] | None = None) -> None:
    """Connectors and their tasks, a row each, with the first lines of their traces.

    `types` (source, sink) by connector; without it there is no column for them.
    """
    headers = ["CONNECTOR", "TYPE", "TASK", "STATE", "WORKER", "REASON"]
    rows = [
        (
            part.connector,
            (types or {}).get(part.connector),
            "-" if part.task is None else part.task,
            part.state,
            part.worker,
            part.reason,
        )
        for part in instances
    ]
    if types is None:
        headers.pop(1)
        rows = [(row[0], *row[2:]) for row in rows]  # type: ignore[misc]
    table(headers, rows)


def _console() -> Console:
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        width=None if terminal else _WIDE,
        # Only terminals get colours, whatever the environment says; NO_COLOR disables them there.
        force_terminal=terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )

"""The path of a field in nested structs or maps (KIP-821).

In version 1, a path is a field name, dots included. In version 2, dots separate steps; a step with
dots is in backticks, and a backtick inside it followed by a dot is escaped by a backslash.
"""

from __future__ import annotations

from typing import Final

from penstock.config.declare import choice
from penstock.config.define import HIGH
from penstock.errors import ConfigInvalid

# fmt: off
FIELD_SYNTAX: Final = choice("field.syntax.version", "V1", ("V1", "V2"),
    "The syntax of fields: V1 is the name of a top-level field, V2 a path, in which dots lead "
    "into nested structs or maps. Put a name that contains dots in backticks.", ignore_case=True,
    importance=HIGH)
# fmt: on

_TICK: Final = "`"
_DOT: Final = "."


def steps_of(path: str, version: str) -> tuple[str, ...]:
    """The names of a path, from the top. Raises ConfigInvalid for an unclosed backtick."""
    if version.upper() == "V1":
        return (path,)
    if not path:
        return ()
    steps: list[str] = []
    at = 0
    while at <= len(path):
        if path.startswith(_TICK, at):
            step, at = _wrapped(path, at + 1)
        else:
            end = path.find(_DOT, at)
            end = len(path) if end < 0 else end
            step, at = path[at:end], end + 1
        steps.append(step)
    return tuple(steps)


def _wrapped(path: str, start: int) -> tuple[str, int]:
    """The step in backticks at `start`, and the start of the next."""
    at = start
    while True:
        end = path.find(_TICK, at)
        if end < 0:
            raise ConfigInvalid(
                [
                    f"Incomplete backtick pair in path: [{path}], consider adding a backslash "
                    f"before backtick at position {start - 1} to escape it"
                ]
            )
        last = end == len(path) - 1
        if (last or path[end + 1] == _DOT) and not path[start:end].endswith("\\"):
            step = path[start:end].replace("\\`", _TICK)
            return step, len(path) + 1 if last else end + 2
        at = end + 1

"""Request templates over the offset, in the subset of FreeMarker that castorm's users need:
`${offset.timestamp}`, `${offset.key!'0'}`, `${offset.timestamp?datetime.iso?long}`.

| built-in | result |
|---|---|
| `!text`, `!` | the text, or an empty one, if the offset has no such member |
| `?datetime.iso`, `?date.iso`, `?datetime` | a moment, parsed from ISO 8601 |
| `?long`, `?number`, `?int`, `?c` | a number; for a moment its ms since 1970 |
| `?string`, `?string['yyyy/MM/dd HH:mm']` | a text; for a moment by a pattern, in UTC |
| `?url`, `?upper_case`, `?lower_case`, `?trim` | a text |
| `+ 1`, `- 1` | a larger or smaller number |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from penstock.api import DataError
from penstock.connectors.http.read.dates import DatePattern, instant, millis, moment_of

_PLACE: Final = re.compile(r"\$\{((?:[^}'\"]|'[^']*'|\"[^\"]*\")*)(\}?)")
_NAME: Final = re.compile(r"\s*([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*|\[['\"][^'\"]+['\"]\])*)")
_STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[['\"]([^'\"]+)['\"]\]")
_DEFAULT: Final = re.compile(r"!(?:'([^']*)'|\"([^\"]*)\"|(-?\d+(?:\.\d+)?))?")
_BUILTIN: Final = re.compile(
    r"\?(datetime\.iso|date\.iso|datetime|[a-z_]+)(?:\[['\"](.+?)['\"]\]|\(['\"](.+?)['\"]\))?"
)
_SUM: Final = re.compile(r"\s*([+-])\s*(\d+)")

Step = Callable[[Any], Any]


class OffsetTemplate:
    """A template.

    >>> OffsetTemplate("a=${offset.a}&b=${offset.b!'none'}").render({"a": "1"})
    'a=1&b=none'
    >>> OffsetTemplate("${offset.t?datetime.iso?long}").render({"t": "1970-01-01T00:00:01Z"})
    '1000'
    """

    __slots__ = ("_parts", "text")

    def __init__(self, text: str, *, plain: bool = False) -> None:
        """`plain`: without placeholders. Raises ValueError for an invalid template."""
        self.text = text
        self._parts: list[str | Callable[[Mapping[str, Any]], str]] = []
        if plain:
            self._parts.append(text)
            return
        if "<#" in text:
            raise ValueError("FreeMarker directives (<#…>) are not supported")
        position = 0
        for match in _PLACE.finditer(text):
            if not match[2]:
                raise ValueError(f"a placeholder is not closed: '{match[0][:40]}'")
            self._parts += [text[position : match.start()], _expression(match[1])]
            position = match.end()
        self._parts.append(text[position:])

    def render(self, offset: Mapping[str, Any]) -> str:
        """The text for an offset. Raises DataError for a missing member."""
        return "".join(part if isinstance(part, str) else part(offset) for part in self._parts)


def _expression(text: str) -> Callable[[Mapping[str, Any]], str]:
    name_match = _NAME.match(text)
    if name_match is None:
        raise ValueError(f"'${{{text}}}' is not a valid placeholder")
    path = [name_match[1], *(plain or quoted for plain, quoted in _STEP.findall(name_match[2]))]
    if path[0] == "offset" and len(path) > 1:
        path = path[1:]
    name = ".".join(path)
    position = name_match.end()
    default: str | None = None
    if default_match := _DEFAULT.match(text, position):
        default = next((group for group in default_match.groups() if group is not None), "")
        position = default_match.end()
    steps: list[Step] = []
    while position < len(text.rstrip()):
        if builtin_match := _BUILTIN.match(text, position):
            steps.append(_builtin(builtin_match[1], builtin_match[2] or builtin_match[3], text))
            position = builtin_match.end()
        elif sum_match := _SUM.match(text, position):
            increment = int(sum_match[2]) if sum_match[1] == "+" else -int(sum_match[2])
            steps.append(_adding(increment))
            position = sum_match.end()
        else:
            raise ValueError(f"'{text[position:]}' of '${{{text}}}' is not supported")

    def value(offset: Mapping[str, Any]) -> str:
        result: Any = offset.get(name, default)
        if result is None:
            raise DataError(
                f"the offset has no '{name}' for '${{{text}}}': set it in http.offset.initial, or "
                f"add a default, ${{offset.{name}!'…'}}"
            )
        if name not in offset and not steps:
            return str(result)
        try:
            for step in steps:
                result = step(result)
        except ValueError as error:
            raise DataError(f"'${{{text}}}': {error}") from error
        return _text(result)

    return value


def _builtin(name: str, argument: str | None, template: str) -> Step:
    match name:
        case "datetime.iso" | "date.iso" | "datetime":
            return lambda value: value if isinstance(value, datetime) else moment_of(str(value))
        case "long" | "number" | "int" | "c":
            return _number
        case "string" if argument is not None:
            pattern = DatePattern(argument)
            return lambda value: (
                pattern.format(value)
                if isinstance(value, datetime)
                else pattern.format(datetime.fromtimestamp(_number(value) / 1000, UTC))
            )
        case "string":
            return _text
        case "url":
            return lambda value: quote(_text(value), safe="")
        case "upper_case":
            return lambda value: _text(value).upper()
        case "lower_case":
            return lambda value: _text(value).lower()
        case "trim":
            return lambda value: _text(value).strip()
    raise ValueError(f"'?{name}' of '${{{template}}}' is not supported")


def _adding(increment: int) -> Step:
    return lambda value: _number(value) + increment


def _number(value: Any) -> int | float:
    if isinstance(value, datetime):
        return millis(value)
    if isinstance(value, int | float):
        return value
    text = str(value)
    try:
        return int(text)
    except ValueError:
        return float(text)


def _text(value: Any) -> str:
    return instant(value) if isinstance(value, datetime) else str(value)

"""File names from Aiven's templates (connectors.md §13):

{{topic}}-{{partition:padding=true}}-{{start_offset}}-{{timestamp:unit=yyyy}}.gz
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from penstock.api import DataError
from penstock.connectors.files.boundaries.paths import Contents

_VARIABLE: Final = re.compile(r"\{\{\s*(\w+)?(:?)([\w=]+)?\s*\}\}")
_PADDING: Final = ("true", "false")
_UNITS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H"}
_PARAMETERS: Final = {
    "topic": None,
    "key": None,
    "partition": ("padding", _PADDING),
    "start_offset": ("padding", _PADDING),
    "timestamp": ("unit", tuple(_UNITS)),
}
_UNIQUE: Final = frozenset({"topic", "partition", "start_offset"})
_SEPARATOR: Final = "\x1f"
_MS: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER_MS: Final = 900_000


class TemplateInvalid(ValueError):
    """A text is not a valid template; the message says why."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a template."""

    name: str
    value: str = ""  # of its parameter

    @property
    def has_fixed_length(self) -> bool:
        return self.name == "timestamp" or self.value == "true"


@dataclass(frozen=True, slots=True)
class Template:
    """Literal texts and variables, in order."""

    parts: tuple[str | Variable, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(part.name for part in self.parts if isinstance(part, Variable))

    @property
    def units(self) -> tuple[str, ...]:
        """The distinct units of its timestamps."""
        units = [
            part.value
            for part in self.parts
            if isinstance(part, Variable) and part.name == "timestamp"
        ]
        return tuple(dict.fromkeys(units))

    @property
    def has_key(self) -> bool:
        return "key" in self.names

    @property
    def is_compact(self) -> bool:
        """Whether a file holds only the latest record of a key."""
        return self.has_key and "start_offset" not in self.names


def compile_template(text: str) -> Template:
    """Parses a template. Raises TemplateInvalid."""
    parts: list[str | Variable] = []
    at = 0
    for match in _VARIABLE.finditer(text):
        parts.append(text[at : match.start()])
        at = match.end()
        parts.append(_variable(match[1], match[2], match[3]))
    parts.append(text[at:])
    template = Template(tuple(part for part in parts if part != ""))
    names = template.names
    required = names - {"timestamp"}
    if not (
        required in (_UNIQUE, _UNIQUE | {"key"})
        or (names <= {"key", "topic", "partition"} and "key" in names)
    ):
        raise TemplateInvalid(
            "it must contain topic, partition and start_offset, optionally with timestamp and "
            "key; or key, optionally with topic and partition"
        )
    _check_separated(template)
    return template


def _check_separated(template: Template) -> None:
    """Raises TemplateInvalid if it is unclear where one variable ends and the next begins: then
    partition 1 from offset 12 on, and partition 11 from offset 2 on, would have one name."""
    before: Variable | None = None
    between = ""
    for part in template.parts:
        if isinstance(part, str):
            between = part
            continue
        if (
            before is not None
            and (not between or between.isdecimal())
            and not (before.has_fixed_length or part.has_fixed_length)
        ):
            raise TemplateInvalid(
                f"{{{{{before.name}}}}} and {{{{{part.name}}}}} need a character between them that "
                "is not a digit, as in {{partition}}-{{start_offset}}, or else files of different "
                "records could have one name"
            )
        before, between = part, ""


def _variable(name: str | None, colon: str, parameter: str | None) -> Variable:
    if name not in _PARAMETERS:
        raise TemplateInvalid(
            f"'{name or ''}' is not a variable; variables are {', '.join(_PARAMETERS)}"
        )
    allowed = _PARAMETERS[name]
    if parameter is None:
        if colon or name == "timestamp":
            raise TemplateInvalid(f"{name} needs a parameter, as in timestamp:unit=yyyy")
        return Variable(name)
    key, _, value = parameter.partition("=")
    if name == "timestamp" and value == "YYYY":
        value = "yyyy"  # an older spelling
    if allowed is None or key != allowed[0] or value not in allowed[1]:
        raise TemplateInvalid(f"{name} cannot have the parameter {parameter}")
    return Variable(name, value)


def folder_of(stamp: str, key: str) -> str:
    """The parts of a record's time and key that name its file, as one string."""
    return f"{stamp}{_SEPARATOR}{key}"


class Stamps:
    """Formats the units of times for templates."""

    def __init__(self, units: Iterable[str], zone: ZoneInfo) -> None:
        self._format = _SEPARATOR.join(_UNITS[unit] for unit in units)
        self._zone = zone
        self._stamps: dict[int, str] = {}

    def of(self, time: int) -> str:
        """The units of a time (ms), in order. Raises DataError beyond year 9999."""
        quarter = time // _QUARTER_MS
        stamp = self._stamps.get(quarter)
        if stamp is None:
            if len(self._stamps) > 10_000:
                self._stamps.clear()
            try:
                local = (_EPOCH + quarter * _QUARTER_MS * _MS).astimezone(self._zone)
                stamp = local.strftime(self._format)
            except (OverflowError, ValueError) as cause:
                raise DataError(f"The time {time} is outside the years 1 to 9999") from cause
            self._stamps[quarter] = stamp
        return stamp


@dataclass(frozen=True, slots=True)
class TemplateNaming:
    """File names from a template; see `paths.Naming`."""

    template: Template
    delimiter: str = "/"
    has_end: bool = False

    def path(self, contents: Contents, ending: str, end: int = 0) -> str:
        """The full name of a file, including the extension in the template. A file with the latest
        record of a key has no `source`: its records replace each other whatever topic they had."""
        source = "" if self.template.is_compact else contents.source
        prefix = f"{source}+" if source else ""
        *stamp, key = contents.folder.split(_SEPARATOR, len(self.template.units))
        if not self.template.units:
            _, key = contents.folder.split(_SEPARATOR, 1)
        values = dict(zip(self.template.units, stamp, strict=False))
        texts: list[str] = []
        for part in self.template.parts:
            match part:
                case str():
                    texts.append(part)
                case Variable("topic"):
                    texts.append(contents.topic)
                case Variable("key"):
                    texts.append(key)
                case Variable("partition", value):
                    texts.append(
                        prefix + str(contents.partition).zfill(10 if value == "true" else 0)
                    )
                case Variable("start_offset", value):
                    texts.append(str(contents.start).zfill(20 if value == "true" else 0))
                case Variable("timestamp", value):
                    texts.append(values[value])
        return "".join(texts)

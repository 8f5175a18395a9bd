"""The notation of settings in Couchbase's connector: durations, sizes, words of an enumeration, and
values that differ by topic or collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from penstock.api import ConfigInvalid, settings
from penstock.api.settings import Key, invalid

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

PREFIX: Final = "couchbase."

_AMOUNT: Final = re.compile(r"(\d+)(.+)", re.ASCII | re.DOTALL)
_TIMES_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES: Final = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def handler_of(handlers: type[E], package: str, name: str, unsupported: Mapping[str, str]) -> E:
    """The handler of a class name, with or without its package. Raises ValueError, for an
    `unsupported` one with its reason."""
    short = name.removeprefix(package)
    try:
        return handlers(short)
    except ValueError:
        reason = unsupported.get(short, "JVM classes are not supported")
        listed = ", ".join(package + handler.value for handler in handlers)
        raise ValueError(f"{reason}; the handlers are {listed}") from None


def duration_ms(text: str) -> int:
    """A duration in milliseconds. Raises ValueError.

    >>> duration_ms("30m"), duration_ms("0")
    (1800000, 0)
    """
    return _amount(
        text,
        _TIMES_MS,
        "Unable to parse duration '{}'. Please specify an integer followed by a time unit (ms = "
        "milliseconds, s = seconds, m = minutes, h = hours, d = days). For example, to specify 30 "
        "minutes: 30m",
    )


def size_bytes(text: str) -> int:
    """A size in bytes. Raises ValueError.

    >>> size_bytes("16m")
    16777216
    """
    return _amount(
        text,
        _SIZES,
        "Unable to parse size '{}'. Please specify an integer followed by a size unit (b = bytes, "
        "k = kilobytes, m = megabytes, g = gigabytes). For example, to specify 64 megabytes: 64m",
    )


def _amount(text: str, units: Mapping[str, int], problem: str) -> int:
    text = text.strip().lower()
    if text == "0":
        return 0
    match = _AMOUNT.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(problem.format(text))
    return int(match[1]) * units[match[2]]


@dataclass(frozen=True, slots=True)
class _Amount:
    read: Callable[[str], int]
    description: str

    def problem(self, name: str, value: Any) -> str | None:
        if not value:
            return None
        try:
            self.read(value)
        except ValueError as error:
            return f"Failed to parse config property '{name}' -- {error}"
        return None

    def __str__(self) -> str:
        return self.description


DURATION: Final = _Amount(
    duration_ms,
    "An integer followed by a time unit (ms = milliseconds, s = seconds, m = minutes, h = hours, "
    "d = days). For example, to specify 30 minutes: 30m",
)
SIZE: Final = _Amount(
    size_bytes,
    "An integer followed by a size unit (b = bytes, k = kilobytes, m = megabytes, g = gigabytes). "
    "For example, to specify 64 megabytes: 64m",
)


@dataclass(frozen=True, slots=True)
class Words:
    """One of these words, as Java's enumerations are written."""

    words: tuple[str, ...]

    def problem(self, name: str, value: Any) -> str | None:
        if value in self.words:
            return None
        listed = ", ".join(self.words)
        return f"Invalid value '{value}' for config key '{name}'; must be one of [{listed}]"

    def __str__(self) -> str:
        return f"One of [{', '.join(self.words)}]"


@dataclass(frozen=True, slots=True)
class Readable:
    """A value that `read` accepts: it raises ValueError for others."""

    read: Callable[[Any], object]
    description: str

    def problem(self, name: str, value: Any) -> str | None:
        if value is None:
            return None
        try:
            self.read(value)
        except ValueError as error:
            return invalid(name, value, str(error))
        return None

    def __str__(self) -> str:
        return self.description


class Group(settings.Group):
    """Adds `couchbase.` to the names of settings, and derives what interfaces call them."""

    def placed(self, key: Key[T]) -> Key[T]:
        words = " ".join(word.capitalize() for word in key.name.split("."))
        return super().placed(
            replace(
                key,
                name=PREFIX + key.name,
                display_name=key.display_name or words,
                dependents=tuple(PREFIX + dependent for dependent in key.dependents),
            )
        )


@dataclass(frozen=True, slots=True)
class Contextual(Generic[T]):
    """A value with exceptions, by topic or by collection."""

    value: T
    exceptions: Mapping[str, T]

    def of(self, context: str) -> T:
        """The value for a topic or a collection."""
        return self.exceptions.get(context, self.value)


def contextual(
    props: Mapping[str, str],
    name: str,
    value: object,
    read: Callable[[str], T],
    under: Mapping[str, str] | None = None,
) -> Contextual[T]:
    """The values of `name`, `name[context]`, …, which override `under`: exceptions from an older
    setting. Raises ConfigInvalid with the setting's name.

    >>> contextual({"a[t]": "2"}, "a", "1", int).of("t")
    2
    """
    texts = {
        setting_name[len(name) + 1 : -1]: text
        for setting_name, text in props.items()
        if setting_name.startswith(f"{name}[") and setting_name.endswith("]")
    }

    def parsed(setting: str, text: str) -> T:
        try:
            return read(text.strip())
        except ValueError as error:
            raise ConfigInvalid([invalid(setting, text, str(error))]) from error

    exceptions = {context: parsed(name, text) for context, text in (under or {}).items()}
    exceptions |= {context: parsed(f"{name}[{context}]", text) for context, text in texts.items()}
    return Contextual(parsed(name, str(value)), exceptions)


def pairs_of(entries: Sequence[str]) -> dict[str, str]:
    """`a=b` entries. Raises ValueError.

    >>> pairs_of(["t=s.c"])
    {'t': 's.c'}
    """
    pairs: dict[str, str] = {}
    for entry in entries:
        parts = entry.split("=")
        if len(parts) != 2:
            raise ValueError(
                f"Bad entry: '{entry}'. Expected exactly one equals (=) character separating key "
                "and value."
            )
        pairs[parts[0]] = parts[1]
    return pairs


def boolean(text: str) -> bool:
    """`true` or `false`, in any case. Raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return text.lower() == "true"

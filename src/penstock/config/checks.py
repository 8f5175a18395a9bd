"""Checks for `Key(check=…)`: they return error messages, and describe themselves in the docs.

The texts are those of Kafka's validators (kafka-connect.md §1.8). A missing value passes where it
does in Kafka, which reports it elsewhere.

    >>> at_least(1).problem("tasks.max", 0)
    'Invalid value 0 for configuration tasks.max: Value must be at least 1'
    >>> str(all_of(non_null(), at_least(1)))
    'non-null string, [1,...]'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.config.define import Check, invalid, shown
from penstock.config.regex import RegexInvalid, compile_java


@dataclass(frozen=True, slots=True)
class _Range:
    low: float | None
    high: float | None

    def problem(self, name: str, value: Any) -> str | None:
        if value is None:
            return invalid(name, value, "Value must be non-null")
        if self.low is not None and value < self.low:
            return invalid(name, value, f"Value must be at least {shown(self.low)}")
        if self.high is not None and value > self.high:
            return invalid(name, value, f"Value must be no more than {shown(self.high)}")
        return None

    def __str__(self) -> str:
        ends = [shown(end) if end is not None else None for end in (self.low, self.high)]
        return (
            f"[{','.join([ends[0] or '...', *(['...'] if all(ends) else []), ends[1] or '...'])}]"
        )


def at_least(low: float) -> Check:
    """A number not below `low`."""
    return _Range(low, None)


def at_most(high: float) -> Check:
    """A number not above `high`."""
    return _Range(None, high)


def between(low: float, high: float) -> Check:
    """A number from `low` up to and including `high`."""
    return _Range(low, high)


@dataclass(frozen=True, slots=True)
class _OneOf:
    values: tuple[str, ...]
    ignore_case: bool

    def problem(self, name: str, value: Any) -> str | None:
        if not self.ignore_case:
            if value in self.values:
                return None
            return invalid(name, value, f"String must be one of: {', '.join(self.values)}")
        if value is not None and value.upper() in {known.upper() for known in self.values}:
            return None
        names = ", ".join(self.values)
        return invalid(name, value, f"String must be one of (case insensitive): {names}")

    def __str__(self) -> str:
        names = f"[{', '.join(self.values)}]"
        return f"(case insensitive) {names}" if self.ignore_case else names


def one_of(*values: str, ignore_case: bool = False) -> Check:
    """One of the words; messages and docs list them in this order."""
    return _OneOf(values, ignore_case)


@dataclass(frozen=True, slots=True)
class _Said:
    """A check made of a description and a function that returns the message after the prefix."""

    description: str
    find: Callable[[Any], str | None]

    def problem(self, name: str, value: Any) -> str | None:
        text = self.find(value)
        return None if text is None else invalid(name, value, text)

    def __str__(self) -> str:
        return self.description


def checking(description: str, find: Callable[[Any], str | None]) -> Check:
    """A custom check: `find` returns the problem of a value (which may be None), or None."""
    return _Said(description, find)


@dataclass(frozen=True, slots=True)
class _Described:
    check: Check
    description: str

    def problem(self, name: str, value: Any) -> str | None:
        return self.check.problem(name, value)

    def __str__(self) -> str:
        return self.description


def described(check: Check, description: str) -> Check:
    """The same check, with another description in the docs."""
    return _Described(check, description)


@dataclass(frozen=True, slots=True)
class _AllOf:
    checks: tuple[Check, ...]

    def problem(self, name: str, value: Any) -> str | None:
        problems = (check.problem(name, value) for check in self.checks)
        return next((problem for problem in problems if problem is not None), None)

    def __str__(self) -> str:
        return ", ".join(map(str, self.checks))


def all_of(*checks: Check) -> Check:
    """All of the checks; the message is that of the first that fails."""
    return _AllOf(checks)


@dataclass(frozen=True, slots=True)
class _UnlessNone:
    check: Check

    def problem(self, name: str, value: Any) -> str | None:
        return None if value is None else self.check.problem(name, value)

    def __str__(self) -> str:
        return str(self.check)


def unless_none(check: Check) -> Check:
    """The check, except for a value that is missing or could not be parsed."""
    return _UnlessNone(check)


def non_null() -> Check:
    """Any value but null."""
    return _NON_NULL


def non_empty() -> Check:
    """A text that is not empty."""
    return _NON_EMPTY


def non_empty_list() -> Check:
    """A list with at least one entry."""
    return _NON_EMPTY_LIST


def connector_name() -> Check:
    """A text that is not empty and has no ISO control characters."""
    return _CONNECTOR_NAME


def unique_aliases(kind: str) -> Check:
    """A list in which no alias occurs twice; `kind` is what the docs call the aliases."""
    return all_of(_NON_NULL, _Said(f"unique {kind}", _duplicate_alias))


def valid_regex() -> Check:
    """A Java regular expression that can be run here."""
    return _VALID_REGEX


def valid_regexes(description: str) -> Check:
    """A list of Java regular expressions that can be run here."""
    return _Said(description, _bad_regexes)


def broker_default_or_positive_partitions() -> Check:
    """A number of partitions, or -1."""
    return _PARTITIONS


def broker_default_or_positive_replication() -> Check:
    """A replication factor, or -1."""
    return _REPLICATION


@dataclass(frozen=True, slots=True)
class _Entries:
    """Kafka's ValidList (KIP-1161). Its messages carry no "Invalid value" prefix."""

    may_be_empty: bool
    may_repeat: bool
    allowed: tuple[str, ...]

    def problem(self, name: str, value: Sequence[str] | None) -> str | None:
        if value is None:
            return f"Configuration '{name}' values must not be null."
        if not value and not self.may_be_empty:
            include = ", ".join(self.allowed) or "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {include}"
        if not self.may_repeat and len(set(value)) < len(value):
            return f"Configuration '{name}' values must not be duplicated."
        for entry in value:
            if not entry:
                return f"Configuration '{name}' values must not be empty."
            if self.allowed and entry not in self.allowed:
                return one_of(*self.allowed).problem(name, entry)
        return None

    def __str__(self) -> str:
        return f"[{', '.join(self.allowed)}]" if self.allowed else ""


def entries(*allowed: str, may_be_empty: bool = True, may_repeat: bool = False) -> Check:
    """A list whose entries are not blank and, if any are named, among `allowed`."""
    return _Entries(may_be_empty, may_repeat, allowed)


@dataclass(frozen=True, slots=True)
class _VersionRange:
    def problem(self, name: str, value: str | None) -> str | None:
        return None if value is None else version_range_problem(value)

    def __str__(self) -> str:
        return "a version or a Maven version range"


def version_range() -> Check:
    """A plugin version (`1.2`) or a Maven range of them (`[1.0,2.0)`), kafka-connect.md §15.4."""
    return _VersionRange()


def version_range_problem(text: str) -> str | None:
    """Maven's message for a malformed version range, or None."""
    rest, ranges = text, 0
    while rest.startswith(("[", "(")):
        ends = [end for end in (rest.find(")"), rest.find("]")) if end >= 0]
        if not ends:
            return f"Unbounded range: {text}"
        inner, closed = rest[1 : min(ends)], rest[0] == "[" and rest[min(ends)] == "]"
        if "," not in inner and not closed:
            return f"Single version must be surrounded by []: {rest[: min(ends) + 1]}"
        low, _, high = (part.strip() for part in inner.partition(","))
        if "," in inner and low == high and not closed:
            return f"Range cannot have identical boundaries: {rest[: min(ends) + 1]}"
        ranges += 1
        rest = rest[min(ends) + 1 :].strip()
        rest = rest.removeprefix(",").strip()
    if rest and ranges:
        return f"Only fully-qualified sets allowed in multiple set scenario: {text}"
    return None


def _missing(value: object) -> str | None:
    return "entry must be non null" if value is None else None


def _empty(value: str | None) -> str | None:
    return "String must be non-empty" if value == "" else None


def _empty_list(value: Sequence[str] | None) -> str | None:
    return None if value else "Empty list"


def _bad_connector_name(value: str | None) -> str | None:
    if value is None:
        return None
    if not value:
        return "String may not be empty"
    controls = [str(ord(char)) for char in value if char <= "\x1f" or "\x7f" <= char <= "\x9f"]
    if not controls:
        return None
    shown = ", ".join(controls)
    return f"String may not contain control sequences but had the following ASCII chars: {shown}"


def _duplicate_alias(value: Sequence[str]) -> str | None:
    return "Duplicate alias provided." if len(set(value)) < len(value) else None


def _bad_regex(value: str | None) -> str | None:
    if value is None:
        return "Invalid regex: null"
    try:
        compile_java(value)
    except RegexInvalid as problem:
        return f"Invalid regex: {problem}"
    return None


def _bad_regexes(value: Sequence[str] | None) -> str | None:
    for pattern in value or ():
        try:
            compile_java(pattern)
        except RegexInvalid as problem:
            return f"Syntax error in regular expression: {problem}"
    return None


def _bad_partitions(value: int | None) -> str | None:
    if value is None or value == -1 or value > 0:
        return None
    return "Number of partitions must be positive, or -1 to use the broker's default"


def _bad_replication(value: int | None) -> str | None:
    if value is None or value == -1 or value > 0:
        return None
    return (
        "Replication factor must be positive and not larger than the number of brokers in the"
        " Kafka cluster, or -1 to use the broker's default"
    )


_NON_NULL: Final = _Said("non-null string", _missing)
_NON_EMPTY: Final = _Said("non-empty string", _empty)
_NON_EMPTY_LIST: Final = _Said("non-empty list", _empty_list)
_CONNECTOR_NAME: Final = _Said(
    "non-empty string without ISO control characters", _bad_connector_name
)
_VALID_REGEX: Final = _Said("valid regex", _bad_regex)
_PARTITIONS: Final = _Said("Positive number, or -1 to use the broker's default", _bad_partitions)
_REPLICATION: Final = _Said(
    "Positive number not larger than the number of brokers in the Kafka cluster,"
    " or -1 to use the broker's default",
    _bad_replication,
)

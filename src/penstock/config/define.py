"""Settings: `Key` declares one, `ConfigDef` parses a set of them, `Config` is the result.

`validate` collects every problem and never raises; `parse` is the same walk and raises them all
at once. Texts, parsing and the order of steps are Kafka's ConfigDef's (kafka-connect.md §1.8),
because clients match on them.

    >>> BATCH = Key("batch.size", INT, default=500, doc="Records per write.")
    >>> FILE = Key("file", STRING, doc="The file records are appended to.")
    >>> config = ConfigDef(FILE, BATCH).parse({"file": "/tmp/out", "batch.size": " 10 "})
    >>> config[BATCH] + 1
    11
    >>> [value.errors for value in ConfigDef(FILE).validate({})]
    [('Missing required configuration "file" which has no default value.',)]
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from penstock.errors import ConfigInvalid

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Props = Mapping[str, str]
"""A configuration as submitted and stored: setting to text."""

HIDDEN: Final = "[hidden]"
"""Shown instead of a secret."""

# The characters Java's String.trim() removes.
_BLANK: Final = "".join(map(chr, range(0x21)))
_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(
    r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII
)
_HEXADECIMAL: Final = re.compile(
    r"(?P<number>[+-]?0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?",
    re.ASCII,
)
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)


class Importance(Enum):
    """How much a setting matters to most users."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """How wide an input field for the setting should be."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Required(Enum):
    """The type of `REQUIRED`."""

    REQUIRED = "required"


HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW

REQUIRED: Final = Required.REQUIRED
"""In place of a default: the setting must be given."""


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """The value of a PASSWORD setting; its text is in `value` and nowhere else."""

    value: str

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN


class _NotThisKind(ValueError):
    """A text is not of the kind; the message says why."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A type of settings: its name in REST, and the function that parses its trimmed text."""

    name: str
    read: Callable[[str], T_co]

    def __repr__(self) -> str:
        return self.name


def _read_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise _NotThisKind("Expected value to be either true or false")


def _integer(name: str, bits: int) -> Kind[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(text: str) -> int:
        # Java accepts any decimal digit of the basic plane, but neither "_" nor inner blanks.
        digits = text.lstrip("+-").lstrip("0")
        if _INTEGER.fullmatch(text) and len(digits) < 20 and all(c <= "\uffff" for c in text):
            number = int(text)
            if low <= number <= high:
                return number
        raise _NotThisKind(f"Not a number of type {name}")

    return Kind(name, read)


def _read_double(text: str) -> float:
    if _DECIMAL.fullmatch(text):
        # "Infinity" and "NaN" do not end in a type suffix.
        return float(text.rstrip("fFdD"))
    if match := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(match["number"])
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    raise _NotThisKind("Not a number of type DOUBLE")


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(_COMMA.split(text)) if text else ()


BOOLEAN: Final[Kind[bool]] = Kind("BOOLEAN", _read_boolean)
STRING: Final[Kind[str]] = Kind("STRING", str)
INT: Final[Kind[int]] = _integer("INT", 32)
SHORT: Final[Kind[int]] = _integer("SHORT", 16)
LONG: Final[Kind[int]] = _integer("LONG", 64)
DOUBLE: Final[Kind[float]] = Kind("DOUBLE", _read_double)
LIST: Final[Kind[tuple[str, ...]]] = Kind("LIST", _read_list)
UNIQUE_LIST: Final[Kind[tuple[str, ...]]] = Kind(
    "LIST", lambda text: tuple(dict.fromkeys(_read_list(text)))
)
"""A LIST whose repeated entries count once (KIP-1161: how a worker reads its own lists)."""
CLASS: Final[Kind[str]] = Kind("CLASS", str)
"""A class by name; the plugins are looked up elsewhere."""
PASSWORD: Final[Kind[Secret]] = Kind("PASSWORD", Secret)

KINDS: Final[Mapping[str, Kind[object]]] = {
    kind.name: kind for kind in (BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD)
}


def class_known_as(resolve: Callable[[str], str | None]) -> Kind[str]:
    """A CLASS that is looked up while it is parsed; its value is the full name from `resolve`."""

    def read(text: str) -> str:
        if resolved := resolve(text):
            return resolved
        raise _NotThisKind(f"Class {text} could not be found.")

    return Kind("CLASS", read)


class Check(Protocol):
    """A requirement on a setting's value. `str(check)` describes it for the reference page."""

    def problem(self, name: str, value: Any) -> str | None:
        """The whole error message for setting `name`, or None if `value` is valid.

        `value` is the parsed value, or None if it is missing or could not be parsed (not called
        with None for keys with the default None).
        """


class Recommender(Protocol):
    """Which values make sense for a setting, given the other settings as parsed so far."""

    def values(self, name: str, parsed: Mapping[str, object]) -> Sequence[object]:
        """The values to offer."""

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        """Whether the setting is relevant."""


@dataclass(frozen=True, slots=True)
class Choices:
    """A `Recommender` that always offers the same values."""

    offered: tuple[object, ...]

    def values(self, name: str, parsed: Mapping[str, object]) -> Sequence[object]:
        return self.offered

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Key(Generic[T_co]):
    """The declaration of a setting, the source of everything about it.

    A default of None means "not set" and makes `config[key]` optional; a default that fails the
    key's own `check` is a mistake in the declaration and raises ValueError.
    """

    name: str
    kind: Kind[T_co]
    default: T_co | Required = REQUIRED
    importance: Importance = Importance.MEDIUM
    doc: str = ""
    check: Check | None = None
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str | None = None  # None: the name
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None

    def __post_init__(self) -> None:
        if self.required or self.default is None or self.check is None:
            return
        if problem := self.check.problem(self.name, self.default):
            raise ValueError(f"The default of '{self.name}' fails its own check: {problem}")

    @property
    def required(self) -> bool:
        """There is no default."""
        return self.default is REQUIRED

    def embedded(self, prefix: str, group: str, order: int) -> Key[T_co]:
        """The same setting of a part, under `prefix` in the configuration of the whole."""
        return replace(
            self,
            name=prefix + self.name,
            # Kafka's ConfigDef.embed: the part's group follows a colon.
            group=group if self.group is None else f"{group}: {self.group}",
            order=order,
            display_name=self.display_name or self.name,
            check=self.check and _EmbeddedCheck(prefix, self.check),
            dependents=tuple(prefix + name for name in self.dependents),
            recommender=self.recommender and _EmbeddedRecommender(prefix, self.recommender),
        )


@dataclass(frozen=True, slots=True)
class _EmbeddedCheck:
    prefix: str
    check: Check

    def problem(self, name: str, value: Any) -> str | None:
        # As Kafka does: the message names the setting as the part knows it.
        return self.check.problem(name.removeprefix(self.prefix), value)

    def __str__(self) -> str:
        return str(self.check)


@dataclass(frozen=True, slots=True)
class _EmbeddedRecommender:
    prefix: str
    recommender: Recommender

    def values(self, name: str, parsed: Mapping[str, object]) -> Sequence[object]:
        return self.recommender.values(name.removeprefix(self.prefix), self._own(parsed))

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return self.recommender.visible(name.removeprefix(self.prefix), self._own(parsed))

    def _own(self, parsed: Mapping[str, object]) -> Mapping[str, object]:
        return under(parsed, self.prefix)


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The result of validation for one setting."""

    name: str
    value: object = None  # as parsed, defaults filled in; None when unset or unreadable
    errors: tuple[str, ...] = ()
    recommended: tuple[object, ...] = ()
    visible: bool = True

    def with_error(self, *texts: str) -> ConfigValue:
        """The same, with these errors added at the end."""
        return replace(self, errors=(*self.errors, *texts))


Rule = Callable[[Mapping[str, object]], Iterable[tuple[str, str]]]
"""A check over several settings: takes the parsed values (None where missing or unreadable) and
yields the name of the setting to blame with the whole message."""


class Config:
    """A configuration that was read without problems.

    `config[KEY]` is the parsed value, `config.props` the original texts, also of unknown settings.
    """

    __slots__ = ("_kinds", "_values", "props")

    def __init__(self, definition: ConfigDef, values: Mapping[str, object], props: Props) -> None:
        self.props: Props = props
        self._values = values
        self._kinds = {key.name: key.kind for key in definition.keys}

    def __getitem__(self, key: Key[T]) -> T:
        if key.name not in self._values:
            raise KeyError(f"'{key.name}' is not part of this configuration's definition")
        return cast(T, self._values[key.name])

    def __contains__(self, key: object) -> bool:
        """Whether `key` was given, rather than filled in from its default."""
        return isinstance(key, Key) and key.name in self.props

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        return (self._values, self.props) == (other._values, other.props)

    __hash__ = None  # type: ignore[assignment]  # holds mappings; compare, do not collect

    def under(self, prefix: str) -> dict[str, str]:
        """The settings as given whose names start with `prefix`, without it."""
        return under(self.props, prefix)

    def secrets(self) -> Iterator[str]:
        """The values of PASSWORD settings."""
        for value in self._values.values():
            if isinstance(value, Secret) and value.value:
                yield value.value

    def __repr__(self) -> str:
        # An unknown setting may be a secret of the client that gets it.
        unknown = {name: HIDDEN for name in self.props if name not in self._values}
        return f"Config({ {**self._values, **unknown}!r})"


@dataclass(frozen=True, slots=True, init=False)
class ConfigDef:
    """A set of settings, in the order they are shown, and the rules between them."""

    keys: tuple[Key[object], ...]
    rules: tuple[Rule, ...]

    def __init__(self, *keys: Key[object], rules: Iterable[Rule] = ()) -> None:
        names = [key.name for key in keys]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"Configuration {', '.join(twice)} is defined twice.")
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "rules", tuple(rules))

    def __contains__(self, name: object) -> bool:
        return any(key.name == name for key in self.keys)

    def __getitem__(self, name: str) -> Key[object]:
        return self.by_name()[name]

    def by_name(self) -> dict[str, Key[object]]:
        """The keys by name."""
        return {key.name: key for key in self.keys}

    def groups(self) -> list[str]:
        """The groups of the keys, in order of first appearance."""
        return list(dict.fromkeys(key.group for key in self.keys if key.group is not None))

    def extended(self, *keys: Key[object], rules: Iterable[Rule] = ()) -> ConfigDef:
        """This definition with more keys. Raises ValueError for a name that exists."""
        return ConfigDef(*self.keys, *keys, rules=(*self.rules, *rules))

    def embedded(self, prefix: str, group: str, first_order: int = 0) -> Iterator[Key[object]]:
        """The keys as part of a whole, numbered in the order of `sorted_keys`."""
        for order, key in enumerate(self.sorted_keys(), first_order):
            yield key.embedded(prefix, group, order)

    def sorted_keys(self) -> list[Key[object]]:
        """By group and order in it, then required ones first, then by importance and name."""
        groups = self.groups()
        ranks = list(Importance)
        return sorted(
            self.keys,
            key=lambda key: (
                -1 if key.group is None else groups.index(key.group),
                key.order,
                not key.required,
                ranks.index(key.importance),
                key.name,
            ),
        )

    def validate(self, props: Mapping[str, str | None]) -> list[ConfigValue]:
        """The results for `props`: one for each key, in order of definition.

        A None in `props` is null, and is parsed as None.
        """
        findings = [_Finding.of(key, props) for key in self.keys]
        parsed = {finding.key.name: finding.value for finding in findings}
        broken = self._broken_rules(parsed)
        return [
            *(finding.judged(parsed).with_error(*broken.get(finding.key.name, ()))
              for finding in findings),
            *(ConfigValue(
                name,
                errors=(f"{name} is referred in the dependents, but not defined.",),
                visible=False,
            ) for name in self._undefined_dependents()),
        ]  # fmt: skip

    def parse(self, props: Mapping[str, str | None]) -> Config:
        """The configuration in `props`; raises ConfigInvalid with every problem.

        Reports one problem per malformed value, not also that of its check.
        A None in `props` counts as not given.
        """
        texts = {name: value for name, value in props.items() if value is not None}
        findings = [_Finding.of(key, texts) for key in self.keys]
        parsed = {finding.key.name: finding.value for finding in findings}
        broken = self._broken_rules(parsed)
        problems = [
            problem
            for finding in findings
            for problem in (*finding.errors[:1], *broken.get(finding.key.name, ()))
        ]
        if problems:
            raise ConfigInvalid(problems)
        return Config(self, parsed, texts)

    def _broken_rules(self, parsed: Mapping[str, object]) -> dict[str, list[str]]:
        broken: dict[str, list[str]] = {}
        for rule in self.rules:
            for name, text in rule(parsed):
                broken.setdefault(name, []).append(text)
        return broken

    def _undefined_dependents(self) -> list[str]:
        names = self.by_name()
        return [
            name
            for name in dict.fromkeys(name for key in self.keys for name in key.dependents)
            if name not in names
        ]


@dataclass(frozen=True, slots=True)
class _Finding:
    """One key parsed from props, independently of the others."""

    key: Key[object]
    value: object
    errors: tuple[str, ...]

    @classmethod
    def of(cls, key: Key[object], props: Mapping[str, str | None]) -> _Finding:
        value: object = None
        errors: list[str] = []
        if key.name in props:
            text = props[key.name]
            try:
                value = None if text is None else key.kind.read(text.strip(_BLANK))
            except _NotThisKind as problem:
                errors.append(invalid(key.name, text, str(problem)))
        elif key.default is REQUIRED:
            errors.append(missing(key.name))
        else:
            value = key.default
        # Kafka calls the check even without a value.
        if key.check is not None and not (value is None and key.default is None):
            problem_text = key.check.problem(key.name, value)
            if problem_text is not None:
                errors.append(problem_text)
        return cls(key, value, tuple(errors))

    def judged(self, parsed: Mapping[str, object]) -> ConfigValue:
        recommender = self.key.recommender
        if recommender is None:
            return ConfigValue(self.key.name, self.value, self.errors)
        return ConfigValue(
            self.key.name,
            self.value,
            self.errors,
            tuple(recommender.values(self.key.name, parsed)),
            recommender.visible(self.key.name, parsed),
        )


def with_errors(
    values: Iterable[ConfigValue], problems: Iterable[tuple[str, str]]
) -> list[ConfigValue]:
    """The values with each problem (name, message) added; names without a value get one, last."""
    by_name = {value.name: value for value in values}
    for name, text in problems:
        by_name[name] = by_name.get(name, ConfigValue(name)).with_error(text)
    return list(by_name.values())


def under(settings: Mapping[str, T], prefix: str) -> dict[str, T]:
    """The settings whose names start with `prefix`, without it."""
    return {
        name[len(prefix) :]: value
        for name, value in settings.items()
        if name.startswith(prefix) and len(name) > len(prefix)
    }


def list_entries(value: object) -> tuple[str, ...]:
    """The entries of a parsed list; none for other values."""
    return value if isinstance(value, tuple) else ()


def aliases(key: Key[tuple[str, ...]], props: Mapping[str, str | None]) -> list[str]:
    """The names that a list setting holds, each once."""
    value = next(iter(ConfigDef(key).validate(props))).value
    return list(dict.fromkeys(list_entries(value)))


def invalid(name: str, value: object, text: str) -> str:
    """The message about an invalid value (Kafka's ConfigException)."""
    return f"Invalid value {shown(value)} for configuration {name}: {text}"


def prefixed(error: ConfigInvalid, prefix: str) -> ConfigInvalid:
    """The same problems about settings that have a prefix in the configuration."""
    naming = "for configuration "
    return ConfigInvalid(
        [problem.replace(naming, f"{naming}{prefix}", 1) for problem in error.problems]
    )


def missing(name: str) -> str:
    """The message about a missing setting."""
    return f'Missing required configuration "{name}" which has no default value.'


def shown(value: object) -> str:
    """A parsed value as Java prints it inside a message; never the text of a Secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _java_double(value)
        case tuple():
            return f"[{', '.join(map(shown, value))}]"
    return str(value)


def written(value: object) -> str | None:
    """A parsed value as the text of a configuration (kafka-connect.md §1.8, `value.value`).

    Parsing it returns the same value, except for a Secret, and a list whose entries have commas, or
    blanks at an end.
    """
    match value:
        case None:
            return None
        case tuple():
            return ",".join(map(str, value))
    return shown(value)


def _java_double(value: float) -> str:
    """`Double.toString`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else text + ".0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    power = len(digits) - 1 + int(exponent)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{power}"

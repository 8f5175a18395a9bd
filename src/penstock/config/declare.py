"""The vocabulary of settings: a function per type, which returns the `Key`.

A declaration names the setting, its default (`REQUIRED`: it must be given; None: not set, which
makes `config[KEY]` optional) and its meaning; everything else has a keyword.

    >>> from penstock.config.define import HIGH, LOW, REQUIRED, ConfigDef
    >>> FILE = text("file", REQUIRED, "The file that records are appended to.", importance=HIGH)
    >>> ROWS = number("rows", 500, "Records per write.", at_least=1)
    >>> MODE = choice("mode", "append", ("append", "replace"), "How to write.")
    >>> config = ConfigDef(FILE, ROWS, MODE).parse({"file": "/tmp/out", "rows": "10"})
    >>> config[FILE], config[ROWS] + 1, config[MODE]
    ('/tmp/out', 11, 'append')

A `Group` has the same functions. Its settings are shown together, in the order in which they are
declared, and the group is a sequence of them:

    >>> TLS = Group("TLS", importance=LOW)
    >>> CHECKS = TLS.flag("tls.check", True, "Whether to check the server's name.")
    >>> STORE = TLS.text("tls.store", None, "The file with the trusted certificates.")
    >>> PASSWORD = TLS.secret("tls.password", "", "Its password.")
    >>> [(key.group, key.order, key.name) for key in ConfigDef(*TLS).keys]
    [('TLS', 1, 'tls.check'), ('TLS', 2, 'tls.store'), ('TLS', 3, 'tls.password')]

A setting of the connector that is replaced, which has no meaning here, is declared, too:

    >>> ignored("buffer.size", 0, "there is no buffer").doc
    'Ignored: there is no buffer.'
    >>> COMPRESS = refused("zip", False, "Compression: not supported.", "it is not supported")
    >>> ConfigDef(COMPRESS).validate({"zip": "true"})[0].errors
    ('Invalid value true for configuration zip: it is not supported',)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypedDict, TypeVar, Unpack, overload

from penstock.config import checks
from penstock.config.define import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    SHORT,
    STRING,
    UNIQUE_LIST,
    Check,
    Choices,
    Importance,
    Key,
    Kind,
    Recommender,
    Required,
    Secret,
    Width,
)

T = TypeVar("T")


class Facts(TypedDict, total=False):
    """What a declaration may add to name, default and meaning."""

    importance: Importance
    check: Check | None
    offers: Sequence[object]
    """The values that user interfaces offer."""
    recommender: Recommender
    """Finds them, if they depend on other settings."""
    dependents: Sequence[str]
    width: Width
    label: str
    """What user interfaces call the setting."""
    order: int
    """The place in the group, if it does not follow the previous setting's."""


class Bounded(Facts, total=False):
    """What the declaration of a number may add."""

    at_least: float
    at_most: float


class Declares:
    """Declares settings, each by the function of its type."""

    importance: Importance = MEDIUM
    """That of a setting that does not name its own."""

    def setting(
        self, name: str, kind: Kind[T], default: T | Required, doc: str, **facts: Unpack[Bounded]
    ) -> Key[T]:
        """A setting of any type."""
        recommender = facts.get("recommender")
        if offers := facts.get("offers"):
            recommender = Choices(tuple(offers))
        return self.placed(
            Key(
                name,
                kind,
                default=default,
                importance=facts.get("importance", self.importance),
                doc=doc,
                check=facts.get("check") or _bounds(facts.get("at_least"), facts.get("at_most")),
                order=facts.get("order", -1),
                width=facts.get("width", Width.NONE),
                display_name=facts.get("label"),
                dependents=tuple(facts.get("dependents", ())),
                recommender=recommender,
            )
        )

    def placed(self, key: Key[T]) -> Key[T]:
        """The key, where this object puts its settings."""
        return key

    @overload
    def text(
        self, name: str, default: None, doc: str, **facts: Unpack[Facts]
    ) -> Key[str | None]: ...
    @overload
    def text(
        self, name: str, default: str | Required, doc: str, **facts: Unpack[Facts]
    ) -> Key[str]: ...
    def text(self, name: str, default: Any, doc: str, **facts: Unpack[Facts]) -> Key[Any]:
        """A text."""
        return self.setting(name, STRING, default, doc, **facts)

    @overload
    def class_name(
        self, name: str, default: None, doc: str, **facts: Unpack[Facts]
    ) -> Key[str | None]: ...
    @overload
    def class_name(
        self, name: str, default: str | Required, doc: str, **facts: Unpack[Facts]
    ) -> Key[str]: ...
    def class_name(self, name: str, default: Any, doc: str, **facts: Unpack[Facts]) -> Key[Any]:
        """The name of a class."""
        return self.setting(name, CLASS, default, doc, **facts)

    @overload
    def choice(
        self,
        name: str,
        default: None,
        words: Sequence[str],
        doc: str,
        *,
        ignore_case: bool = False,
        **facts: Unpack[Facts],
    ) -> Key[str | None]: ...
    @overload
    def choice(
        self,
        name: str,
        default: str | Required,
        words: Sequence[str],
        doc: str,
        *,
        ignore_case: bool = False,
        **facts: Unpack[Facts],
    ) -> Key[str]: ...
    def choice(
        self,
        name: str,
        default: Any,
        words: Sequence[str],
        doc: str,
        *,
        ignore_case: bool = False,
        **facts: Unpack[Facts],
    ) -> Key[Any]:
        """One of these words."""
        facts.setdefault("check", checks.one_of(*words, ignore_case=ignore_case))
        return self.setting(name, STRING, default, doc, **facts)

    @overload
    def flag(
        self, name: str, default: None, doc: str, **facts: Unpack[Facts]
    ) -> Key[bool | None]: ...
    @overload
    def flag(
        self, name: str, default: bool | Required, doc: str, **facts: Unpack[Facts]
    ) -> Key[bool]: ...
    def flag(self, name: str, default: Any, doc: str, **facts: Unpack[Facts]) -> Key[Any]:
        """True or false."""
        return self.setting(name, BOOLEAN, default, doc, **facts)

    @overload
    def number(
        self, name: str, default: None, doc: str, **facts: Unpack[Bounded]
    ) -> Key[int | None]: ...
    @overload
    def number(
        self, name: str, default: int | Required, doc: str, **facts: Unpack[Bounded]
    ) -> Key[int]: ...
    def number(self, name: str, default: Any, doc: str, **facts: Unpack[Bounded]) -> Key[Any]:
        """A whole number of 32 bits (Kafka's INT)."""
        return self.setting(name, INT, default, doc, **facts)

    @overload
    def long(
        self, name: str, default: None, doc: str, **facts: Unpack[Bounded]
    ) -> Key[int | None]: ...
    @overload
    def long(
        self, name: str, default: int | Required, doc: str, **facts: Unpack[Bounded]
    ) -> Key[int]: ...
    def long(self, name: str, default: Any, doc: str, **facts: Unpack[Bounded]) -> Key[Any]:
        """A whole number of 64 bits."""
        return self.setting(name, LONG, default, doc, **facts)

    def short(
        self, name: str, default: int | Required, doc: str, **facts: Unpack[Bounded]
    ) -> Key[int]:
        """A whole number of 16 bits."""
        return self.setting(name, SHORT, default, doc, **facts)

    @overload
    def double(
        self, name: str, default: None, doc: str, **facts: Unpack[Bounded]
    ) -> Key[float | None]: ...
    @overload
    def double(
        self, name: str, default: float | Required, doc: str, **facts: Unpack[Bounded]
    ) -> Key[float]: ...
    def double(self, name: str, default: Any, doc: str, **facts: Unpack[Bounded]) -> Key[Any]:
        """A number with a fraction."""
        return self.setting(name, DOUBLE, default, doc, **facts)

    @overload
    def listing(
        self, name: str, default: None, doc: str, *, unique: bool = False, **facts: Unpack[Facts]
    ) -> Key[tuple[str, ...] | None]: ...
    @overload
    def listing(
        self,
        name: str,
        default: tuple[str, ...] | Required,
        doc: str,
        *,
        unique: bool = False,
        **facts: Unpack[Facts],
    ) -> Key[tuple[str, ...]]: ...
    def listing(
        self, name: str, default: Any, doc: str, *, unique: bool = False, **facts: Unpack[Facts]
    ) -> Key[Any]:
        """Texts, separated by commas; `unique`: repeated ones count once."""
        return self.setting(name, UNIQUE_LIST if unique else LIST, default, doc, **facts)

    @overload
    def secret(
        self, name: str, default: None, doc: str, **facts: Unpack[Facts]
    ) -> Key[Secret | None]: ...
    @overload
    def secret(
        self, name: str, default: str | Required, doc: str, **facts: Unpack[Facts]
    ) -> Key[Secret]: ...
    def secret(self, name: str, default: Any, doc: str, **facts: Unpack[Facts]) -> Key[Any]:
        """A text that is never shown."""
        value = Secret(default) if isinstance(default, str) else default
        return self.setting(name, PASSWORD, value, doc, **facts)

    def ignored(
        self,
        name: str,
        default: object,
        reason: str = "",
        kind: Kind[Any] | None = None,
        **facts: Unpack[Bounded],
    ) -> Key[Any]:
        """A setting without effect, and why: one that changes at most how fast records pass, or
        what is logged. One that would change records, or which of them arrive, is `refused`."""
        facts.setdefault("importance", LOW)
        doc = f"Ignored: {reason}." if reason else "Ignored."
        return self.setting(name, kind or _kind_of(default), default, doc, **facts)

    def refused(
        self, name: str, default: str | bool, doc: str, problem: str, **facts: Unpack[Facts]
    ) -> Key[Any]:
        """A setting that may only be empty, or false; the message about any other value."""
        facts.setdefault("importance", LOW)
        description = "false" if isinstance(default, bool) else "empty"
        facts["check"] = checks.checking(description, lambda value: problem if value else None)
        return self.setting(name, _kind_of(default), default, doc, **facts)


def _bounds(low: float | None, high: float | None) -> Check | None:
    if low is not None:
        return checks.at_least(low) if high is None else checks.between(low, high)
    return None if high is None else checks.at_most(high)


def _kind_of(default: object) -> Kind[Any]:
    match default:
        case bool():
            return BOOLEAN
        case int():
            return INT
        case float():
            return DOUBLE
        case tuple():
            return LIST
        case Secret():
            return PASSWORD
    return STRING


class Group(Declares):
    """The settings that are declared with it, in this order.

    A group without a name keeps its settings together only where they are declared; one that is
    not `numbered` leaves their order to user interfaces.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        importance: Importance = MEDIUM,
        first: int = 1,
        numbered: bool = True,
    ) -> None:
        self.name = name
        self.importance = importance
        self._next = first if numbered and name is not None else None
        self._keys: list[Key[Any]] = []

    def placed(self, key: Key[T]) -> Key[T]:
        """Adds the key to the group, at the place it names or after the previous one."""
        order = key.order
        if self._next is not None:
            order = self._next if order < 0 else order
            self._next = order + 1
        key = replace(key, group=self.name, order=order)
        self._keys.append(key)
        return key

    def __iter__(self) -> Iterator[Key[Any]]:
        return iter(tuple(self._keys))


_ALONE: Final = Declares()
setting = _ALONE.setting
text = _ALONE.text
class_name = _ALONE.class_name
choice = _ALONE.choice
flag = _ALONE.flag
number = _ALONE.number
long = _ALONE.long
short = _ALONE.short
double = _ALONE.double
listing = _ALONE.listing
secret = _ALONE.secret
ignored = _ALONE.ignored
refused = _ALONE.refused

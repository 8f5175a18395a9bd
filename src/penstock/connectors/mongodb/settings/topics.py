"""The topics of a namespace's changes (`topic.namespace.map` and related settings)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.api.settings import RegexInvalid, compile_java
from penstock.connectors.mongodb.text.shell import TextInvalid, parse_document

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_EXPANDED: Final[Mapping[str, Callable[[str, str, str], str]]] = {
    "db": lambda db, coll, sep: db,
    "sep": lambda db, coll, sep: sep,
    "coll": lambda db, coll, sep: coll,
    "sep_coll": lambda db, coll, sep: f"{sep}{coll}" if coll else "",
    "coll_sep": lambda db, coll, sep: f"{coll}{sep}" if coll else "",
    "sep_coll_sep": lambda db, coll, sep: f"{sep}{coll}{sep}" if coll else "",
}


class MapInvalid(ValueError):
    """An invalid map of namespaces; the message says why."""


@dataclass(slots=True)
class TopicMapper:
    """The topics of namespaces. `patterns` are in order; the first that matches counts."""

    prefix: str
    suffix: str
    separator: str
    names: Mapping[str, str] = field(default_factory=dict)
    patterns: tuple[tuple[re.Pattern[str], str], ...] = ()
    any_other: str = ""
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, prefix: str, suffix: str, separator: str, mapped: str) -> TopicMapper:
        """Raises MapInvalid."""
        names, patterns, any_other = _pairs(mapped)
        return cls(
            f"{prefix}{separator}" if prefix else "",
            f"{separator}{suffix}" if suffix else "",
            separator,
            names,
            patterns,
            any_other,
        )

    def topic(self, event: Mapping[str, Any]) -> str:
        """The topic of an event; empty if the event has no database."""
        namespace = event.get("ns")
        if not isinstance(namespace, Mapping):
            return ""
        db, coll = (_text(namespace.get(name)) for name in ("db", "coll"))
        if not db:
            return ""
        topic = self._known.get((db, coll))
        if topic is None:
            topic = self._known[db, coll] = f"{self.prefix}{self._inner(db, coll)}{self.suffix}"
        return topic

    def _inner(self, db: str, coll: str) -> str:
        whole = f"{db}.{coll}" if coll else db
        if whole in self.names:
            return self.names[whole]
        if db in self.names:
            return self._joined(self.names[db], coll)
        for pattern, template in self.patterns:
            if pattern.fullmatch(whole):
                return _VARIABLE.sub(
                    lambda variable: _EXPANDED[variable[1]](db, coll, self.separator), template
                )
        return self.any_other or self._joined(db, coll)

    def _joined(self, first: str, coll: str) -> str:
        return f"{first}{self.separator}{coll}" if coll else first


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _pairs(
    mapped: str,
) -> tuple[dict[str, str], tuple[tuple[re.Pattern[str], str], ...], str]:
    try:
        pairs = parse_document(mapped) if mapped.strip() else {}
    except TextInvalid as error:
        raise MapInvalid(f"Not a valid JSON document: {error}") from error
    names: dict[str, str] = {}
    patterns: list[tuple[re.Pattern[str], str]] = []
    any_other = ""
    for name, template in pairs.items():
        if not isinstance(template, str):
            raise MapInvalid("All values must be strings")
        if name == "*":
            any_other = template
        elif name.startswith("/"):
            _check(template)
            try:
                patterns.append((compile_java(name[1:]), template))
            except RegexInvalid as error:
                raise MapInvalid(str(error)) from error
        elif "/" in name:
            raise MapInvalid("'/' is not allowed in a simple namespace pattern")
        else:
            names[name] = template
    filled = {name: template for name, template in names.items() if template}
    return filled, tuple(pattern for pattern in patterns if pattern[1]), any_other


def _check(template: str) -> None:
    for name in _VARIABLE.findall(template):
        if name not in _EXPANDED:
            raise MapInvalid(f"{name} is not a supported variable name")
    rest = _VARIABLE.sub("", template)
    for char in "{}":
        if char in rest:
            raise MapInvalid(f"Variable expansion syntax is violated, unexpected '{char}'")

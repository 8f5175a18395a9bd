"""KCQL, the language of Lenses' connectors, as far as those of Cassandra have it (connectors.md
§7.2).

>>> statement = parse_kcql("INSERT INTO ks.t SELECT a AS b, _key.id FROM topic TTL=60")[0]
>>> statement.target, statement.source, statement.ttl
('ks.t', 'topic', 60)
>>> [(each.name, each.alias) for each in statement.fields]
[('a', 'b'), ('_key.id', 'id')]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:'([^'\r\n]*)'|`([^`]+)`|([A-Za-z0-9_@\-+/{}:.]+(?:\.\*)?)|(\*|,|=|\(|\)))"
)


class KcqlInvalid(ValueError):
    """A text is no KCQL; the message says why."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field that is selected, and the name it gets."""

    name: str
    alias: str


@dataclass(frozen=True, slots=True)
class Statement:
    """`INSERT INTO target SELECT fields FROM source …`. Empty `fields`: `*`."""

    target: str
    source: str
    fields: tuple[Field, ...] = ()
    everything: bool = False  # `*` is among the fields
    ignored: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # PK
    mode: str = ""  # INCREMENTALMODE
    ttl: int = 0
    batch: int = 0
    with_keys: tuple[str, ...] = ()  # WITHKEY
    delimiter: str = ","
    unwraps: bool = False
    format: str = ""
    structure: bool = False
    properties: dict[str, str] = field(default_factory=dict)


def parse_kcql(text: str) -> tuple[Statement, ...]:
    """The statements of a setting, which semicolons separate. Raises KcqlInvalid."""
    statements = tuple(_Parser(part).statement() for part in _split(text) if part.strip())
    if not statements:
        raise KcqlInvalid("it has no statement; write INSERT INTO … SELECT * FROM …")
    return statements


def _split(text: str) -> list[str]:
    return re.split(r";(?=(?:[^']*'[^']*')*[^']*$)", text)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._tokens: list[tuple[str, bool]] = []
        at = 0
        while at < len(self._text):
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise KcqlInvalid(f"'{self._text[at : at + 20].strip()}' is not expected here")
            is_text = found[1] is not None or found[2] is not None
            token = next(part for part in found.groups() if part is not None)
            self._tokens.append((token, is_text))
            at = found.end()
        self._at = 0

    def statement(self) -> Statement:
        if not (self._take("insert") or self._take("upsert")):
            raise KcqlInvalid(f"'{self._text[:20]}' begins with neither INSERT nor UPSERT")
        self._expect("into")
        target = self._name("a target")
        self._expect("select")
        fields, everything = self._fields()
        self._expect("from")
        source = self._name("a source")
        given: dict[str, object] = {}
        while self._at < len(self._tokens):
            self._clause(given)
        return Statement(target, source, fields, everything, **given)  # type: ignore[arg-type]

    def _fields(self) -> tuple[tuple[Field, ...], bool]:
        fields: list[Field] = []
        everything = False
        while True:
            name = self._name("a field", star=True)
            if name == "*":
                everything = True
            else:
                if self._take("("):
                    self._expect(")")
                    name += "()"
                alias = self._name("a name") if self._take("as") else name.rpartition(".")[2]
                fields.append(Field(name, alias))
            if not self._take(","):
                return tuple(fields), everything

    def _names(self) -> tuple[str, ...]:
        names = [self._name("a field")]
        while self._take(","):
            names.append(self._name("a field"))
        return tuple(names)

    def _clause(self, given: dict[str, object]) -> None:
        word = self._name("a clause").lower()
        match word:
            case "ignore":
                given["ignored"] = self._names()
            case "pk":
                given["keys"] = self._names()
            case "incrementalmode":
                given["mode"] = self._value().lower()
            case "ttl":
                given["ttl"] = self._number(word)
            case "batch":
                given["batch"] = self._number(word)
            case "limit":
                self._name("a number")
            case "withunwrap":
                given["unwraps"] = True
            case "withformat":
                given["format"] = self._name("a format").lower()
            case "withstructure":
                given["structure"] = True
            case "keydelimiter":
                given["delimiter"] = self._value()
            case "withkey":
                self._expect("(")
                given["with_keys"] = self._names()
                self._expect(")")
            case "properties":
                given["properties"] = self._properties()
            case "autocreate" | "autoevolve":
                raise KcqlInvalid(f"{word.upper()}: tables are neither created nor altered here")
            case _:
                raise KcqlInvalid(f"'{word}' is no clause of Cassandra's connectors")

    def _properties(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self._expect("(")
        while not self._take(")"):
            name = self._name("a property")
            found[name] = self._value()
            if not self._take(","):
                self._expect(")")
                break
        return found

    def _value(self) -> str:
        self._expect("=")
        return self._name("a value", star=True)

    def _number(self, word: str) -> int:
        value = self._value()
        if not value.isdecimal():
            raise KcqlInvalid(f"{word.upper()}={value} is no number")
        return int(value)

    def _take(self, word: str) -> bool:
        if self._at < len(self._tokens):
            token, is_text = self._tokens[self._at]
            if not is_text and token.lower() == word:
                self._at += 1
                return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise KcqlInvalid(f"{word.upper()} is expected {self._place()}")

    def _name(self, what: str, *, star: bool = False) -> str:
        if self._at >= len(self._tokens):
            raise KcqlInvalid(f"{what} is expected {self._place()}")
        token, is_text = self._tokens[self._at]
        if not is_text and token in "*,=()" and not (star and token == "*"):
            raise KcqlInvalid(f"{what} is expected {self._place()}")
        self._at += 1
        return token

    def _place(self) -> str:
        if self._at < len(self._tokens):
            return f"in place of '{self._tokens[self._at][0]}'"
        return "at the end"

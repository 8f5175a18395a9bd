"""The part of Lenses' KCQL that its Redis sink knows (connectors.md §8).

    [INSERT|UPSERT INTO target] SELECT * | field [AS name], … FROM topic [IGNORE field, …]
        [PK field, …] [STOREAS kind [(name=value, …)]] [TTL = seconds] [; …]

Clauses after FROM are in any order; those that have no meaning for Redis are read and left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class KcqlInvalid(ValueError):
    """A statement that cannot be used; the text says why."""


class Store(Enum):
    """What a statement writes."""

    CACHE = "cache"  # a string for each key
    SORTED_SET = "sortedset"
    PUBSUB = "pubsub"
    GEO = "geoadd"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Selected:
    """A field that is written: its path in the record, and the name it gets. `*` is all."""

    path: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. Without `fields` all but the `ignored` are written; paths begin with `_key`,
    `_header` or `_value`, else they are of the value."""

    topic: str
    store: Store
    target: str = ""
    fields: tuple[Selected, ...] = ()
    ignored: frozenset[str] = frozenset()
    keys: tuple[tuple[str, ...], ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    ttl_s: int = 0

    def parameter(self, name: str, default: str) -> tuple[str, ...]:
        """The path that a parameter of STOREAS names, in any case."""
        return tuple(self.parameters.get(name.lower(), default).split("."))


_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>`[^`]*`|'[^']*'|\"[^\"]*\")|(?P<sign>[(),;=])|(?P<word>[^\s(),;=`'\"]+))"
)
_ONE_WORD: Final = frozenset(
    {"WITHFORMAT", "WITHPARTITIONER", "WITHCONVERTER", "WITHTYPE", "WITHKEY", "WITHTAG"}
)
_NUMBER: Final = frozenset(
    {"BATCH", "LIMIT", "WITHPIPELINE", "WITHREGEX", "WITH_FLUSH_COUNT", "WITH_FLUSH_INTERVAL"}
)
_ALONE: Final = frozenset({"AUTOCREATE", "AUTOEVOLVE", "CAPITALIZE", "WITHEXTRACT"})


def parse_kcql(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order. Raises KcqlInvalid."""
    statements = []
    tokens: list[str] = []
    for token in (*_tokens(text), ";"):
        if token == ";":
            if tokens:
                statements.append(_Reader(tokens).statement())
            tokens = []
        else:
            tokens.append(token)
    if not statements:
        raise KcqlInvalid("It has no statement: SELECT … FROM topic …")
    return tuple(statements)


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise KcqlInvalid(f"It cannot be read from '{text[at : at + 20].strip()}' on")
        found.append(match[0].strip())
        at = match.end()
    return found


def _plain(token: str) -> str:
    return token[1:-1] if token[:1] in "`'\"" and len(token) > 1 else token


class _Reader:
    """Reads one statement."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def statement(self) -> Statement:
        target = ""
        if self._is("INSERT", "UPSERT", "UPDATE"):
            self._take()
            self._want("INTO")
            target = self._name("the target, after INTO")
        self._want("SELECT")
        fields = self._selection()
        self._want("FROM")
        topic = self._name("the topic, after FROM")
        clauses = self._clauses()
        statement = Statement(
            topic,
            clauses.store,
            target,
            fields,
            frozenset(clauses.ignored),
            tuple(clauses.keys),
            clauses.parameters,
            clauses.ttl_s,
        )
        _check(statement)
        return statement

    def _selection(self) -> tuple[Selected, ...]:
        fields = []
        while True:
            word = self._name("a field, after SELECT")
            path = tuple(word.split("."))
            name = path[-1]
            if self._is("AS"):
                self._take()
                name = self._name("the name, after AS")
            fields.append(Selected(path, name))
            if not self._is(","):
                break
            self._take()
        return () if [each.path for each in fields] == [("*",)] else tuple(fields)

    def _clauses(self) -> _Clauses:
        found = _Clauses()
        while self._at < len(self._tokens):
            word = self._take().upper()
            if word == "IGNORE":
                found.ignored += self._names("a field, after IGNORE")
            elif word == "PK":
                found.keys += [tuple(each.split(".")) for each in self._names("a field, after PK")]
            elif word == "STOREAS":
                self._store(found)
            elif word == "TTL":
                found.ttl_s = self._number("TTL")
            elif word == "PROPERTIES":
                self._parameters()
            elif word in _ONE_WORD or word in _NUMBER:
                if self._is("="):
                    self._take()
                self._name(f"a word, after {word}")
            elif word not in _ALONE:
                raise KcqlInvalid(f"'{word}' is not known there, after FROM {self._topic()}")
        return found

    def _store(self, found: _Clauses) -> None:
        kind = self._name("what is stored, after STOREAS")
        kinds = {each.value: each for each in Store if each is not Store.CACHE}
        if kind.lower() not in kinds:
            raise KcqlInvalid(
                f"STOREAS {kind} is not known; it can be SortedSet, PubSub, GeoAdd or Stream"
            )
        found.store = kinds[kind.lower()]
        found.parameters = self._parameters() if self._is("(") else {}

    def _parameters(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self._want("(")
        while not self._is(")"):
            name = self._name("a parameter")
            self._want("=")
            found[name.lower()] = self._name(f"the value of {name}")
            if self._is(","):
                self._take()
        self._take()
        return found

    def _number(self, what: str) -> int:
        if self._is("="):
            self._take()
        word = self._name(f"a number, after {what}")
        if not (word.isascii() and word.isdecimal()):
            raise KcqlInvalid(f"{what} has to be a whole number, not '{word}'")
        return int(word)

    def _names(self, what: str) -> list[str]:
        found = [self._name(what)]
        while self._is(","):
            self._take()
            found.append(self._name(what))
        return found

    def _name(self, what: str) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at] in "(),;=":
            raise KcqlInvalid(f"It lacks {what}")
        return _plain(self._take())

    def _want(self, word: str) -> None:
        if not self._is(word):
            place = self._tokens[self._at] if self._at < len(self._tokens) else "its end"
            raise KcqlInvalid(f"It needs {word} before '{place}'")
        self._take()

    def _is(self, *words: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].upper() in words

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _topic(self) -> str:
        words = [each.upper() for each in self._tokens]
        return _plain(self._tokens[words.index("FROM") + 1])


@dataclass(slots=True)
class _Clauses:
    """What follows FROM."""

    store: Store = Store.CACHE
    parameters: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    keys: list[tuple[str, ...]] = field(default_factory=list)
    ttl_s: int = 0


def _check(statement: Statement) -> None:
    topic = statement.topic
    match statement.store:
        case Store.CACHE if not statement.keys:
            raise KcqlInvalid(
                f"SELECT … FROM {topic} needs PK and the fields that make the key, or STOREAS"
            )
        case Store.SORTED_SET if not statement.keys and not statement.target:
            raise KcqlInvalid(f"STOREAS SortedSet of {topic} needs INSERT INTO and a key, or PK")
        case Store.GEO if not statement.keys:
            raise KcqlInvalid(f"STOREAS GeoAdd of {topic} needs PK")
        case Store.PUBSUB if statement.keys:
            raise KcqlInvalid(f"STOREAS PubSub of {topic} cannot have PK")
        case Store.STREAM if not statement.target:
            raise KcqlInvalid(f"STOREAS Stream of {topic} needs INSERT INTO and a key")

"""KCQL, the language of Lenses' connectors.

    INSERT|UPSERT INTO target SELECT * | field [AS name], … FROM source [clauses] [; …]

Clauses are in any order. A family of connectors has a `Dialect`, which names the clauses it knows;
the family defines what statements mean.

>>> text = "INSERT INTO ks.t SELECT a.b, c AS d FROM topic PK a, x.y TTL=60"
>>> (statement,) = parse(text, Dialect(("PK", "TTL")))
>>> statement.target, statement.source, statement.names("PK"), statement.number("TTL")
('ks.t', 'topic', ('a', 'x.y'), 60)
>>> [(field.name, field.alias) for field in statement.fields]
[('a.b', 'b'), ('c', 'd')]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class KcqlInvalid(ValueError):
    """A statement that cannot be used; the message has the reason."""


class Shape(Enum):
    """What follows the name of a clause."""

    FLAG = "nothing"
    WORD = "[=] word"
    NAMES = "name, … or (name, …)"
    PAIRS = "(name=value, …)"
    KIND = "word [(name=value, …)]"


CLAUSES: Final[Mapping[str, Shape]] = {
    "AUTOCREATE": Shape.FLAG,
    "AUTOEVOLVE": Shape.FLAG,
    "BATCH": Shape.WORD,
    "CAPITALIZE": Shape.FLAG,
    "IGNORE": Shape.NAMES,
    "INCREMENTALMODE": Shape.WORD,
    "KEYDELIM": Shape.WORD,
    "KEYDELIMITER": Shape.WORD,
    "LIMIT": Shape.WORD,
    "PK": Shape.NAMES,
    "PROPERTIES": Shape.PAIRS,
    "STOREAS": Shape.KIND,
    "TTL": Shape.WORD,
    "WITHCONVERTER": Shape.WORD,
    "WITHEXTRACT": Shape.FLAG,
    "WITHFORMAT": Shape.WORD,
    "WITHKEY": Shape.NAMES,
    "WITHPARTITIONER": Shape.WORD,
    "WITHPIPELINE": Shape.WORD,
    "WITHREGEX": Shape.WORD,
    "WITHSTRUCTURE": Shape.FLAG,
    "WITHTAG": Shape.NAMES,
    "WITHTARGET": Shape.WORD,
    "WITHTYPE": Shape.WORD,
    "WITHUNWRAP": Shape.FLAG,
    "WITH_FLUSH_COUNT": Shape.WORD,
    "WITH_FLUSH_INTERVAL": Shape.WORD,
}

_BARE: Final = r"[^\s(),;=`'\"]+"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The syntax that a family of connectors understands."""

    clauses: tuple[str, ...]  # of CLAUSES
    verbs: tuple[str, ...] = ("INSERT", "UPSERT")
    needs_target: bool = True  # False: a statement may begin with SELECT
    has_functions: bool = False  # fields such as now()
    quotes: str = "`'"
    source: str = "source"  # what error messages call the name after FROM
    bare: str = _BARE  # a regex: words without quotes
    wide: str = ""  # the same for targets, sources and values, if these may have more characters


@dataclass(frozen=True, slots=True)
class KcqlField:
    """A field that is selected, and the name it gets: by default the end of its path."""

    name: str  # * is all
    alias: str


@dataclass(frozen=True, slots=True)
class Clause:
    """The contents of a clause; parts that its shape does not have are empty."""

    word: str = ""
    names: tuple[str, ...] = ()
    pairs: Mapping[str, str] = field(default_factory=dict)


_ABSENT: Final = Clause()


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement. `target` is empty if it has none."""

    text: str
    target: str
    fields: tuple[KcqlField, ...]
    source: str
    clauses: Mapping[str, Clause]

    def word(self, clause: str, default: str = "") -> str:
        """The word of a clause."""
        return self.clauses[clause].word if clause in self.clauses else default

    def number(self, clause: str) -> int:
        """The number of a clause, 0 without it. Raises KcqlInvalid if it is not a number."""
        word = self.word(clause, "0")
        if not (word.isascii() and word.isdecimal()):
            raise KcqlInvalid(f"{clause} must be a whole number, not '{word}'")
        return int(word)

    def names(self, clause: str) -> tuple[str, ...]:
        """The names of a clause; of all its occurrences, if it is repeated."""
        return self.clauses.get(clause, _ABSENT).names

    def pairs(self, clause: str) -> dict[str, str]:
        """The names and values of a clause."""
        return dict(self.clauses.get(clause, _ABSENT).pairs)


def parse(text: str, dialect: Dialect) -> tuple[Statement, ...]:
    """The statements of a text, separated by semicolons, in order. Raises KcqlInvalid."""
    reader = _Reader(text, dialect)
    statements = []
    while not reader.is_done():
        statements.append(reader.statement())
    if not statements:
        into = "INSERT INTO target " if dialect.needs_target else ""
        raise KcqlInvalid(f"It contains no statement; use {into}SELECT * FROM source …")
    return tuple(statements)


def _plain(token: str, quotes: str) -> str:
    return token[1:-1] if len(token) > 1 and token[0] in quotes else token


class _Reader:
    """Reads statements, from the first character to the last."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text = text
        self._dialect = dialect
        self._at = 0  # after the last token
        quoted = "|".join(f"{quote}[^{quote}]*{quote}" for quote in dialect.quotes)
        self._token = re.compile(rf"\s*({quoted}|[(),;=]|{dialect.bare})")
        self._word = re.compile(rf"\s*({quoted}|{dialect.bare})")
        self._wide = re.compile(rf"\s*({quoted}|{dialect.wide or dialect.bare})")
        self._listed = re.compile(rf"\s*({quoted}|[^(),;`]*[^(),;`\s])")

    def is_done(self) -> bool:
        """Reads semicolons; returns whether nothing else is left."""
        while self._accept(";"):
            pass
        return self._peek() == ""

    def statement(self) -> Statement:
        """The next statement."""
        start = self._at + len(self._text[self._at :]) - len(self._text[self._at :].lstrip())
        target = ""
        if self._accept(*self._dialect.verbs):
            self._expect("INTO")
            target = self._name("the target after INTO", self._wide)
        elif self._dialect.needs_target:
            raise KcqlInvalid(f"Expected INSERT INTO and a target before '{self._peek()}'")
        self._expect("SELECT")
        fields = self._fields()
        self._expect("FROM")
        source = self._name(f"the {self._dialect.source} after FROM", self._wide)
        clauses: dict[str, Clause] = {}
        while self._peek() not in ("", ";"):
            name, clause = self._clause(source)
            if name in clauses and clause.names:
                clause = Clause(names=clauses[name].names + clause.names)
            clauses[name] = clause
        return Statement(self._text[start : self._at], target, fields, source, clauses)

    def _fields(self) -> tuple[KcqlField, ...]:
        fields = []
        while True:
            name = self._name("a field after SELECT")
            if self._dialect.has_functions and self._accept("("):
                self._expect(")")
                name += "()"
            is_named = self._accept("AS")
            alias = self._name("the name after AS") if is_named else name.rpartition(".")[2]
            fields.append(KcqlField(name, alias))
            if not self._accept(","):
                return tuple(fields)

    def _clause(self, source: str) -> tuple[str, Clause]:
        name = self._peek().upper()
        if name not in self._dialect.clauses:
            raise KcqlInvalid(
                f"'{name}' is not supported after FROM {source}; clauses are "
                f"{', '.join(self._dialect.clauses)}"
            )
        self._expect(name)
        match CLAUSES[name]:
            case Shape.FLAG:
                return name, Clause()
            case Shape.WORD:
                self._accept("=")
                return name, Clause(self._name(f"a word after {name}", self._wide))
            case Shape.NAMES:
                return name, Clause(names=self._names(name))
            case Shape.PAIRS:
                return name, Clause(pairs=self._pairs())
            case Shape.KIND:
                word = self._name(f"a word after {name}")
                return name, Clause(word, pairs=self._pairs() if self._peek() == "(" else {})

    def _names(self, clause: str) -> tuple[str, ...]:
        expected = f"a field after {clause}"
        if not self._accept("("):
            names = [self._name(expected)]
            while self._accept(","):
                names.append(self._name(expected))
            return tuple(names)
        names = []
        while not self._accept(")"):
            names.append(self._name(expected, self._listed))
            if self._peek() != ")":
                self._expect(",")
        return tuple(names)

    def _pairs(self) -> dict[str, str]:
        pairs: dict[str, str] = {}
        self._expect("(")
        while not self._accept(")"):
            name = self._name("a name, or )")
            self._expect("=")
            pairs[name] = self._name(f"the value of {name}")
            self._accept(",")
        return pairs

    def _name(self, expected: str, pattern: re.Pattern[str] | None = None) -> str:
        match = (pattern or self._word).match(self._text, self._at)
        if match is None:
            self._peek()
            raise KcqlInvalid(f"Expected {expected}")
        self._at = match.end()
        return _plain(match[1], self._dialect.quotes)

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            token = self._peek()
            place = "its end" if token in ("", ";") else token
            raise KcqlInvalid(f"Expected {word} before '{place}'")

    def _accept(self, *words: str) -> bool:
        """Reads the next token if it is one of the words; returns whether it is."""
        token = self._peek()
        if token.upper() not in words:
            return False
        self._at = self._text.index(token, self._at) + len(token)
        return True

    def _peek(self) -> str:
        """The next token, with its quotes; empty at the end. Raises KcqlInvalid."""
        match = self._token.match(self._text, self._at)
        if match is not None:
            return match[1]
        if rest := self._text[self._at :].strip():
            raise KcqlInvalid(f"It cannot be parsed from '{rest[:20]}' on")
        return ""

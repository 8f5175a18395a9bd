"""The statements of Lenses' connectors for Cassandra (connectors.md §7.2).

>>> statement = parse_kcql("INSERT INTO ks.t SELECT a AS b, _key.id FROM topic TTL=60")[0]
>>> statement.target, statement.source, statement.ttl
('ks.t', 'topic', 60)
>>> [(each.name, each.alias) for each in statement.fields]
[('a', 'b'), ('_key.id', 'id')]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.connectors import kcql
from penstock.connectors.kcql import Dialect, Field, KcqlInvalid

_ALTERING: Final = ("AUTOCREATE", "AUTOEVOLVE")
_DIALECT: Final = Dialect(
    (
        "IGNORE",
        "PK",
        "INCREMENTALMODE",
        "TTL",
        "BATCH",
        "LIMIT",
        "WITHUNWRAP",
        "WITHFORMAT",
        "WITHSTRUCTURE",
        "KEYDELIMITER",
        "WITHKEY",
        "PROPERTIES",
        *_ALTERING,
    ),
    has_functions=True,
    bare=r"[A-Za-z0-9_@\-+/{}:.]+|\*",
)


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
    with_keys: tuple[str, ...] = ()  # WITHKEY
    delimiter: str = ","
    unwraps: bool = False
    format: str = ""
    properties: dict[str, str] = field(default_factory=dict)


def parse_kcql(text: str) -> tuple[Statement, ...]:
    """The statements of a setting, which semicolons separate. Raises KcqlInvalid."""
    return tuple(_statement(each) for each in kcql.parse(text, _DIALECT))


def _statement(given: kcql.Statement) -> Statement:
    for clause in _ALTERING:
        if clause in given.clauses:
            raise KcqlInvalid(f"{clause}: tables are neither created nor altered here")
    given.number("BATCH")
    return Statement(
        target=given.target,
        source=given.source,
        fields=tuple(each for each in given.fields if each.name != "*"),
        everything=any(each.name == "*" for each in given.fields),
        ignored=given.names("IGNORE"),
        keys=given.names("PK"),
        mode=given.word("INCREMENTALMODE").lower(),
        ttl=given.number("TTL"),
        with_keys=given.names("WITHKEY"),
        delimiter=given.word("KEYDELIMITER", ","),
        unwraps="WITHUNWRAP" in given.clauses,
        format=given.word("WITHFORMAT").lower(),
        properties=given.pairs("PROPERTIES"),
    )

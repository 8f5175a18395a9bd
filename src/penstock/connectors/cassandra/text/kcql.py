"""The statements of Lenses' connectors for Cassandra (connectors.md §7.2).

>>> statement = parse_kcql("INSERT INTO ks.t SELECT a AS b, _key.id FROM topic TTL=60")[0]
>>> statement.target, statement.source, statement.ttl
('ks.t', 'topic', 60)
>>> [(field.name, field.alias) for field in statement.fields]
[('a', 'b'), ('_key.id', 'id')]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.connectors import kcql
from penstock.connectors.kcql import Dialect, KcqlField, KcqlInvalid

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
    fields: tuple[KcqlField, ...] = ()
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
    """Parses statements separated by semicolons. Raises KcqlInvalid."""
    return tuple(_statement(parsed) for parsed in kcql.parse(text, _DIALECT))


def _statement(parsed: kcql.Statement) -> Statement:
    for clause in _ALTERING:
        if clause in parsed.clauses:
            raise KcqlInvalid(f"{clause}: creating and altering tables is not supported")
    parsed.number("BATCH")
    return Statement(
        target=parsed.target,
        source=parsed.source,
        fields=tuple(field for field in parsed.fields if field.name != "*"),
        everything=any(field.name == "*" for field in parsed.fields),
        ignored=parsed.names("IGNORE"),
        keys=parsed.names("PK"),
        mode=parsed.word("INCREMENTALMODE").lower(),
        ttl=parsed.number("TTL"),
        with_keys=parsed.names("WITHKEY"),
        delimiter=parsed.word("KEYDELIMITER", ","),
        unwraps="WITHUNWRAP" in parsed.clauses,
        format=parsed.word("WITHFORMAT").lower(),
        properties=parsed.pairs("PROPERTIES"),
    )

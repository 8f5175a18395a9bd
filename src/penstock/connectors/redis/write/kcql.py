"""The subset of Lenses' KCQL for its Redis sink (connectors.md §8).

    [INSERT|UPSERT INTO target] SELECT * | field [AS name], … FROM topic [IGNORE field, …]
        [PK field, …] [STOREAS kind [(name=value, …)]] [TTL = seconds] [; …]

Clauses after FROM are in any order; those without meaning for Redis are parsed and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from penstock.connectors import kcql
from penstock.connectors.kcql import Dialect, KcqlInvalid


class Store(Enum):
    """The structure that a statement writes to."""

    CACHE = "cache"  # a string for each key
    SORTED_SET = "sortedset"
    PUBSUB = "pubsub"
    GEO = "geoadd"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Selected:
    """A selected field: its path in the record, and its new name. `*`: all fields."""

    path: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. Empty `fields`: all but the `ignored`. Paths begin with `_key`, `_header` or
    `_value`; else they belong to the value."""

    topic: str
    store: Store
    target: str = ""
    fields: tuple[Selected, ...] = ()
    ignored: frozenset[str] = frozenset()
    keys: tuple[tuple[str, ...], ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    ttl_s: int = 0

    def parameter(self, name: str, default: str) -> tuple[str, ...]:
        """The path in a parameter of STOREAS, whose name is case-insensitive."""
        return tuple(self.parameters.get(name.lower(), default).split("."))


_DIALECT: Final = Dialect(
    (
        "IGNORE",
        "PK",
        "STOREAS",
        "TTL",
        "PROPERTIES",
        "BATCH",
        "LIMIT",
        "AUTOCREATE",
        "AUTOEVOLVE",
        "CAPITALIZE",
        "WITHCONVERTER",
        "WITHEXTRACT",
        "WITHFORMAT",
        "WITHKEY",
        "WITHPARTITIONER",
        "WITHPIPELINE",
        "WITHREGEX",
        "WITHTAG",
        "WITHTYPE",
        "WITH_FLUSH_COUNT",
        "WITH_FLUSH_INTERVAL",
    ),
    verbs=("INSERT", "UPSERT", "UPDATE"),
    needs_target=False,
    source="topic",
    quotes="`'\"",
)
_STORES: Final = {store.value: store for store in Store if store is not Store.CACHE}


def parse_kcql(text: str) -> tuple[Statement, ...]:
    """Parses statements, in order. Raises KcqlInvalid."""
    return tuple(_statement(parsed) for parsed in kcql.parse(text, _DIALECT))


def _statement(parsed: kcql.Statement) -> Statement:
    everything = [field.name for field in parsed.fields] == ["*"]
    fields = () if everything else parsed.fields
    statement = Statement(
        topic=parsed.source,
        store=_store(parsed),
        target=parsed.target,
        fields=tuple(Selected(tuple(field.name.split(".")), field.alias) for field in fields),
        ignored=frozenset(parsed.names("IGNORE")),
        keys=tuple(tuple(path.split(".")) for path in parsed.names("PK")),
        parameters={name.lower(): value for name, value in parsed.pairs("STOREAS").items()},
        ttl_s=parsed.number("TTL"),
    )
    _check(statement)
    return statement


def _store(parsed: kcql.Statement) -> Store:
    kind = parsed.word("STOREAS")
    if not kind:
        return Store.CACHE
    if kind.lower() not in _STORES:
        raise KcqlInvalid(f"STOREAS {kind} is unknown; use SortedSet, PubSub, GeoAdd or Stream")
    return _STORES[kind.lower()]


def _check(statement: Statement) -> None:
    topic = statement.topic
    match statement.store:
        case Store.CACHE if not statement.keys:
            raise KcqlInvalid(
                f"SELECT … FROM {topic} needs PK with the fields of the key, or STOREAS"
            )
        case Store.SORTED_SET if not statement.keys and not statement.target:
            raise KcqlInvalid(f"STOREAS SortedSet of {topic} needs INSERT INTO and a key, or PK")
        case Store.GEO if not statement.keys:
            raise KcqlInvalid(f"STOREAS GeoAdd of {topic} needs PK")
        case Store.PUBSUB if statement.keys:
            raise KcqlInvalid(f"STOREAS PubSub of {topic} cannot have PK")
        case Store.STREAM if not statement.target:
            raise KcqlInvalid(f"STOREAS Stream of {topic} needs INSERT INTO and a key")

"""The part of Lenses' KCQL that its Redis sink knows (connectors.md §8).

    [INSERT|UPSERT INTO target] SELECT * | field [AS name], … FROM topic [IGNORE field, …]
        [PK field, …] [STOREAS kind [(name=value, …)]] [TTL = seconds] [; …]

Clauses after FROM are in any order; those that have no meaning for Redis are read and left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from penstock.connectors import kcql
from penstock.connectors.kcql import Dialect, KcqlInvalid


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
_STORES: Final = {each.value: each for each in Store if each is not Store.CACHE}


def parse_kcql(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order. Raises KcqlInvalid."""
    return tuple(_statement(each) for each in kcql.parse(text, _DIALECT))


def _statement(given: kcql.Statement) -> Statement:
    everything = [each.name for each in given.fields] == ["*"]
    fields = () if everything else given.fields
    statement = Statement(
        topic=given.source,
        store=_store(given),
        target=given.target,
        fields=tuple(Selected(tuple(each.name.split(".")), each.alias) for each in fields),
        ignored=frozenset(given.names("IGNORE")),
        keys=tuple(tuple(each.split(".")) for each in given.names("PK")),
        parameters={name.lower(): value for name, value in given.pairs("STOREAS").items()},
        ttl_s=given.number("TTL"),
    )
    _check(statement)
    return statement


def _store(given: kcql.Statement) -> Store:
    kind = given.word("STOREAS")
    if not kind:
        return Store.CACHE
    if kind.lower() not in _STORES:
        raise KcqlInvalid(
            f"STOREAS {kind} is not known; it can be SortedSet, PubSub, GeoAdd or Stream"
        )
    return _STORES[kind.lower()]


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

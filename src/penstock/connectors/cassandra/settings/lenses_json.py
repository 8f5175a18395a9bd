"""Settings of Lenses' older sink, which writes JSON (connectors.md §7.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import LIST, LOW, Config, ConfigDef, Key, one_of
from penstock.connectors.cassandra.settings import lenses
from penstock.connectors.cassandra.write.plan import Ignore, Selected, SinkPlan, TopicPlan

THREADS: Final = lenses.count(
    "threadpool.size",
    0,
    "Ignored: requests are concurrent without threads.",
    lenses.IMPORT,
    0,
)
DELETES: Final = lenses.flag(
    "delete.enabled",
    "Whether records without a value delete rows; otherwise they are rejected.",
    lenses.MAPPINGS,
    importance=LOW,
)
DELETE: Final = lenses.text(
    "delete.statement", "The DELETE statement, with a ? for each value of the key.",
    lenses.MAPPINGS, importance=LOW,
)  # fmt: skip
DELETE_FIELDS: Final = Key(
    f"{lenses.PREFIX}delete.struct_flds",
    LIST,
    default=(),
    importance=LOW,
    doc="The fields of the key to bind to the statement, in order; empty: the key itself.",
    group=lenses.MAPPINGS,
)
DEFAULT: Final = lenses.text(
    "default.value",
    "How to write columns that a record does not have: `NULL`, or `UNSET`, which leaves them "
    "unchanged.",
    lenses.MAPPINGS,
    importance=LOW,
    check=one_of("", "NULL", "UNSET"),
    choices=("NULL", "UNSET"),
)


def _delete_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if parsed.get(DELETES.name) and not parsed.get(DELETE.name):
        yield DELETE.name, f"If {DELETES.name} is true, {DELETE.name} is required."


LENSES_JSON_SINK: Final = ConfigDef(
    *lenses.BASE,
    lenses.KCQL,
    THREADS,
    lenses.PROGRESS,
    DELETES,
    DELETE,
    DELETE_FIELDS,
    DEFAULT,
    rules=(lenses.key_space_rule, _delete_rule),
)


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a sink task."""
    topics: dict[str, TopicPlan] = {}
    for statement in lenses.statements(config):
        plan = Selected(
            keyspace=config[lenses.KEY_SPACE],
            table=statement.target,
            fields=tuple((field.name, field.alias) for field in statement.fields),
            everything=statement.everything,
            ignored=frozenset(statement.ignored),
            setting=lenses.KCQL.name,
            consistency=config[lenses.LEVEL].upper() or None,
            ttl_s=statement.ttl or None,
            unset=config[DEFAULT] == "UNSET",
            delete=config[DELETE] if config[DELETES] else None,
            delete_fields=config[DELETE_FIELDS],
            delete_setting=DELETE.name,
        )
        topic_plan = topics.get(statement.source, TopicPlan(()))
        topics[statement.source] = TopicPlan((*topic_plan.tables, plan))
    noop = config[lenses.ERROR_POLICY].upper() == "NOOP"
    return SinkPlan(
        topics, lenses.KCQL.name, in_flight=100, batch=1, ignore=Ignore.ALL if noop else Ignore.NONE
    )

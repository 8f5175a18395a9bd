"""Settings of Lenses' older sink, which writes JSON (connectors.md §7.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import LOW, MEDIUM, Config, ConfigDef, Group
from penstock.connectors.cassandra.settings import lenses
from penstock.connectors.cassandra.write.plan import Ignore, Selected, SinkPlan, TopicPlan

# fmt: off
_IMPORT: Final = Group("Import", numbered=False)
THREADS: Final = _IMPORT.ignored("connect.cassandra.threadpool.size", 0,
    "requests are concurrent without threads", at_least=0, importance=MEDIUM)
_MAPPINGS: Final = Group("Mappings", importance=LOW, numbered=False)
DELETES: Final = _MAPPINGS.flag("connect.cassandra.delete.enabled", False,
    "Whether records without a value delete rows; otherwise they are rejected.")
DELETE: Final = _MAPPINGS.text("connect.cassandra.delete.statement", "",
    "The DELETE statement, with a ? for each value of the key.")
DELETE_FIELDS: Final = _MAPPINGS.listing(f"{lenses.PREFIX}delete.struct_flds", (),
    "The fields of the key to bind to the statement, in order; empty: the key itself.")
DEFAULT: Final = _MAPPINGS.choice("connect.cassandra.default.value", "", ("", "NULL", "UNSET"),
    "How to write columns that a record does not have: `NULL`, or `UNSET`, which leaves them "
    "unchanged.", offers=("NULL", "UNSET"))
# fmt: on


def _delete_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if parsed.get(DELETES.name) and not parsed.get(DELETE.name):
        yield DELETE.name, f"If {DELETES.name} is true, {DELETE.name} is required."


LENSES_JSON_SINK: Final = ConfigDef(
    *lenses.BASE,
    lenses.KCQL,
    THREADS,
    lenses.PROGRESS,
    *_MAPPINGS,
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

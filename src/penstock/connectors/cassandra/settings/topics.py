"""The settings of topics and tables of DataStax's sink: `topic.⟨topic⟩.⟨keyspace⟩.⟨table⟩.*` and
`topic.⟨topic⟩.codec.*` (connectors.md §7.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    HIGH,
    REQUIRED,
    ConfigDef,
    Group,
    invalid,
)
from penstock.connectors.cassandra.text.mapping import MappingInvalid, parse_mapping
from penstock.connectors.cassandra.text.names import unquoted
from penstock.connectors.cassandra.text.values import UNITS, FormatInvalid, Texts
from penstock.connectors.cassandra.write.plan import Mapped, Selected, TopicPlan

LEVELS: Final = (
    "ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM",
    "SERIAL", "LOCAL_SERIAL",
)  # fmt: skip
_NO_CLOUD: Final = ("ANY", "ONE", "LOCAL_ONE")
"""Levels at which Astra refuses writes."""

_TABLE: Final = re.compile(
    r"topic\.([a-zA-Z0-9._-]+)\.([^.]+)\.([^.]+)\."
    r"(mapping|consistencyLevel|ttl|nullToUnset|deletesEnabled|ttlTimeUnit|timestampTimeUnit|query)"
)
_CODEC: Final = re.compile(
    r"topic\.([a-zA-Z0-9._-]+)\.codec\.(locale|timeZone|timestamp|date|time|unit)"
)
_PREFIX: Final = "topic."


# fmt: off
_SETTINGS: Final = Group(importance=HIGH)
MAPPING: Final = _SETTINGS.text("mapping", REQUIRED,
    "The mapping of columns to fields: `column=value.field, other=key.field`.")
DELETES: Final = _SETTINGS.flag("deletesEnabled", True,
    "Whether records in which only the key columns are set delete rows.")
LEVEL: Final = _SETTINGS.text("consistencyLevel", "LOCAL_ONE", "The consistency level of writes.")
TTL: Final = _SETTINGS.number("ttl", -1, "Time to live of rows; -1: none.", at_least=-1)
UNSET: Final = _SETTINGS.flag("nullToUnset", True,
    "Whether null leaves a column unchanged; otherwise it deletes the value.")
TTL_UNIT: Final = _SETTINGS.text("ttlTimeUnit", "SECONDS", "The unit of the time to live.")
TIMESTAMP_UNIT: Final = _SETTINGS.text("timestampTimeUnit", "MICROSECONDS",
    "The unit of the field that is mapped to `__timestamp`.")
QUERY: Final = _SETTINGS.text("query", None, "A statement to use instead of the generated one.")
# fmt: on
TABLE: Final = ConfigDef(*_SETTINGS)
"""The settings of a table, without their prefix."""

_CODEC_FIELDS: Final = {
    "locale": "locale",
    "timeZone": "zone",
    "timestamp": "timestamp",
    "date": "date",
    "time": "time",
    "unit": "unit",
}

Problems = list[tuple[str, str]]


def topic_plans(
    props: Mapping[str, str], *, is_cloud: bool = False
) -> tuple[dict[str, TopicPlan], Problems]:
    """The plan of each topic, and the problems: the setting to blame, and the message."""
    tables: dict[str, dict[tuple[str, str], dict[str, str]]] = {}
    codecs: dict[str, dict[str, str]] = {}
    problems: Problems = []
    for name, value in props.items():
        if not name.startswith(_PREFIX):
            continue
        codec = _CODEC.fullmatch(name)
        table = _TABLE.fullmatch(name)
        if codec is not None:
            codecs.setdefault(codec[1], {})[codec[2]] = value
        elif table is not None:
            topic, keyspace, table_name, setting = table.groups()
            tables.setdefault(topic, {}).setdefault((keyspace, table_name), {})[setting] = value
        else:
            problems.append(
                (
                    name,
                    f"The setting: {name} does not match topic.keyspace.table nor topic.codec "
                    "regular expression pattern",
                )
            )
    plans: dict[str, TopicPlan] = {}
    for topic in dict.fromkeys((*tables, *codecs)):
        texts = _texts(topic, codecs.get(topic, {}), problems)
        if topic not in tables:
            name = f"topic.{topic}.codec"
            problems.append((name, f"Topic {topic} must have at least one table configuration"))
            continue
        own_plans: list[Mapped | Selected] = []
        for (keyspace, table_name), settings in tables[topic].items():
            plan = _table(topic, keyspace, table_name, settings, problems, is_cloud=is_cloud)
            if plan is not None:
                own_plans.append(plan)
        plans[topic] = TopicPlan(tuple(own_plans), texts)
    return plans, problems


def _texts(topic: str, settings: Mapping[str, str], problems: Problems) -> Texts:
    texts = Texts()
    for setting, value in settings.items():
        try:
            texts = replace(texts, **{_CODEC_FIELDS[setting]: value.strip()})
        except FormatInvalid as error:
            name = f"topic.{topic}.codec.{setting}"
            problems.append((name, invalid(name, value, str(error))))
    return texts


def _table(
    topic: str,
    keyspace: str,
    table: str,
    settings: Mapping[str, str],
    problems: Problems,
    *,
    is_cloud: bool,
) -> Mapped | None:
    prefix = f"topic.{topic}.{keyspace}.{table}."
    problem_count = len(problems)
    try:
        config = TABLE.parse(settings)
    except ConfigInvalid:
        for validated in TABLE.validate(settings):
            problems += [
                (prefix + validated.name, text.replace(validated.name, prefix + validated.name, 1))
                for text in validated.errors
            ]
        return None
    mapping = prefix + MAPPING.name
    entries: Any = ()
    try:
        entries = parse_mapping(config[MAPPING])
    except MappingInvalid as error:
        problems.append((mapping, invalid(mapping, config[MAPPING], str(error))))
    level = config[LEVEL].strip().upper()
    if level not in LEVELS:
        name = prefix + LEVEL.name
        text = invalid(name, config[LEVEL], f"valid values include: {', '.join(LEVELS)}")
        problems.append((name, text))
    for key in (TTL_UNIT, TIMESTAMP_UNIT):
        if config[key] not in UNITS:
            name = prefix + key.name
            problems.append(
                (name, invalid(name, config[key], f"valid values are: {', '.join(UNITS)}"))
            )
    if config[QUERY] is not None and config[DELETES]:
        query, deletes = prefix + QUERY.name, prefix + DELETES.name
        problems.append(
            (
                query,
                f"You cannot provide both {query} and {deletes}. If you want to provide own query, "
                "set the deletesEnabled to false.",
            )
        )
    if len(problems) > problem_count:
        return None
    ttl = config[TTL]
    return Mapped(
        keyspace=unquoted(keyspace),
        table=unquoted(table),
        entries=entries,
        setting=mapping,
        consistency="LOCAL_QUORUM" if is_cloud and level in _NO_CLOUD else level,
        ttl_s=None if ttl == -1 else ttl * UNITS[config[TTL_UNIT]] // UNITS["SECONDS"],
        ttl_unit=config[TTL_UNIT],
        timestamp_unit=config[TIMESTAMP_UNIT],
        null_to_unset=config[UNSET],
        deletes=config[DELETES],
        query=config[QUERY],
        query_setting=prefix + QUERY.name,
    )

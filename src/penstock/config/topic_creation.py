"""Topic creation groups of source connectors, and their settings.

They are in a separate module because Kafka Connect reads them when the connector starts, not when
it is validated. Sources: kafka-connect.md §3.3; KIP-158.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.config.checks import (
    broker_default_or_positive_partitions,
    broker_default_or_positive_replication,
    non_null,
    valid_regexes,
)
from penstock.config.connector_keys import TOPIC_CREATION_GROUP, TOPIC_CREATION_GROUPS
from penstock.config.define import (
    INT,
    LIST,
    LOW,
    SHORT,
    ConfigDef,
    Key,
    Required,
    Width,
    aliases,
    under,
)

TOPIC_CREATION_PREFIX: Final = "topic.creation."

DEFAULT_GROUP: Final = "default"


def uses_topic_creation(props: Mapping[str, str | None]) -> bool:
    """Whether the connector uses topic creation, if the worker allows it."""
    return any(name.startswith(TOPIC_CREATION_PREFIX) for name in props)


def topic_creation_groups(props: Mapping[str, str | None]) -> list[str]:
    """The listed groups in order, `default` last."""
    listed = [group for group in aliases(TOPIC_CREATION_GROUPS, props) if group != DEFAULT_GROUP]
    return [*listed, DEFAULT_GROUP]


def with_topic_creation(definition: ConfigDef, props: Mapping[str, str | None]) -> ConfigDef:
    """`definition` with the settings of each topic creation group; unchanged when the
    connector does not use topic creation. A group inherits from `default`."""
    if not uses_topic_creation(props):
        return definition
    default = topic_group_keys(DEFAULT_GROUP)
    inherited = {value.name: value.value for value in ConfigDef(*default).validate(props)}
    keys = list(default)
    for group in topic_creation_groups(props)[:-1]:
        keys += topic_group_keys(group, inherited)
    unique = {key.name: key for key in reversed((*definition.keys, *keys))}
    return ConfigDef(*reversed(unique.values()), rules=definition.rules)


def topic_group_keys(
    group: str, inherited: Mapping[str, object] | None = None
) -> tuple[Key[Any], ...]:
    """The settings of one topic creation group: include, exclude, replication, partitions.

    `inherited` are the parsed settings of the group `default`; None for that group itself.
    """
    is_default = inherited is None
    # Kafka ignores the patterns of `default`, which contains all topics without another group.
    patterns = non_null() if is_default else valid_regexes("regular expressions")
    own = ConfigDef(
        Key(
            "include",
            LIST,
            default=(".*",) if is_default else (),
            importance=LOW,
            check=patterns,
            order=0,
            width=Width.LONG,
            display_name=f"Inclusion Topic Pattern for {group}",
            doc="Regular expressions for the names of topics that belong to the group.",
        ),
        Key(
            "exclude",
            LIST,
            default=(),
            importance=LOW,
            check=patterns,
            order=1,
            width=Width.LONG,
            display_name=f"Exclusion Topic Pattern for {group}",
            doc="Regular expressions for the names of topics that do not belong to the group, "
            "even if they are included.",
        ),
        Key(
            "replication.factor",
            SHORT,
            default=_inherited(inherited, "replication.factor"),
            importance=LOW,
            check=broker_default_or_positive_replication(),
            order=2,
            width=Width.LONG,
            display_name=f"Replication Factor for Topics in {group}",
            doc="Replication factor of the group's topics; -1: the broker's default.",
        ),
        Key(
            "partitions",
            INT,
            default=_inherited(inherited, "partitions"),
            importance=LOW,
            check=broker_default_or_positive_partitions(),
            order=3,
            width=Width.LONG,
            display_name=f"Partition Count for Topics in {group}",
            doc="Number of partitions of the group's topics; -1: the broker's default.",
        ),
    )
    return tuple(
        own.embedded(f"{TOPIC_CREATION_PREFIX}{group}.", f"{TOPIC_CREATION_GROUP.name}: {group}")
    )


def _inherited(values: Mapping[str, object] | None, name: str) -> int | Required:
    if values is None:
        return Required.REQUIRED
    value = values.get(f"{TOPIC_CREATION_PREFIX}{DEFAULT_GROUP}.{name}")
    # An invalid default is reported for `default`; -1 avoids a second report.
    return value if isinstance(value, int) and (value == -1 or value > 0) else -1


def topic_group_settings(group: str, props: Mapping[str, str]) -> dict[str, str]:
    """The topic settings of the group, apart from the four it declares."""
    prefix = f"{TOPIC_CREATION_PREFIX}{group}."
    declared = {key.name for key in topic_group_keys(group)}
    return under({n: value for n, value in props.items() if n not in declared}, prefix)

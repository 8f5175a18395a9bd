"""Entries and plans for the tests of the sink."""

from __future__ import annotations

from typing import Any

from penstock.connectors.mongodb.settings.sink import MONGODB_SINK
from penstock.connectors.mongodb.write.entry import Entry, Write
from penstock.connectors.mongodb.write.namespaces import Namespace
from penstock.connectors.mongodb.write.plan import Plan, plan_of

NOW_MS = 1_700_000_000_000


def plan(topic: str = "t", **changes: str) -> Plan:
    """The plan of a topic; `_` in names is a dot."""
    given = {name.replace("_", "."): value for name, value in changes.items()}
    config = MONGODB_SINK.parse({"database": "shop", **given})
    return plan_of(config, topic, lambda: NOW_MS)


def entry(value: Any, key: Any = None, topic: str = "t") -> Entry:
    return Entry(0, value, key, None, topic, 1, 7, 5)


def write(value: Any, key: Any = None, topic: str = "t", **changes: str) -> Write | None:
    """The write of a record."""
    found = plan(topic, **changes).write_of(entry(value, key, topic))
    return None if found is None else found[1]


def place(value: Any, key: Any = None, topic: str = "t", **changes: str) -> Namespace | None:
    """A write's namespace."""
    found = plan(topic, **changes).write_of(entry(value, key, topic))
    return None if found is None else found[0]

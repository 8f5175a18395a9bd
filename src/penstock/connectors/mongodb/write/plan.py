"""How the records of one topic are written, as a value made from its settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.api import DataError
from penstock.api.settings import Config
from penstock.connectors.keyed.pace import Pace
from penstock.connectors.mongodb.settings import sink as k
from penstock.connectors.mongodb.settings.names import IdStrategy
from penstock.connectors.mongodb.settings.overrides import topic_config
from penstock.connectors.mongodb.write.cdc import MakeChange, changes_of
from penstock.connectors.mongodb.write.entry import Entry, Write
from penstock.connectors.mongodb.write.ids import maker_of, strategy_of
from penstock.connectors.mongodb.write.models import MakeWrite, Now, writes_of
from penstock.connectors.mongodb.write.namespaces import MapNamespace, Namespace, namespaces_of
from penstock.connectors.mongodb.write.processors import Step, steps_of


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a topic, ready for use."""

    namespace: MapNamespace
    steps: tuple[Step, ...]
    make: MakeWrite
    change: MakeChange | None
    java_order: bool  # an id is made from values without a schema
    most: int  # records of a bulk write; 0: all
    ordered: bool
    pace: Pace
    tolerates: bool
    reports: bool  # the engine reports skipped records: log or dead letters
    logs: bool
    series: Mapping[str, Any] | None  # the options of the collection, if it is a time series

    def write_of(self, entry: Entry) -> tuple[Namespace, Write] | None:
        """The namespace and write of a record; None: nothing to write. Raises DataError."""
        namespace = self.namespace(entry)
        if self.change is not None:
            write = self.change(entry)
            return None if write is None else (namespace, write)
        for step in self.steps:
            step(entry)
        return namespace, self.make(entry)


def plan_of(connector: Config, topic: str, now_ms: Now | None = None) -> Plan:
    """The plan of a topic. Raises ConfigInvalid for its invalid settings; if its name cannot be a
    collection's, `Plan.write_of` raises DataError."""
    config = topic_config(connector, topic)
    framework = connector.props
    tolerance = (
        config[k.TOLERANCE] if k.TOLERANCE in config else framework.get("errors.tolerance", "none")
    ).lower()
    tolerates = tolerance in ("all", "data")
    framework_logs = framework.get("errors.log.enable", "").strip().lower() == "true"
    own_log = k.LOG_ERRORS in config
    return Plan(
        namespace=_lazily(config, topic),
        steps=tuple(steps_of(config, maker_of(config))),
        make=writes_of(config, now_ms or _now_ms),
        change=changes_of(config),
        java_order=strategy_of(config) is IdStrategy.PARTIAL_VALUE,
        most=config[k.MAX_BATCH],
        ordered=config[k.ORDERED],
        pace=Pace(config[k.RATE_EVERY], config[k.RATE_TIMEOUT]),
        tolerates=tolerates,
        reports=framework_logs
        or bool(framework.get("errors.deadletterqueue.topic.name", "").strip()),
        logs=config[k.LOG_ERRORS] if own_log else framework_logs,
        series=series_of(config),
    )


def _lazily(config: Config, topic: str) -> MapNamespace:
    """If a topic's name cannot be a collection's, its records fail, not the task's others."""
    try:
        return namespaces_of(config, topic)
    except DataError as error:
        invalid_name = error

        def refuse(entry: Entry) -> Namespace:
            raise invalid_name

        return refuse


def series_of(config: Config) -> Mapping[str, Any] | None:
    """The options that create a time series, or None if the collection is not one."""
    field = config[k.TIME_FIELD].strip()
    if not field:
        return None
    series = {"timeField": field}
    if meta := config[k.META_FIELD].strip():
        series["metaField"] = meta
    if granularity := config[k.GRANULARITY].strip().lower():
        series["granularity"] = granularity
    options: dict[str, Any] = {"timeseries": series}
    if config[k.EXPIRE_AFTER]:
        options["expireAfterSeconds"] = config[k.EXPIRE_AFTER]
    return options


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""The settings of all connectors as `Key`s (kafka-connect.md §3); `connector` composes them.

Names, types, defaults, checks and order are those of Kafka Connect 4.3.1.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.config.checks import (
    connector_name,
    entries,
    non_empty,
    unique_aliases,
    valid_regex,
    version_range,
)
from penstock.config.declare import Group
from penstock.config.define import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Key,
    Width,
)

# fmt: off
_COMMON: Final = Group("Common", importance=LOW)
NAME = _COMMON.text("name", REQUIRED,
    "Name of the connector, unique in the cluster.", check=connector_name(), importance=HIGH,
    width=Width.MEDIUM, label="Connector name")
CONNECTOR_CLASS = _COMMON.text("connector.class", REQUIRED,
    "Which connector to run: its full class name, the simple name of the class, or the simple "
    "name without 'Connector' at the end.", importance=HIGH, width=Width.LONG,
    label="Connector class")
CONNECTOR_VERSION = _COMMON.text("connector.plugin.version", None,
    "Version, or range of versions, of the connector; unset uses the newest.",
    check=version_range(), importance=MEDIUM, width=Width.MEDIUM, label="Connector version")
TASKS_MAX = _COMMON.number("tasks.max", 1,
    "The maximum number of tasks that the connector may split its work into.", at_least=1,
    importance=HIGH, width=Width.SHORT, label="Tasks max")
TASKS_MAX_ENFORCE = _COMMON.flag("tasks.max.enforce", True,
    "Whether a connector that generates more than tasks.max tasks fails. Deprecated; false lets "
    "faulty connectors continue.", width=Width.SHORT, label="Enforce tasks max")
KEY_CONVERTER = _COMMON.class_name("key.converter", None,
    "Converter for record keys; unset uses the worker's with the worker's settings. When set, "
    "only this connector's 'key.converter.' settings configure it.", width=Width.SHORT,
    label="Key converter class")
KEY_CONVERTER_VERSION = _COMMON.text("key.converter.plugin.version", None,
    "Version, or range of versions, of the key converter.", check=version_range(),
    width=Width.SHORT, label="Key converter version")
VALUE_CONVERTER = _COMMON.class_name("value.converter", None,
    "Converter for record values; unset uses the worker's with the worker's settings. When set, "
    "only this connector's 'value.converter.' settings configure it.", width=Width.SHORT,
    label="Value converter class")
VALUE_CONVERTER_VERSION = _COMMON.text("value.converter.plugin.version", None,
    "Version, or range of versions, of the value converter.", check=version_range(),
    width=Width.SHORT, label="Value converter version")
HEADER_CONVERTER = _COMMON.class_name("header.converter", None,
    "Converter for record headers; unset uses the worker's with the worker's settings. When set, "
    "only this connector's 'header.converter.' settings configure it.", width=Width.SHORT,
    label="Header converter class")
HEADER_CONVERTER_VERSION = _COMMON.text("header.converter.plugin.version", None,
    "Version, or range of versions, of the header converter.", check=version_range(),
    width=Width.SHORT, label="Header converter version")
_TRANSFORMS: Final = Group("Transforms", first=12)
TRANSFORMS = _TRANSFORMS.listing("transforms", (),
    "Names for the transformations of each record, in the order they are applied. Each is "
    "configured by 'transforms.NAME.type' and further 'transforms.NAME.' settings.",
    check=unique_aliases("transformation aliases"), importance=LOW, width=Width.LONG,
    label="Transforms")
_PREDICATES: Final = Group("Predicates", first=13)
PREDICATES = _PREDICATES.listing("predicates", (),
    "Names for the predicates that transformations may depend on. Each is configured by "
    "'predicates.NAME.type' and further 'predicates.NAME.' settings.",
    check=unique_aliases("predicate aliases"), importance=LOW, width=Width.LONG, label="Predicates")
CONFIG_RELOAD = _COMMON.choice("config.action.reload", "restart", ("none", "restart"),
    "What happens when a value that came from a config provider expires: 'restart' restarts the "
    "connector with the new value, 'none' does nothing.", width=Width.MEDIUM, label="Reload Action",
    order=14)
_ERRORS: Final = Group("Error Handling")
ERRORS_RETRY_TIMEOUT = _ERRORS.long("errors.retry.timeout", 0,
    "How long a failed step is retried, in milliseconds; 0: never, -1: forever.",
    width=Width.MEDIUM, label="Retry Timeout for Errors")
ERRORS_RETRY_MAX_DELAY = _ERRORS.long("errors.retry.delay.max.ms", 60_000,
    "Maximum delay between retries of a failed step, in milliseconds.", width=Width.MEDIUM,
    label="Maximum Delay Between Retries for Errors")
ERRORS_TOLERANCE = _ERRORS.choice("errors.tolerance", "none", ("none", "all"),
    "How to handle a record that fails: 'none' fails the task, 'all' skips the record.",
    width=Width.SHORT, label="Error Tolerance")
ERRORS_LOG_ENABLE = _ERRORS.flag("errors.log.enable", False,
    "Whether to log tolerated errors, too.", width=Width.SHORT, label="Log Errors")
ERRORS_LOG_MESSAGES = _ERRORS.flag("errors.log.include.messages", False,
    "Whether log entries of errors include the record: its key, value and headers.",
    width=Width.SHORT, label="Log Error Details")
TOPICS = _COMMON.listing("topics", (),
    "Topics to read, separated by commas. Set either this or topics.regex.", check=entries(),
    importance=HIGH, width=Width.LONG, label="Topics", order=4)
TOPICS_REGEX = _COMMON.text("topics.regex", "",
    "Regular expression that matches the whole names of the topics to read. Set either this or "
    "topics.", check=valid_regex(), importance=HIGH, width=Width.LONG, label="Topics regex",
    order=4)
DLQ_TOPIC = _ERRORS.text("errors.deadletterqueue.topic.name", "",
    "Topic for the records that this connector could not process; empty: none.", width=Width.MEDIUM,
    label="Dead Letter Queue Topic Name")
DLQ_REPLICATION = _ERRORS.short("errors.deadletterqueue.topic.replication.factor", 3,
    "Replication factor of the dead letter topic if the worker creates it.", width=Width.MEDIUM,
    label="Dead Letter Queue Topic Replication Factor")
DLQ_HEADERS = _ERRORS.flag("errors.deadletterqueue.context.headers.enable", False,
    "Whether dead letters have headers that describe the error; they start with "
    "'__connect.errors.'.", width=Width.MEDIUM, label="Enable Error Context Headers")
TOPIC_CREATION_GROUP: Final = Group("Topic Creation")
TOPIC_CREATION_GROUPS = TOPIC_CREATION_GROUP.listing("topic.creation.groups", (),
    "Names for groups of topics that are created with the same settings. Each is configured by "
    "'topic.creation.NAME.' settings; topics in none of them belong to 'default'.",
    check=unique_aliases("topic creation groups"), importance=LOW, width=Width.LONG,
    label="Topic Creation Groups")
_EXACTLY_ONCE: Final = Group("Exactly Once Support", first=2)
EXACTLY_ONCE_SUPPORT = _EXACTLY_ONCE.choice(
    "exactly.once.support", "requested", ("REQUIRED", "REQUESTED"),
    "With 'required', the connector is refused unless it can deliver exactly once on this "
    "worker; with 'requested' it runs either way.", ignore_case=True, width=Width.SHORT,
    label="Exactly once support")
TRANSACTION_BOUNDARY = _EXACTLY_ONCE.choice(
    "transaction.boundary", "poll", ("INTERVAL", "POLL", "CONNECTOR"),
    "What one transaction contains: what was ready to be read ('poll'), all records of an "
    "interval ('interval'), or what the connector defines ('connector').", ignore_case=True,
    width=Width.SHORT, label="Transaction Boundary")
TRANSACTION_INTERVAL = _EXACTLY_ONCE.long("transaction.boundary.interval.ms", None,
    "Time between two commits when transaction.boundary is 'interval', in milliseconds; unset "
    "uses the worker's offset.flush.interval.ms.", at_least=0, importance=LOW, width=Width.SHORT,
    label="Transaction boundary interval")
_OFFSETS_TOPIC: Final = Group("offsets.topic")
OFFSETS_TOPIC = _OFFSETS_TOPIC.text("offsets.storage.topic", None,
    "A separate topic for this connector's offsets, created if it does not exist; unset uses the "
    "worker's. Standalone workers ignore it.", check=non_empty(), importance=LOW, width=Width.LONG,
    label="Offsets topic")
# fmt: on

CONNECTOR_KEYS: Final[tuple[Key[Any], ...]] = (
    NAME,
    CONNECTOR_CLASS,
    CONNECTOR_VERSION,
    TASKS_MAX,
    TASKS_MAX_ENFORCE,
    KEY_CONVERTER,
    KEY_CONVERTER_VERSION,
    VALUE_CONVERTER,
    VALUE_CONVERTER_VERSION,
    HEADER_CONVERTER,
    HEADER_CONVERTER_VERSION,
    TRANSFORMS,
    PREDICATES,
    CONFIG_RELOAD,
    ERRORS_RETRY_TIMEOUT,
    ERRORS_RETRY_MAX_DELAY,
    ERRORS_TOLERANCE,
    ERRORS_LOG_ENABLE,
    ERRORS_LOG_MESSAGES,
)
"""The common settings of sources and sinks."""

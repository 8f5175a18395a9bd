"""The settings of all connectors as `Key`s (kafka-connect.md §3); `connector` composes them.

Names, types, defaults, checks and order are those of Kafka Connect 4.2.0.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.config.checks import (
    at_least,
    connector_name,
    entries,
    non_empty,
    one_of,
    unique_aliases,
    valid_regex,
    version_range,
)
from penstock.config.define import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    SHORT,
    STRING,
    Key,
    Width,
)

_COMMON_GROUP: Final = "Common"

_TRANSFORMS_GROUP: Final = "Transforms"

_PREDICATES_GROUP: Final = "Predicates"

_ERROR_GROUP: Final = "Error Handling"

TOPIC_CREATION_GROUP: Final = "Topic Creation"

_EXACTLY_ONCE_GROUP: Final = "Exactly Once Support"

_OFFSETS_TOPIC_GROUP: Final = "offsets.topic"

NAME = Key(
    "name",
    STRING,
    importance=HIGH,
    check=connector_name(),
    group=_COMMON_GROUP,
    order=1,
    width=Width.MEDIUM,
    display_name="Connector name",
    doc="Name of the connector, unique in the cluster.",
)
CONNECTOR_CLASS = Key(
    "connector.class",
    STRING,
    importance=HIGH,
    group=_COMMON_GROUP,
    order=2,
    width=Width.LONG,
    display_name="Connector class",
    doc="Which connector to run: its full class name, the simple name of the class, or the simple "
    "name without 'Connector' at the end.",
)
CONNECTOR_VERSION = Key(
    "connector.plugin.version",
    STRING,
    default=None,
    check=version_range(),
    group=_COMMON_GROUP,
    order=3,
    width=Width.MEDIUM,
    display_name="Connector version",
    doc="Version, or range of versions, of the connector; unset uses the newest.",
)
TASKS_MAX = Key(
    "tasks.max",
    INT,
    default=1,
    importance=HIGH,
    check=at_least(1),
    group=_COMMON_GROUP,
    order=4,
    width=Width.SHORT,
    display_name="Tasks max",
    doc="The maximum number of tasks that the connector may split its work into.",
)
TASKS_MAX_ENFORCE = Key(
    "tasks.max.enforce",
    BOOLEAN,
    default=True,
    importance=LOW,
    group=_COMMON_GROUP,
    order=5,
    width=Width.SHORT,
    display_name="Enforce tasks max",
    doc="Whether a connector that generates more than tasks.max tasks fails. Deprecated; false "
    "lets faulty connectors continue.",
)
KEY_CONVERTER = Key(
    "key.converter",
    CLASS,
    default=None,
    importance=LOW,
    group=_COMMON_GROUP,
    order=6,
    width=Width.SHORT,
    display_name="Key converter class",
    doc="Converter for record keys; unset uses the worker's with the worker's settings. When set,"
    " only this connector's 'key.converter.' settings configure it.",
)
KEY_CONVERTER_VERSION = Key(
    "key.converter.plugin.version",
    STRING,
    default=None,
    importance=LOW,
    check=version_range(),
    group=_COMMON_GROUP,
    order=7,
    width=Width.SHORT,
    display_name="Key converter version",
    doc="Version, or range of versions, of the key converter.",
)
VALUE_CONVERTER = Key(
    "value.converter",
    CLASS,
    default=None,
    importance=LOW,
    group=_COMMON_GROUP,
    order=8,
    width=Width.SHORT,
    display_name="Value converter class",
    doc="Converter for record values; unset uses the worker's with the worker's settings. When set,"
    " only this connector's 'value.converter.' settings configure it.",
)
VALUE_CONVERTER_VERSION = Key(
    "value.converter.plugin.version",
    STRING,
    default=None,
    importance=LOW,
    check=version_range(),
    group=_COMMON_GROUP,
    order=9,
    width=Width.SHORT,
    display_name="Value converter version",
    doc="Version, or range of versions, of the value converter.",
)
HEADER_CONVERTER = Key(
    "header.converter",
    CLASS,
    default=None,
    importance=LOW,
    group=_COMMON_GROUP,
    order=10,
    width=Width.SHORT,
    display_name="Header converter class",
    doc="Converter for record headers; unset uses the worker's with the worker's settings. When"
    " set, only this connector's 'header.converter.' settings configure it.",
)
HEADER_CONVERTER_VERSION = Key(
    "header.converter.plugin.version",
    STRING,
    default=None,
    importance=LOW,
    check=version_range(),
    group=_COMMON_GROUP,
    order=11,
    width=Width.SHORT,
    display_name="Header converter version",
    doc="Version, or range of versions, of the header converter.",
)
TRANSFORMS = Key(
    "transforms",
    LIST,
    default=(),
    importance=LOW,
    check=unique_aliases("transformation aliases"),
    group=_TRANSFORMS_GROUP,
    order=12,
    width=Width.LONG,
    display_name="Transforms",
    doc="Names for the transformations of each record, in the order they are applied. Each is "
    "configured by 'transforms.NAME.type' and further 'transforms.NAME.' settings.",
)
PREDICATES = Key(
    "predicates",
    LIST,
    default=(),
    importance=LOW,
    check=unique_aliases("predicate aliases"),
    group=_PREDICATES_GROUP,
    order=13,
    width=Width.LONG,
    display_name="Predicates",
    doc="Names for the predicates that transformations may depend on. Each is configured by "
    "'predicates.NAME.type' and further 'predicates.NAME.' settings.",
)
CONFIG_RELOAD = Key(
    "config.action.reload",
    STRING,
    default="restart",
    importance=LOW,
    check=one_of("none", "restart"),
    group=_COMMON_GROUP,
    order=14,
    width=Width.MEDIUM,
    display_name="Reload Action",
    doc="What happens when a value that came from a config provider expires: 'restart' restarts the"
    " connector with the new value, 'none' does nothing.",
)
ERRORS_RETRY_TIMEOUT = Key(
    "errors.retry.timeout",
    LONG,
    default=0,
    group=_ERROR_GROUP,
    order=1,
    width=Width.MEDIUM,
    display_name="Retry Timeout for Errors",
    doc="How long a failed step is retried, in milliseconds; 0: never, -1: forever.",
)
ERRORS_RETRY_MAX_DELAY = Key(
    "errors.retry.delay.max.ms",
    LONG,
    default=60_000,
    group=_ERROR_GROUP,
    order=2,
    width=Width.MEDIUM,
    display_name="Maximum Delay Between Retries for Errors",
    doc="Maximum delay between retries of a failed step, in milliseconds.",
)
ERRORS_TOLERANCE = Key(
    "errors.tolerance",
    STRING,
    default="none",
    check=one_of("none", "all"),
    group=_ERROR_GROUP,
    order=3,
    width=Width.SHORT,
    display_name="Error Tolerance",
    doc="How to handle a record that fails: 'none' fails the task, 'all' skips the record.",
)
ERRORS_LOG_ENABLE = Key(
    "errors.log.enable",
    BOOLEAN,
    default=False,
    group=_ERROR_GROUP,
    order=4,
    width=Width.SHORT,
    display_name="Log Errors",
    doc="Whether to log tolerated errors, too.",
)
ERRORS_LOG_MESSAGES = Key(
    "errors.log.include.messages",
    BOOLEAN,
    default=False,
    group=_ERROR_GROUP,
    order=5,
    width=Width.SHORT,
    display_name="Log Error Details",
    doc="Whether log entries of errors include the record: its key, value and headers.",
)
TOPICS = Key(
    "topics",
    LIST,
    default=(),
    importance=HIGH,
    check=entries(),
    group=_COMMON_GROUP,
    order=4,
    width=Width.LONG,
    display_name="Topics",
    doc="Topics to read, separated by commas. Set either this or topics.regex.",
)
TOPICS_REGEX = Key(
    "topics.regex",
    STRING,
    default="",
    importance=HIGH,
    check=valid_regex(),
    group=_COMMON_GROUP,
    order=4,
    width=Width.LONG,
    display_name="Topics regex",
    doc="Regular expression that matches the whole names of the topics to read. Set either this "
    "or topics.",
)
DLQ_TOPIC = Key(
    "errors.deadletterqueue.topic.name",
    STRING,
    default="",
    group=_ERROR_GROUP,
    order=6,
    width=Width.MEDIUM,
    display_name="Dead Letter Queue Topic Name",
    doc="Topic for the records that this connector could not process; empty: none.",
)
DLQ_REPLICATION = Key(
    "errors.deadletterqueue.topic.replication.factor",
    SHORT,
    default=3,
    group=_ERROR_GROUP,
    order=7,
    width=Width.MEDIUM,
    display_name="Dead Letter Queue Topic Replication Factor",
    doc="Replication factor of the dead letter topic if the worker creates it.",
)
DLQ_HEADERS = Key(
    "errors.deadletterqueue.context.headers.enable",
    BOOLEAN,
    default=False,
    group=_ERROR_GROUP,
    order=8,
    width=Width.MEDIUM,
    display_name="Enable Error Context Headers",
    doc="Whether dead letters have headers that describe the error; they start with "
    "'__connect.errors.'.",
)
TOPIC_CREATION_GROUPS = Key(
    "topic.creation.groups",
    LIST,
    default=(),
    importance=LOW,
    check=unique_aliases("topic creation groups"),
    group=TOPIC_CREATION_GROUP,
    order=1,
    width=Width.LONG,
    display_name="Topic Creation Groups",
    doc="Names for groups of topics that are created with the same settings. Each is configured "
    "by 'topic.creation.NAME.' settings; topics in none of them belong to 'default'.",
)
EXACTLY_ONCE_SUPPORT = Key(
    "exactly.once.support",
    STRING,
    default="requested",
    check=one_of("REQUIRED", "REQUESTED", ignore_case=True),
    group=_EXACTLY_ONCE_GROUP,
    order=2,
    width=Width.SHORT,
    display_name="Exactly once support",
    doc="With 'required', the connector is refused unless it can deliver exactly once on this"
    " worker; with 'requested' it runs either way.",
)
TRANSACTION_BOUNDARY = Key(
    "transaction.boundary",
    STRING,
    default="poll",
    check=one_of("INTERVAL", "POLL", "CONNECTOR", ignore_case=True),
    group=_EXACTLY_ONCE_GROUP,
    order=3,
    width=Width.SHORT,
    display_name="Transaction Boundary",
    doc="What one transaction contains: what was ready to be read ('poll'), all records of an "
    "interval ('interval'), or what the connector defines ('connector').",
)
TRANSACTION_INTERVAL = Key(
    "transaction.boundary.interval.ms",
    LONG,
    default=None,
    importance=LOW,
    check=at_least(0),
    group=_EXACTLY_ONCE_GROUP,
    order=4,
    width=Width.SHORT,
    display_name="Transaction boundary interval",
    doc="Time between two commits when transaction.boundary is 'interval', in milliseconds; unset "
    "uses the worker's offset.flush.interval.ms.",
)
OFFSETS_TOPIC = Key(
    "offsets.storage.topic",
    STRING,
    default=None,
    importance=LOW,
    check=non_empty(),
    group=_OFFSETS_TOPIC_GROUP,
    order=1,
    width=Width.LONG,
    display_name="Offsets topic",
    doc="A separate topic for this connector's offsets, created if it does not exist; unset uses"
    " the worker's. Standalone workers ignore it.",
)

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

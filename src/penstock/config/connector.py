"""The settings every connector has, whatever it connects (reference §3), and rules between them.

`SOURCE` and `SINK` are Kafka Connect 4.2.0's, in its order. `enrich` adds the settings that exist
only because of others: those of each transformation and predicate. `with_topic_creation` does the
same for topic creation groups; Kafka Connect reads those when the connector starts and not when it
is validated, which is why they are apart.

    >>> values = SINK.validate({"name": "s", "connector.class": "FileStreamSink"})
    >>> [value.name for value in values if value.errors]
    ['topics', 'topics.regex']
    >>> [key.name for key in enrich(SINK, {"transforms": "a"}).keys[-4:]]
    ['transforms.a.type', 'transforms.a.plugin.version', 'transforms.a.negate', \
'transforms.a.predicate']
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.config.checks import (
    all_of,
    at_least,
    broker_default_or_positive_partitions,
    broker_default_or_positive_replication,
    connector_name,
    entries,
    non_empty,
    non_null,
    one_of,
    unique_aliases,
    valid_regex,
    valid_regexes,
    version_range,
    version_range_problem,
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
    Check,
    Choices,
    ConfigDef,
    ConfigValue,
    Key,
    Required,
    Width,
    class_known_as,
    under,
)
from penstock.config.regex import RegexInvalid, compile_java
from penstock.config.versions import mismatch

_COMMON_GROUP: Final = "Common"
_TRANSFORMS_GROUP: Final = "Transforms"
_PREDICATES_GROUP: Final = "Predicates"
_ERROR_GROUP: Final = "Error Handling"
_TOPIC_CREATION_GROUP: Final = "Topic Creation"
_EXACTLY_ONCE_GROUP: Final = "Exactly Once Support"
_OFFSETS_TOPIC_GROUP: Final = "offsets.topic"

OVERRIDE_PREFIXES: Final = ("producer.override.", "consumer.override.", "admin.override.")
"""What the settings of a connector's own Kafka clients start with."""

NAME = Key(
    "name",
    STRING,
    importance=HIGH,
    check=connector_name(),
    group=_COMMON_GROUP,
    order=1,
    width=Width.MEDIUM,
    display_name="Connector name",
    doc="Name of the connector; no two in a cluster are the same.",
)
CONNECTOR_CLASS = Key(
    "connector.class",
    STRING,
    importance=HIGH,
    group=_COMMON_GROUP,
    order=2,
    width=Width.LONG,
    display_name="Connector class",
    doc="Which connector to run: its full class name, the simple name of the class, or that without"
    " 'Connector' at the end.",
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
    doc="Version, or range of versions, of the connector; unset takes the newest.",
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
    doc="The largest number of tasks the connector may split its work into.",
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
    doc="Whether a connector that plans more than tasks.max tasks fails. Deprecated; false lets"
    " faulty connectors run on.",
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
    doc="Names for the transformations of each record, in the order they are applied. Each is set"
    " up by 'transforms.NAME.type' and further 'transforms.NAME.' settings.",
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
    doc="Names for the conditions that transformations may depend on. Each is set up by"
    " 'predicates.NAME.type' and further 'predicates.NAME.' settings.",
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
    doc="How long a failed step is tried again, in milliseconds; 0 is not at all, -1 for ever.",
)
ERRORS_RETRY_MAX_DELAY = Key(
    "errors.retry.delay.max.ms",
    LONG,
    default=60_000,
    group=_ERROR_GROUP,
    order=2,
    width=Width.MEDIUM,
    display_name="Maximum Delay Between Retries for Errors",
    doc="Longest pause between two tries of a failed step, in milliseconds.",
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
    doc="What a bad record does: 'none' fails the task, 'all' skips the record.",
)
ERRORS_LOG_ENABLE = Key(
    "errors.log.enable",
    BOOLEAN,
    default=False,
    group=_ERROR_GROUP,
    order=4,
    width=Width.SHORT,
    display_name="Log Errors",
    doc="Whether tolerated errors are logged too.",
)
ERRORS_LOG_MESSAGES = Key(
    "errors.log.include.messages",
    BOOLEAN,
    default=False,
    group=_ERROR_GROUP,
    order=5,
    width=Width.SHORT,
    display_name="Log Error Details",
    doc="Whether the log entry of an error holds the record itself: its key, value and headers.",
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
    doc="Topics to read, separated by commas. Either this or topics.regex is set.",
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
    doc="Regular expression for the whole name of each topic to read. Either this or topics is"
    " set.",
)
DLQ_TOPIC = Key(
    "errors.deadletterqueue.topic.name",
    STRING,
    default="",
    group=_ERROR_GROUP,
    order=6,
    width=Width.MEDIUM,
    display_name="Dead Letter Queue Topic Name",
    doc="Topic that gets the records this connector could not handle; empty is none.",
)
DLQ_REPLICATION = Key(
    "errors.deadletterqueue.topic.replication.factor",
    SHORT,
    default=3,
    group=_ERROR_GROUP,
    order=7,
    width=Width.MEDIUM,
    display_name="Dead Letter Queue Topic Replication Factor",
    doc="Replication of the dead letter topic when it is created here.",
)
DLQ_HEADERS = Key(
    "errors.deadletterqueue.context.headers.enable",
    BOOLEAN,
    default=False,
    group=_ERROR_GROUP,
    order=8,
    width=Width.MEDIUM,
    display_name="Enable Error Context Headers",
    doc="Whether dead letters carry headers that say what went wrong; they start with"
    " '__connect.errors.'.",
)
TOPIC_CREATION_GROUPS = Key(
    "topic.creation.groups",
    LIST,
    default=(),
    importance=LOW,
    check=unique_aliases("topic creation groups"),
    group=_TOPIC_CREATION_GROUP,
    order=1,
    width=Width.LONG,
    display_name="Topic Creation Groups",
    doc="Names for groups of topics that are created alike. Each is set up by"
    " 'topic.creation.NAME.' settings; topics in none of them belong to 'default'.",
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
    doc="What one transaction holds: what was ready to be read ('poll'), all records of a while"
    " ('interval'), or what the connector says ('connector').",
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
    doc="Time between two commits when transaction.boundary is 'interval', in milliseconds; unset"
    " is the worker's offset.flush.interval.ms.",
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
    doc="A topic of its own for this connector's offsets, created if it does not exist; unset uses"
    " the worker's. Means nothing to a worker that works alone.",
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
"""What sources and sinks have in common."""


def sink_topic_problems(parsed: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What is wrong between `topics`, `topics.regex` and the dead letter topic (§3.2)."""
    topics = [topic for topic in _listed(parsed.get(TOPICS.name)) if topic]
    pattern = _text(parsed.get(TOPICS_REGEX.name))
    dlq = _text(parsed.get(DLQ_TOPIC.name))
    both = (TOPICS.name, TOPICS_REGEX.name)
    any_topics = bool(parsed.get(TOPICS.name))
    if any_topics and pattern:
        text = "topics and topics.regex are mutually exclusive options, but both are set."
        yield from ((name, text) for name in both)
    if not any_topics and not pattern:
        yield from ((name, "Must configure one of topics or topics.regex") for name in both)
    if not dlq:
        return
    if dlq in topics:
        listed = ", ".join(dict.fromkeys(topics))
        yield (
            TOPICS.name,
            f"The DLQ topic '{dlq}' may not be included in the list of topics"
            f" ('topics=[{listed}]') consumed by the connector",
        )
    if pattern and _matches(pattern, dlq):
        yield (
            TOPICS_REGEX.name,
            f"The DLQ topic '{dlq}' may not be matched by the regex for the topics"
            f" ('topics.regex={pattern}') consumed by the connector",
        )


def _matches(pattern: str, topic: str) -> bool:
    try:
        return compile_java(pattern).fullmatch(topic) is not None
    except RegexInvalid:
        return False  # the key's own check says so


def _listed(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


SINK: Final = ConfigDef(
    *CONNECTOR_KEYS,
    TOPICS,
    TOPICS_REGEX,
    DLQ_TOPIC,
    DLQ_REPLICATION,
    DLQ_HEADERS,
    rules=(sink_topic_problems,),
)
"""What every sink connector has."""

SOURCE: Final = ConfigDef(
    *CONNECTOR_KEYS,
    TOPIC_CREATION_GROUPS,
    EXACTLY_ONCE_SUPPORT,
    TRANSACTION_BOUNDARY,
    TRANSACTION_INTERVAL,
    OFFSETS_TOPIC,
)
"""What every source connector has."""


@dataclass(frozen=True, slots=True)
class PluginClasses:
    """The classes of one type of plugin that a configuration may name."""

    definitions: Mapping[str, ConfigDef]  # by full class name, in the order they are offered
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names, to full class names
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by full class name

    def resolve(self, name: str) -> str | None:
        """The full name of the class that is called `name`."""
        return name if name in self.definitions else self.aliases.get(name)

    def variants(self, name: str) -> list[str]:
        """The classes that `name` is the common part of: `Cast$Key` and `Cast$Value` of `Cast`."""
        return [known for known in self.definitions if known.startswith(f"{name}$")]


@dataclass(frozen=True, slots=True)
class Plugins:
    """What `enrich` has to know of the plugins around; None of a type: nothing, so any name will
    do and classes have no settings of their own."""

    transforms: PluginClasses | None = None
    predicates: PluginClasses | None = None
    converters: PluginClasses | None = None
    header_converters: PluginClasses | None = None


ANY_PLUGINS: Final = Plugins()

_TRANSFORM_PREDICATE = Key(
    "predicate",
    STRING,
    default=None,
    doc="Name of the predicate that decides which records are transformed; unset is all of them.",
)
_TRANSFORM_NEGATE = Key(
    "negate",
    BOOLEAN,
    default=False,
    doc="Whether the records are transformed for which the predicate does not hold.",
)


def enrich(
    definition: ConfigDef,
    props: Mapping[str, str | None],
    plugins: Plugins = ANY_PLUGINS,
    worker_defaults: Mapping[str, str] | None = None,
) -> ConfigDef:
    """`definition` with what `props` brings into being: the settings of each transformation and
    predicate it lists (§3.1), and classes checked and offered as far as `plugins` knows them.

    `worker_defaults` are the converters of the worker and their versions, by setting; they are
    shown as the defaults of the connector's. Never raises: an alias that is listed twice counts
    once here, and a class that does not exist has no settings.
    """
    keys = [_with_plugins(key, plugins, worker_defaults or {}) for key in definition.keys]
    for alias in _aliases(TRANSFORMS, props):
        keys += _transform_keys(alias, props, plugins.transforms)
    for alias in _aliases(PREDICATES, props):
        keys += _plugin_keys(
            f"predicates.{alias}.",
            f"Predicates: {alias}",
            ("Predicate", alias),
            props,
            plugins.predicates,
        )
    # A connector may name an alias so that two settings meet; the first one declared stands.
    unique = {key.name: key for key in reversed(keys)}
    return ConfigDef(*reversed(unique.values()), rules=definition.rules)


def _aliases(key: Key[tuple[str, ...]], props: Mapping[str, str | None]) -> list[str]:
    value = next(iter(ConfigDef(key).validate(props))).value
    return list(dict.fromkeys(_listed(value)))


def _with_plugins(
    key: Key[object], plugins: Plugins, worker_defaults: Mapping[str, str]
) -> Key[object]:
    classes = {
        KEY_CONVERTER.name: plugins.converters,
        VALUE_CONVERTER.name: plugins.converters,
        HEADER_CONVERTER.name: plugins.header_converters,
    }.get(key.name)
    if classes is not None:
        key = replace(
            key,
            kind=class_known_as(classes.resolve),
            recommender=Choices(tuple(classes.definitions)),
        )
    if key.name in worker_defaults:
        key = replace(key, default=worker_defaults[key.name])
    return key


@dataclass(frozen=True, slots=True)
class _NegatesSomething:
    """`negate` needs `predicate`: Kafka reports it on the type, and its own text, unprefixed."""

    prefix: str
    negate: bool  # both: whether it is given at all
    predicate: bool

    def problem(self, name: str, value: Any) -> str | None:
        if not self.negate or self.predicate:
            return None
        return (
            f"Config '{self.prefix}negate' was provided but there is no config"
            f" '{self.prefix}predicate' defining a predicate to be negated."
        )

    def __str__(self) -> str:
        return "a transformation"


@dataclass(frozen=True, slots=True)
class _Concrete:
    """A class that can be made, rather than the common part of several."""

    classes: PluginClasses

    def problem(self, name: str, value: Any) -> str | None:
        if value is None or value in self.classes.definitions:
            return None
        variants = ", ".join(self.classes.variants(value))
        return f"This class is abstract and cannot be created. Did you mean {variants}?"

    def __str__(self) -> str:
        return "an installed class"


@dataclass(frozen=True, slots=True)
class _Refused:
    """A class of which there is no version that is asked for; but for `there`, which is one."""

    text: str
    there: str | None = None

    def problem(self, name: str, value: Any) -> str | None:
        return self.text if value is None or value != self.there else None

    def __str__(self) -> str:
        return "an installed version"


def version_problem(class_name: str, wanted: str | None, available: Sequence[str]) -> str | None:
    """What is said where no version that is there is one that is asked for (§15.4); None also where
    the range is malformed, which is said elsewhere."""
    if wanted is not None and version_range_problem(wanted) is not None:
        return None
    return mismatch(class_name, wanted, available)


def _transform_keys(
    alias: str, props: Mapping[str, str | None], classes: PluginClasses | None
) -> list[Key[object]]:
    prefix = f"transforms.{alias}."
    check = _NegatesSomething(
        prefix,
        negate=props.get(prefix + _TRANSFORM_NEGATE.name) is not None,
        predicate=props.get(prefix + _TRANSFORM_PREDICATE.name) is not None,
    )
    return _plugin_keys(
        prefix,
        f"Transforms: {alias}",
        ("Transformation", alias),
        props,
        classes,
        own=(_TRANSFORM_PREDICATE, _TRANSFORM_NEGATE),
        check=check,
    )


def _plugin_keys(
    prefix: str,
    group: str,
    title: tuple[str, str],
    props: Mapping[str, str | None],
    classes: PluginClasses | None,
    own: tuple[Key[Any], ...] = (),
    check: Check | None = None,
) -> list[Key[object]]:
    """`type` and `plugin.version`, then the class's settings together with the framework's `own`,
    which shadow those of the class."""
    given = (props.get(prefix + "type") or "").strip()
    kind = CLASS
    offered: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    definition: ConfigDef | None = ConfigDef()
    wanted, refused = props.get(prefix + "plugin.version"), None
    if classes is not None:
        found = classes.resolve(given)
        definition = classes.definitions.get(found) if found is not None else None
        kind = class_known_as(lambda name: classes.resolve(name) or _if_any(name, classes))
        offered = tuple(classes.definitions)
        versions = tuple(classes.versions.get(found or "", ()))
        concrete = _Concrete(classes)
        check = concrete if check is None else all_of(concrete, check)
        refused = version_problem(found or "", wanted, versions) if versions else None
        if refused is not None:
            check, definition = _Refused(refused), None
    keys: list[Key[object]] = [
        Key(
            prefix + "type",
            kind,
            importance=HIGH,
            check=check,
            group=group,
            order=0,
            width=Width.LONG,
            display_name=f"{title[0]} type for {title[1]}",
            recommender=Choices(offered) if offered else None,
            doc="Class of the plugin, by full or simple name.",
        ),
        Key(
            prefix + "plugin.version",
            STRING,
            default=versions[0] if versions and wanted is not None else None,
            importance=HIGH,
            check=version_range() if refused is None else _Refused(refused, versions[0]),
            group=group,
            order=1,
            width=Width.LONG,
            display_name=f"{title[0]} version for {title[1]}",
            recommender=Choices(versions) if versions else None,
            doc="Version, or range of versions, of the plugin; unset takes the newest.",
        ),
    ]
    if definition is not None:
        shadowed = {key.name for key in own}
        theirs = (key for key in definition.keys if key.name not in shadowed)
        keys += ConfigDef(*own, *theirs).embedded(prefix, group, first_order=2)
    return keys


def _if_any(name: str, classes: PluginClasses) -> str | None:
    return name if classes.variants(name) else None


TOPIC_CREATION_PREFIX: Final = "topic.creation."
DEFAULT_GROUP: Final = "default"


def uses_topic_creation(props: Mapping[str, str | None]) -> bool:
    """Whether the connector asks for its topics to be created, if the worker allows it (§3.3)."""
    return any(name.startswith(TOPIC_CREATION_PREFIX) for name in props)


def topic_creation_groups(props: Mapping[str, str | None]) -> list[str]:
    """The listed groups in order, `default` last."""
    listed = [group for group in _aliases(TOPIC_CREATION_GROUPS, props) if group != DEFAULT_GROUP]
    return [*listed, DEFAULT_GROUP]


def with_topic_creation(definition: ConfigDef, props: Mapping[str, str | None]) -> ConfigDef:
    """`definition` with the settings of each topic creation group (§3.3); unchanged when the
    connector does not use topic creation. What a group leaves out it takes from `default`."""
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
    # Kafka never looks at the patterns of `default`: it takes what no other group does.
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
            doc="Regular expressions for the names of topics that do not belong to the group,"
            " although they are included.",
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
            doc="Replication of topics the group creates; -1 is the broker's default.",
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
            doc="Partitions of topics the group creates; -1 is the broker's default.",
        ),
    )
    return tuple(
        own.embedded(f"{TOPIC_CREATION_PREFIX}{group}.", f"{_TOPIC_CREATION_GROUP}: {group}")
    )


def _inherited(values: Mapping[str, object] | None, name: str) -> int | Required:
    if values is None:
        return Required.REQUIRED
    value = values.get(f"{TOPIC_CREATION_PREFIX}{DEFAULT_GROUP}.{name}")
    # An unusable default is reported on `default`, so -1 is only there to say nothing more.
    return value if isinstance(value, int) and (value == -1 or value > 0) else -1


def topic_group_settings(group: str, props: Mapping[str, str]) -> dict[str, str]:
    """The settings topics of the group are created with, beyond the four it declares."""
    prefix = f"{TOPIC_CREATION_PREFIX}{group}."
    declared = {key.name for key in topic_group_keys(group)}
    return under({n: value for n, value in props.items() if n not in declared}, prefix)


def null_value_problems(props: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """What is said about settings that were given as null (§1.8, step 4)."""
    text = "Null value can not be supplied as the configuration value."
    return [(name, text) for name, value in props.items() if value is None]


def exactly_once_problems(
    values: Sequence[ConfigValue], worker_enabled: bool, supported: bool | None
) -> list[tuple[str, str]]:
    """What stands against `exactly.once.support=required` (§3.3); nothing otherwise.

    `supported` is what the connector says of this configuration, None if it cannot say.
    """
    if _value(values, EXACTLY_ONCE_SUPPORT).lower() != "required":
        return []
    problems: list[str] = []
    if not worker_enabled:
        problems.append("This worker does not have exactly-once source support enabled.")
    if supported is None:
        problems.append(
            "The connector does not implement the API required for preflight validation of"
            " exactly-once source support. Please consult the documentation for the connector to"
            " determine whether it supports exactly-once semantics, and then consider reconfiguring"
            ' the connector to use the value "requested" for this property (which will disable this'
            " preflight check and allow the connector to be created)."
        )
    elif not supported:
        problems.append(
            "The connector does not support exactly-once semantics with the provided configuration."
        )
    return [(EXACTLY_ONCE_SUPPORT.name, text) for text in problems]


def transaction_boundary_problems(
    values: Sequence[ConfigValue], supported: bool
) -> list[tuple[str, str]]:
    """What stands against `transaction.boundary=connector` (§3.3); nothing otherwise."""
    if supported or _value(values, TRANSACTION_BOUNDARY).lower() != "connector":
        return []
    return [
        (
            TRANSACTION_BOUNDARY.name,
            "The connector does not support connector-defined transaction boundaries with the given"
            " configuration. Please reconfigure it to use a different transaction boundary"
            " definition.",
        )
    ]


def sink_group_problems(
    props: Mapping[str, str | None], worker_group: str
) -> list[tuple[str, str]]:
    """Clashes of a sink's consumer group with the workers' group (§1.8, distributed only)."""
    override = props.get(GROUP_OVERRIDE)
    if override is not None:
        if override != worker_group:
            return []
        text = f"Consumer group {override} conflicts with Connect worker group {worker_group}"
        return [(GROUP_OVERRIDE, text)]
    name = props.get(NAME.name)
    if name is None or consumer_group(name) != worker_group:
        return []
    text = (
        f"Consumer group for sink connector named {name}"
        f" conflicts with Connect worker group {worker_group}"
    )
    return [(NAME.name, text)]


GROUP_OVERRIDE: Final = "consumer.override.group.id"


def consumer_group(connector: str) -> str:
    """The consumer group of a sink connector that does not override it."""
    return f"connect-{connector}"


def _value(values: Sequence[ConfigValue], key: Key[Any]) -> str:
    return next((_text(value.value) for value in values if value.name == key.name), "")


POLICY_SUFFIX: Final = "ConnectorClientConfigOverridePolicy"
PRINCIPAL_KEYS: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


def override_problem(policy: str, allowlist: Collection[str], name: str) -> str | None:
    """What `connector.client.config.override.policy` has against a connector's setting `name`
    (without its `….override.` prefix); None if it may be set (§3.1).

    The policy goes by alias or class name. Raises KeyError for a policy that does not exist.
    """
    policy_name = policy.rpartition(".")[2].removesuffix(POLICY_SUFFIX)
    allowed: Collection[str] | None = {
        "All": None,
        "None": (),
        "Principal": PRINCIPAL_KEYS,
        "Allowlist": allowlist,
    }[policy_name]
    if allowed is None or name in allowed:
        return None
    return (
        f"The '{policy_name}' policy does not allow '{name}'"
        " to be overridden in the connector configuration."
    )


def check_overrides(
    policy: str, allowlist: Collection[str], overrides: Mapping[str, str | None]
) -> list[ConfigValue]:
    """A value per overridden client setting (prefix stripped), with the policy's error if any."""
    values: list[ConfigValue] = []
    for name, value in overrides.items():
        problem = override_problem(policy, allowlist, name)
        values.append(ConfigValue(name, value, (problem,) if problem else ()))
    return values

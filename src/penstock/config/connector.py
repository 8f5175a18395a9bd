"""The settings of all connectors, and the rules between them (kafka-connect.md §3).

The keys are in `connector_keys`. `SOURCE` and `SINK` are Kafka Connect 4.3.1's, in its order.
`enrich` adds the settings that others imply: those of each transformation and predicate.

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

from penstock.config.checks import all_of, version_range, version_range_problem
from penstock.config.connector_keys import (
    CONNECTOR_KEYS,
    DLQ_HEADERS,
    DLQ_REPLICATION,
    DLQ_TOPIC,
    EXACTLY_ONCE_SUPPORT,
    HEADER_CONVERTER,
    KEY_CONVERTER,
    NAME,
    OFFSETS_TOPIC,
    PREDICATES,
    TOPIC_CREATION_GROUPS,
    TOPICS,
    TOPICS_REGEX,
    TRANSACTION_BOUNDARY,
    TRANSACTION_INTERVAL,
    TRANSFORMS,
    VALUE_CONVERTER,
)
from penstock.config.declare import flag, text
from penstock.config.define import (
    CLASS,
    HIGH,
    STRING,
    Check,
    Choices,
    ConfigDef,
    ConfigValue,
    Key,
    Width,
    aliases,
    class_known_as,
    list_entries,
)
from penstock.config.regex import RegexInvalid, compile_java
from penstock.config.versions import mismatch


def sink_topic_problems(parsed: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Contradictions between `topics`, `topics.regex` and the dead letter topic.

    Source: kafka-connect.md §3.2.
    """
    topics = [topic for topic in list_entries(parsed.get(TOPICS.name)) if topic]
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
        return False  # the key's own check reports it


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
"""The settings of all sink connectors."""

SOURCE: Final = ConfigDef(
    *CONNECTOR_KEYS,
    TOPIC_CREATION_GROUPS,
    EXACTLY_ONCE_SUPPORT,
    TRANSACTION_BOUNDARY,
    TRANSACTION_INTERVAL,
    OFFSETS_TOPIC,
)
"""The settings of all source connectors."""


@dataclass(frozen=True, slots=True)
class PluginClasses:
    """The classes of one type of plugin that a configuration may name."""

    definitions: Mapping[str, ConfigDef]  # by full class name, in the order they are offered
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names, to full class names
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by full class name

    def resolve(self, name: str) -> str | None:
        """The full name of the class that `name` refers to."""
        return name if name in self.definitions else self.aliases.get(name)

    def variants(self, name: str) -> list[str]:
        """The nested classes of a base class: `Cast$Key` and `Cast$Value` of `Cast`."""
        return [known for known in self.definitions if known.startswith(f"{name}$")]


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins that `enrich` knows. None for a type: any name is valid, and classes have no
    settings."""

    transforms: PluginClasses | None = None
    predicates: PluginClasses | None = None
    converters: PluginClasses | None = None
    header_converters: PluginClasses | None = None


ANY_PLUGINS: Final = Plugins()

# fmt: off
_TRANSFORM_PREDICATE = text("predicate", None,
    "Name of the predicate that selects the records to transform; unset: all records.")
_TRANSFORM_NEGATE = flag("negate", False,
    "Whether to transform the records that do not match the predicate instead.")
# fmt: on


def enrich(
    definition: ConfigDef,
    props: Mapping[str, str | None],
    plugins: Plugins = ANY_PLUGINS,
    worker_defaults: Mapping[str, str] | None = None,
) -> ConfigDef:
    """`definition` with the settings of each transformation and predicate in `props`
    (kafka-connect.md §3.1); checks and recommends classes that `plugins` knows.

    `worker_defaults` are the converters of the worker and their versions, by setting; they are
    shown as the connector's defaults. Never raises: a duplicate alias counts once here, and a class
    that does not exist has no settings.
    """
    keys = [_with_plugins(key, plugins, worker_defaults or {}) for key in definition.keys]
    for alias in aliases(TRANSFORMS, props):
        keys += _transform_keys(alias, props, plugins.transforms)
    for alias in aliases(PREDICATES, props):
        keys += _plugin_keys(
            f"predicates.{alias}.",
            f"Predicates: {alias}",
            ("Predicate", alias),
            props,
            plugins.predicates,
        )
    # An alias may lead to two settings of the same name; the first one counts.
    unique = {key.name: key for key in reversed(keys)}
    return ConfigDef(*reversed(unique.values()), rules=definition.rules)


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
    """`negate` requires `predicate`: Kafka reports this on the type, without the usual prefix."""

    prefix: str
    negate: bool  # both: whether it is set
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
    """A class that can be instantiated, rather than a base class."""

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
    """A class of which no requested version is installed, except `allowed`."""

    text: str
    allowed: str | None = None

    def problem(self, name: str, value: Any) -> str | None:
        return self.text if value is None or value != self.allowed else None

    def __str__(self) -> str:
        return "an installed version"


def version_problem(class_name: str, wanted: str | None, available: Sequence[str]) -> str | None:
    """Why no installed version matches the requested one (kafka-connect.md §15.4); None if one
    does, or if the range is malformed, which its check reports."""
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
    class_name = (props.get(prefix + "type") or "").strip()
    kind = CLASS
    offered: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    definition: ConfigDef | None = ConfigDef()
    version, refused = props.get(prefix + "plugin.version"), None
    if classes is not None:
        resolved = classes.resolve(class_name)
        definition = classes.definitions.get(resolved) if resolved is not None else None
        kind = class_known_as(lambda name: classes.resolve(name) or _if_any(name, classes))
        offered = tuple(classes.definitions)
        versions = tuple(classes.versions.get(resolved or "", ()))
        concrete = _Concrete(classes)
        check = concrete if check is None else all_of(concrete, check)
        refused = version_problem(resolved or "", version, versions) if versions else None
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
            default=versions[0] if versions and version is not None else None,
            importance=HIGH,
            check=version_range() if refused is None else _Refused(refused, versions[0]),
            group=group,
            order=1,
            width=Width.LONG,
            display_name=f"{title[0]} version for {title[1]}",
            recommender=Choices(versions) if versions else None,
            doc="Version, or range of versions, of the plugin; unset uses the newest.",
        ),
    ]
    if definition is not None:
        shadowed = {key.name for key in own}
        theirs = (key for key in definition.keys if key.name not in shadowed)
        keys += ConfigDef(*own, *theirs).embedded(prefix, group, first_order=2)
    return keys


def _if_any(name: str, classes: PluginClasses) -> str | None:
    return name if classes.variants(name) else None


def null_value_problems(props: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """The problems of settings that are null (kafka-connect.md §1.8, step 4)."""
    text = "Null value can not be supplied as the configuration value."
    return [(name, text) for name, value in props.items() if value is None]


def exactly_once_problems(
    values: Sequence[ConfigValue], worker_enabled: bool, supported: bool | None
) -> list[tuple[str, str]]:
    """Why `exactly.once.support=required` cannot be met (kafka-connect.md §3.3), if it cannot.

    `supported` is the connector's answer for this configuration; None: unknown.
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
    """Why `transaction.boundary=connector` cannot be met (kafka-connect.md §3.3), if it cannot."""
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
    """The problem of a sink whose consumer group is the workers' group (kafka-connect.md §1.8).

    For distributed workers only.
    """
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
    """Why `connector.client.config.override.policy` forbids a connector's setting `name` (without
    its `….override.` prefix); None if it does not (kafka-connect.md §3.1).

    `policy` is an alias or a class name. Raises KeyError for a policy that does not exist.
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

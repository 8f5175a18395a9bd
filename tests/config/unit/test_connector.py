from __future__ import annotations

import pytest

from penstock.config import connector, connector_keys, topic_creation
from penstock.config.connector import SINK, SOURCE, PluginClasses, Plugins, enrich
from penstock.config.define import HIGH, INT, STRING, ConfigDef, ConfigValue, Key
from penstock.errors import ConfigInvalid

NAMED = {"name": "x", "connector.class": "c"}


def errors(definition: ConfigDef, props: dict[str, str | None]) -> dict[str, list[str]]:
    values = definition.validate({**NAMED, **props})
    return {value.name: list(value.errors) for value in values if value.errors}


BOTH = "topics and topics.regex are mutually exclusive options, but both are set."
NEITHER = "Must configure one of topics or topics.regex"
IN_LIST = (
    "The DLQ topic '{}' may not be included in the list of topics ('topics=[{}]')"
    " consumed by the connector"
)
IN_REGEX = (
    "The DLQ topic '{}' may not be matched by the regex for the topics ('topics.regex={}')"
    " consumed by the connector"
)
DLQ = "errors.deadletterqueue.topic.name"
TWICE = "Configuration 'topics' values must not be duplicated."

# Captured from SinkConnectorConfig.validate of Kafka Connect 4.2.0.
SINK_TOPICS: list[tuple[dict[str, str | None], dict[str, list[str]]]] = [
    ({}, {"topics": [NEITHER], "topics.regex": [NEITHER]}),
    ({"topics": "a", "topics.regex": "b"}, {"topics": [BOTH], "topics.regex": [BOTH]}),
    ({"topics": " "}, {"topics": [NEITHER], "topics.regex": [NEITHER]}),
    ({"topics": " , "}, {"topics": [TWICE]}),
    ({"topics": "a,b", DLQ: "b"}, {"topics": [IN_LIST.format("b", "a, b")]}),
    ({"topics.regex": "b.*", DLQ: "bx"}, {"topics.regex": [IN_REGEX.format("bx", "b.*")]}),
    ({"topics.regex": "b", DLQ: "bx"}, {}),
    ({"topics": "a", "topics.regex": ""}, {}),
    ({"topics": "a", DLQ: " "}, {}),
    ({"topics": "a,a ,b", DLQ: " b "}, {"topics": [TWICE, IN_LIST.format("b", "a, b")]}),
    (
        {"topics": "b", "topics.regex": "b.*", DLQ: "b"},
        {
            "topics": [BOTH, IN_LIST.format("b", "b")],
            "topics.regex": [BOTH, IN_REGEX.format("b", "b.*")],
        },
    ),
    ({"topics": "a,,b"}, {"topics": ["Configuration 'topics' values must not be empty."]}),
    (
        {"topics.regex": "[", DLQ: "d"},
        {
            "topics.regex": [
                "Invalid value [ for configuration topics.regex: Invalid regex:"
                " Unclosed character class near index 0\n[\n^"
            ]
        },
    ),
]


@pytest.mark.parametrize(("props", "expected"), SINK_TOPICS)
def test_a_sink_reads_topics_or_a_pattern_and_not_its_dead_letters(
    props: dict[str, str | None], expected: dict[str, list[str]]
) -> None:
    assert errors(SINK, props) == expected


# Captured from SourceConnectorConfig of Kafka Connect 4.2.0.
SOURCE_SETTINGS: list[tuple[dict[str, str | None], dict[str, list[str]]]] = [
    ({}, {}),
    (
        {"tasks.max": "abc"},
        {"tasks.max": ["abc: Not a number of type INT", "null: Value must be non-null"]},
    ),
    ({"tasks.max": None}, {"tasks.max": ["null: Value must be non-null"]}),
    ({"name": ""}, {"name": [": String may not be empty"]}),
    ({"transforms": "a,a"}, {"transforms": ["[a, a]: Duplicate alias provided."]}),
    ({"predicates": "p,p"}, {"predicates": ["[p, p]: Duplicate alias provided."]}),
    ({"transforms": None}, {"transforms": ["null: entry must be non null"]}),
    (
        {"topic.creation.groups": "g,g"},
        {"topic.creation.groups": ["[g, g]: Duplicate alias provided."]},
    ),
    (
        {"errors.tolerance": "ALL"},
        {"errors.tolerance": ["ALL: String must be one of: none, all"]},
    ),
    (
        {"config.action.reload": "x"},
        {"config.action.reload": ["x: String must be one of: none, restart"]},
    ),
    (
        {"exactly.once.support": "no"},
        {
            "exactly.once.support": [
                "no: String must be one of (case insensitive): REQUIRED, REQUESTED"
            ]
        },
    ),
    (
        {"transaction.boundary": "no"},
        {
            "transaction.boundary": [
                "no: String must be one of (case insensitive): INTERVAL, POLL, CONNECTOR"
            ]
        },
    ),
    ({"transaction.boundary": "Interval"}, {}),
    (
        {"transaction.boundary.interval.ms": "-1"},
        {"transaction.boundary.interval.ms": ["-1: Value must be at least 0"]},
    ),
    (
        {"transaction.boundary.interval.ms": "x"},
        {"transaction.boundary.interval.ms": ["x: Not a number of type LONG"]},
    ),
    ({"offsets.storage.topic": " "}, {"offsets.storage.topic": [": String must be non-empty"]}),
]


@pytest.mark.parametrize(("props", "expected"), SOURCE_SETTINGS)
def test_source_settings_are_refused_in_the_words_of_the_reference(
    props: dict[str, str | None], expected: dict[str, list[str]]
) -> None:
    full = {}
    for name, texts in expected.items():
        parts = [text.partition(": ") for text in texts]
        full[name] = [
            f"Invalid value {value} for configuration {name}: {text}" for value, _, text in parts
        ]
    assert errors(SOURCE, props) == full


ROUTER = ConfigDef(Key("regex", STRING, importance=HIGH), Key("size", INT, 1, HIGH))
SHADOWED = ConfigDef(Key("negate", INT, 7, HIGH), Key("spec", STRING, "", HIGH))
PLUGINS = Plugins(
    transforms=PluginClasses(
        {"t.Router": ROUTER, "t.Mask$Key": ConfigDef(), "t.Mask$Value": SHADOWED},
        {"Router": "t.Router"},
        {"t.Router": ("1.0", "2.0")},
    ),
    predicates=PluginClasses({"p.Matches": ConfigDef(Key("pattern", STRING))}),
    converters=PluginClasses({"c.Json": ConfigDef()}, {"Json": "c.Json"}),
    header_converters=PluginClasses({"c.Header": ConfigDef()}),
)


def added(props: dict[str, str | None], plugins: Plugins = PLUGINS) -> list[tuple[str, int]]:
    known = SINK.by_name()
    keys = enrich(SINK, {**NAMED, **props}, plugins).keys
    return [(key.name, key.order) for key in keys if key.name not in known]


def test_a_transformation_brings_its_settings_by_need_and_importance() -> None:
    assert added({"transforms": "a", "transforms.a.type": "Router"}) == [
        ("transforms.a.type", 0),
        ("transforms.a.plugin.version", 1),
        ("transforms.a.regex", 2),
        ("transforms.a.size", 3),
        ("transforms.a.negate", 4),
        ("transforms.a.predicate", 5),
    ]


def test_the_frameworks_negate_shadows_that_of_the_plugin() -> None:
    definition = enrich(
        SINK, {"transforms": "a", "transforms.a.type": "t.Mask$Value"}, PLUGINS
    ).by_name()
    assert definition["transforms.a.negate"].kind.name == "BOOLEAN"
    assert "transforms.a.spec" in definition


def test_a_predicate_brings_its_settings() -> None:
    assert added({"predicates": "p", "predicates.p.type": "p.Matches"}) == [
        ("predicates.p.type", 0),
        ("predicates.p.plugin.version", 1),
        ("predicates.p.pattern", 2),
    ]


def test_an_alias_that_is_listed_twice_is_described_once() -> None:
    names = [name for name, _ in added({"transforms": "a,a"})]
    assert names == ["transforms.a.type", "transforms.a.plugin.version"]


def test_without_plugins_only_the_frameworks_settings_are_known() -> None:
    assert [name for name, _ in added({"transforms": "a"}, Plugins())] == [
        "transforms.a.type",
        "transforms.a.plugin.version",
        "transforms.a.negate",
        "transforms.a.predicate",
    ]


def test_aliases_get_groups_of_their_own() -> None:
    definition = enrich(SINK, {"transforms": "a,b", "predicates": "p"})
    assert definition.groups() == [
        "Common",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Transforms: a",
        "Transforms: b",
        "Predicates: p",
    ]
    assert definition["transforms.a.type"].display_name == "Transformation type for a"
    assert definition["predicates.p.plugin.version"].display_name == "Predicate version for p"


NEGATE = (
    "Config 'transforms.a.negate' was provided but there is no config 'transforms.a.predicate'"
    " defining a predicate to be negated."
)
MISSING = 'Missing required configuration "{}" which has no default value.'
NO_CLASS = "Invalid value {1} for configuration {0}: Class {1} could not be found."

# In the words of ConnectorConfig.enrich of Kafka Connect 4.2.0.
ENRICHED: list[tuple[dict[str, str | None], dict[str, list[str]]]] = [
    ({"transforms": "a"}, {"transforms.a.type": [MISSING.format("transforms.a.type")]}),
    (
        {"transforms": "a", "transforms.a.type": "Nope"},
        {"transforms.a.type": [NO_CLASS.format("transforms.a.type", "Nope")]},
    ),
    (
        {"transforms": "a", "transforms.a.type": "Nope", "transforms.a.negate": "true"},
        {"transforms.a.type": [NO_CLASS.format("transforms.a.type", "Nope"), NEGATE]},
    ),
    (
        {"transforms": "a", "transforms.a.type": "t.Mask"},
        {
            "transforms.a.type": [
                "This class is abstract and cannot be created."
                " Did you mean t.Mask$Key, t.Mask$Value?"
            ]
        },
    ),
    (
        {"transforms": "a", "transforms.a.type": "Router"},
        {"transforms.a.regex": [MISSING.format("transforms.a.regex")]},
    ),
    (
        {
            "transforms": "a",
            "transforms.a.type": "t.Mask$Key",
            "transforms.a.predicate": "p",
            "transforms.a.negate": "maybe",
        },
        {
            "transforms.a.negate": [
                "Invalid value maybe for configuration transforms.a.negate:"
                " Expected value to be either true or false"
            ]
        },
    ),
    (
        {
            "transforms": "a",
            "transforms.a.type": "t.Mask$Key",
            "transforms.a.plugin.version": "[1.2",
        },
        {"transforms.a.plugin.version": ["Unbounded range: [1.2"]},
    ),
    ({"predicates": "p"}, {"predicates.p.type": [MISSING.format("predicates.p.type")]}),
    (
        {"predicates": "p", "predicates.p.type": "Router"},
        {"predicates.p.type": [NO_CLASS.format("predicates.p.type", "Router")]},
    ),
    ({"key.converter": "Nope"}, {"key.converter": [NO_CLASS.format("key.converter", "Nope")]}),
    ({"key.converter": "Json", "header.converter": "c.Header"}, {}),
    ({"connector.plugin.version": "[1"}, {"connector.plugin.version": ["Unbounded range: [1"]}),
]


@pytest.mark.parametrize(("props", "expected"), ENRICHED)
def test_settings_that_an_alias_needs_are_checked(
    props: dict[str, str | None], expected: dict[str, list[str]]
) -> None:
    props = {"topics": "t", **props}
    assert errors(enrich(SINK, {**NAMED, **props}, PLUGINS), props) == expected


def test_installed_classes_and_versions_are_offered() -> None:
    props = {**NAMED, "transforms": "a", "transforms.a.type": "Router", "key.converter": "Json"}
    values = {value.name: value for value in enrich(SINK, props, PLUGINS).validate(props)}
    assert values["transforms.a.type"].value == "t.Router"
    assert values["transforms.a.type"].recommended == ("t.Router", "t.Mask$Key", "t.Mask$Value")
    assert values["transforms.a.plugin.version"].recommended == ("1.0", "2.0")
    assert values["key.converter"].value == "c.Json"
    assert values["key.converter"].recommended == ("c.Json",)


def test_the_workers_converters_are_shown_as_defaults() -> None:
    definition = enrich(SINK, {}, PLUGINS, {"key.converter": "c.Json"})
    assert definition["key.converter"].default == "c.Json"
    assert definition["value.converter"].default is None


def test_topic_creation_adds_nothing_unless_it_is_used() -> None:
    assert topic_creation.with_topic_creation(SOURCE, NAMED) is SOURCE


def test_topic_creation_needs_the_default_group() -> None:
    props: dict[str, str | None] = {"topic.creation.groups": "g"}
    assert errors(topic_creation.with_topic_creation(SOURCE, props), props) == {
        name: [MISSING.format(name)]
        for name in (
            "topic.creation.default.replication.factor",
            "topic.creation.default.partitions",
        )
    }


def test_a_topic_group_inherits_partitions_and_replication() -> None:
    props = {
        **NAMED,
        "topic.creation.groups": "g,default,h",
        "topic.creation.default.partitions": "4",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.h.partitions": "8",
        "topic.creation.h.include": "h-.*, x",
        "topic.creation.h.cleanup.policy": "compact",
    }
    assert topic_creation.topic_creation_groups(props) == ["g", "h", "default"]
    config = topic_creation.with_topic_creation(SOURCE, props).parse(props)
    g_include, _, g_replication, g_partitions = topic_creation.topic_group_keys("g")
    h_include, _, _, h_partitions = topic_creation.topic_group_keys("h")
    assert (config[g_include], config[g_replication], config[g_partitions]) == ((), -1, 4)
    assert (config[h_include], config[h_partitions]) == (("h-.*", "x"), 8)
    assert topic_creation.topic_group_settings("h", props) == {"cleanup.policy": "compact"}


def test_settings_of_topic_groups_are_checked() -> None:
    props: dict[str, str | None] = {
        "topic.creation.groups": "g",
        "topic.creation.default.partitions": "0",
        "topic.creation.default.replication.factor": "-2",
        "topic.creation.g.include": "a,[",
    }
    found = errors(topic_creation.with_topic_creation(SOURCE, props), props)
    default = "topic.creation.default."
    assert found == {
        f"{default}partitions": [
            "Invalid value 0 for configuration partitions:"
            " Number of partitions must be positive, or -1 to use the broker's default"
        ],
        f"{default}replication.factor": [
            "Invalid value -2 for configuration replication.factor:"
            " Replication factor must be positive and not larger than the number of brokers in the"
            " Kafka cluster, or -1 to use the broker's default"
        ],
        "topic.creation.g.include": [
            "Invalid value [a, [] for configuration include: Syntax error in"
            " regular expression: Unclosed character class near index 0\n[\n^"
        ],
    }


def test_nulls_are_reported_wherever_they_are() -> None:
    text = "Null value can not be supplied as the configuration value."
    assert connector.null_value_problems({"a": "1", "b": None}) == [("b", text)]


REQUIRED = [ConfigValue("exactly.once.support", "Required")]
REQUESTED = [ConfigValue("exactly.once.support", "requested")]


@pytest.mark.parametrize(
    ("values", "enabled", "supported", "starts"),
    [
        (REQUESTED, False, None, []),
        (REQUIRED, True, True, []),
        (REQUIRED, False, True, ["This worker does not have exactly-once"]),
        (REQUIRED, True, False, ["The connector does not support exactly-once semantics"]),
        (
            REQUIRED,
            False,
            None,
            [
                "This worker does not have exactly-once",
                "The connector does not implement the API required for preflight validation of"
                " exactly-once source support.",
            ],
        ),
    ],
)
def test_exactly_once_can_be_insisted_on(
    values: list[ConfigValue], enabled: bool, supported: bool | None, starts: list[str]
) -> None:
    found = connector.exactly_once_problems(values, enabled, supported)
    assert len(found) == len(starts)
    for (name, text), start in zip(found, starts, strict=True):
        assert name == "exactly.once.support"
        assert text.startswith(start)


def test_connector_boundaries_need_a_connector_that_has_them() -> None:
    values = [ConfigValue("transaction.boundary", "CONNECTOR")]
    assert connector.transaction_boundary_problems(values, supported=True) == []
    [(name, text)] = connector.transaction_boundary_problems(values, supported=False)
    assert name == "transaction.boundary"
    assert text.startswith("The connector does not support connector-defined transaction")
    assert connector.transaction_boundary_problems([], supported=False) == []


@pytest.mark.parametrize(
    ("props", "problems"),
    [
        ({"name": "a"}, []),
        (
            {"name": "workers"},
            [
                (
                    "name",
                    "Consumer group for sink connector named workers conflicts with Connect worker"
                    " group connect-workers",
                )
            ],
        ),
        ({"name": "workers", "consumer.override.group.id": "other"}, []),
        (
            {"name": "a", "consumer.override.group.id": "connect-workers"},
            [
                (
                    "consumer.override.group.id",
                    "Consumer group connect-workers conflicts with Connect worker group"
                    " connect-workers",
                )
            ],
        ),
    ],
)
def test_a_sink_does_not_share_the_workers_group(
    props: dict[str, str], problems: list[tuple[str, str]]
) -> None:
    assert connector.sink_group_problems(props, "connect-workers") == problems


POLICY = "The '{}' policy does not allow '{}' to be overridden in the connector configuration."


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("All", []),
        ("None", ["sasl.mechanism", "linger.ms"]),
        ("Principal", ["linger.ms"]),
        ("Allowlist", ["sasl.mechanism"]),
        (
            "org.apache.kafka.connect.connector.policy."
            "PrincipalConnectorClientConfigOverridePolicy",
            ["linger.ms"],
        ),
    ],
)
def test_a_policy_decides_which_client_settings_a_connector_may_change(
    policy: str, refused: list[str]
) -> None:
    overrides = {"sasl.mechanism": "PLAIN", "linger.ms": "5"}
    values = connector.check_overrides(policy, ["linger.ms"], overrides)
    assert [value.name for value in values] == list(overrides)
    assert [value.name for value in values if value.errors] == refused
    short = policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    for value in values:
        assert value.errors in ((), (POLICY.format(short, value.name),))


def test_an_unknown_policy_is_not_a_policy() -> None:
    with pytest.raises(KeyError):
        connector.override_problem("Sometimes", (), "linger.ms")


def test_a_connector_parses_into_typed_values() -> None:
    config = SINK.parse({**NAMED, "topics": "a,b", "tasks.max": "3"})
    assert config[connector_keys.TOPICS] == ("a", "b")
    assert config[connector_keys.TASKS_MAX] + 1 == 4
    with pytest.raises(ConfigInvalid):
        SINK.parse(NAMED)

"""What a connector's configuration becomes: errors, task configurations, plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from penstock.api import (
    Failed,
    Plugin,
    Predicate,
    Props,
    SinkConnector,
    SinkContext,
    SinkWriter,
    Transform,
)
from penstock.cluster.recovery import NO_RESTARTS, Causes, RestartPolicy
from penstock.config.define import HIGH, Config, ConfigDef, Key
from penstock.config.define import STRING as STRING_KIND
from penstock.config.worker import parse_distributed
from penstock.connectors.file import FileStreamSink, FileStreamSource
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.json import JsonConverter
from penstock.convert.raw import ByteArrayConverter
from penstock.convert.text import StringConverter
from penstock.data.records import Records
from penstock.errors import ConfigInvalid
from penstock.flow.plan import Boundary, SinkPlan, SourcePlan, Tolerance, TopicGroup, Transactions
from penstock.ids import TaskId
from penstock.plugins.registry import Registry, UnknownConnectorClass
from penstock.runtime.planning import Planner, TooManyTasks
from penstock.runtime.validation import NoConnectorType

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"

WORKER = {
    "bootstrap.servers": "broker:9092",
    "group.id": "workers",
    "key.converter": STRING,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


class Greedy(SinkConnector):
    """Plans more tasks than it may."""

    plugin = Plugin("test.Greedy", "1", ConfigDef())

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [{"task": str(number)} for number in range(max_tasks + 1)]

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        raise NotImplementedError


TAG = Key("with", STRING_KIND, importance=HIGH, doc="What to tag with.")


class Tag(Transform):
    """Needs a setting."""

    plugin = Plugin("test.Tag", "1", ConfigDef(TAG))

    def apply(self, records: Records, failed: Failed) -> Records:
        return records


class Every(Predicate):
    """Holds for all."""

    plugin = Plugin("test.Every", "1", ConfigDef())

    def test(self, records: Records, failed: Failed) -> Sequence[bool]:
        return [True] * len(records)


REGISTRY = Registry(
    [
        FileStreamSource,
        FileStreamSink,
        Greedy,
        JsonConverter,
        StringConverter,
        ByteArrayConverter,
        SimpleHeaderConverter,
        Tag,
        Every,
    ]
)

SOURCE = {"name": "src", "connector.class": "FileStreamSource", "file": "/in", "topic": "lines"}
SINK = {"name": "snk", "connector.class": "FileStreamSink", "file": "/out", "topics": "lines,more"}


def planner(**worker: str) -> Planner:
    """A planner for a worker with further settings; in their names an underscore is a dot."""
    return planner_with({name.replace("_", "."): text for name, text in worker.items()})


def planner_with(settings: Mapping[str, str]) -> Planner:
    return Planner(parse_distributed({**WORKER, **settings}), REGISTRY)


def errors(props: Mapping[str, str | None], planner: Planner | None = None) -> dict[str, list[str]]:
    infos: dict[str, Any] = (planner or PLANNER).validate(props)
    found = {
        row["value"]["name"]: row["value"]["errors"]
        for row in infos["configs"]
        if row["value"]["errors"]
    }
    assert infos["error_count"] == sum(map(bool, found.values()))
    return found


def source_plan(props: Mapping[str, str], planner: Planner | None = None) -> SourcePlan:
    plan = (planner or PLANNER).flow(TaskId("src", 0), 1, props, props)
    assert isinstance(plan, SourcePlan)
    return plan


def sink_plan(props: Mapping[str, str], planner: Planner | None = None) -> SinkPlan:
    plan = (planner or PLANNER).flow(TaskId("snk", 0), 1, props, props)
    assert isinstance(plan, SinkPlan)
    return plan


PLANNER = planner()

VALIDATED: list[tuple[dict[str, str | None], list[str]]] = [
    ({**SOURCE}, []),
    ({**SINK}, []),
    ({"name": "src", "connector.class": "FileStreamSource"}, ["topic"]),
    ({**SOURCE, "topic": ""}, ["topic"]),
    ({**SOURCE, "batch.size": "many"}, ["batch.size"]),
    ({**SOURCE, "tasks.max": "0"}, ["tasks.max"]),
    ({**SOURCE, "value.converter": "Nonsense"}, ["value.converter"]),
    (
        {**SOURCE, "value.converter": JSON, "value.converter.schemas.cache.size": "x"},
        ["value.converter.schemas.cache.size"],
    ),
    ({**SOURCE, "exactly.once.support": "required"}, ["exactly.once.support"]),
    ({**SOURCE, "transaction.boundary": "connector"}, ["transaction.boundary"]),
    ({**SINK, "errors.deadletterqueue.topic.name": "dead"}, []),
    (
        {**SINK, "errors.deadletterqueue.topic.name": "more"},
        ["topics"],
    ),
    ({**SOURCE, "transforms": "a"}, ["transforms.a.type"]),
    ({**SOURCE, "transforms": "a", "transforms.a.type": "test.Nothing"}, ["transforms.a.type"]),
    ({**SOURCE, "transforms": "a", "transforms.a.type": "Tag"}, ["transforms.a.with"]),
    (
        {**SOURCE, "transforms": "a", "transforms.a.type": "Tag", "transforms.a.with": "x"},
        [],
    ),
]


@pytest.mark.parametrize(("props", "blamed"), VALIDATED)
def test_validation_blames_the_settings_that_are_wrong(
    props: dict[str, str | None], blamed: list[str]
) -> None:
    assert sorted(errors(props)) == blamed


def test_a_sink_may_not_share_the_workers_group() -> None:
    found = errors({**SINK, "consumer.override.group.id": "workers"})
    assert any("workers" in text for texts in found.values() for text in texts), found


def test_a_configuration_without_a_connector_class_is_refused() -> None:
    with pytest.raises(NoConnectorType) as refused:
        PLANNER.validate({"name": "x", "tasks.max": "1"})
    assert str(refused.value) == (
        "Connector config {name=x, tasks.max=1} contains no connector type"
    )


def test_a_configuration_of_an_unknown_class_is_refused() -> None:
    with pytest.raises(UnknownConnectorClass, match="which name matches Nonsense, available"):
        PLANNER.validate({"connector.class": "Nonsense"})


def test_overrides_are_allowed_by_default_and_blamed_under_policy_none() -> None:
    props = {**SOURCE, "producer.override.linger.ms": "5"}
    assert errors(props) == {}
    none = planner(connector_client_config_override_policy="None")
    assert list(errors(props, none)) == ["producer.override.linger.ms"]


@pytest.mark.parametrize(
    ("key", "version", "given"),
    [
        ("connector.class", "connector.plugin.version", {}),
        ("key.converter", "key.converter.plugin.version", {"key.converter": JSON}),
        ("header.converter", "header.converter.plugin.version", {"header.converter": JSON}),
        (
            "transforms.t.type",
            "transforms.t.plugin.version",
            {"transforms": "t", "transforms.t.type": "test.Tag", "transforms.t.with": "x"},
        ),
        (
            "predicates.p.type",
            "predicates.p.plugin.version",
            {"predicates": "p", "predicates.p.type": "test.Every"},
        ),
    ],
)
def test_a_missing_version_of_a_plugin_is_refused(
    key: str, version: str, given: dict[str, str]
) -> None:
    for there in ("latest", "[0,1000)", "(,1000]"):
        props = {**SOURCE, **given, version: there}
        assert errors(props) == {}
        PLANNER.planned("src", props)
        source_plan(props)
    props = {**SOURCE, **given, version: "[1000,)"}
    found = errors(props)
    assert found.keys() == {key, version}
    assert found[key] == found[version]
    assert (
        "not found that matches the version range [1000,), available versions: [" in found[key][0]
    )
    for start in (lambda: PLANNER.planned("src", props), lambda: source_plan(props)):
        with pytest.raises(ConfigInvalid, match="not found that matches the version range"):
            start()


def test_the_version_of_a_converter_counts_for_who_names_the_converter() -> None:
    assert errors({**SOURCE, "key.converter.plugin.version": "1000"}) == {}


def test_every_converter_of_the_worker_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigInvalid) as refused:
        planner(key_converter="Nonsense", value_converter="More")
    key, value = refused.value.problems
    assert key.startswith("Invalid value Nonsense for configuration key.converter: ")
    assert "Installed converters are: " in key
    assert JSON in key
    assert value.startswith("Invalid value More for configuration value.converter: ")


def test_a_missing_version_of_the_workers_converter_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match=r"range \[9,9\], available versions: \[4\.3\.1, 4"):
        planner(key_converter_plugin_version="9")


def test_a_wrong_setting_of_the_workers_converter_is_named() -> None:
    with pytest.raises(ConfigInvalid, match=r"value\.converter: .*schemas\.enable"):
        planner(value_converter_schemas_enable="perhaps")


def test_task_configs_add_the_task_class() -> None:
    task_class = "org.apache.kafka.connect.file.FileStreamSourceTask"
    assert PLANNER.planned("src", {**SOURCE, "tasks.max": "3"}).configs == [
        {**SOURCE, "tasks.max": "3", "task.class": task_class}
    ]


def test_task_configs_of_a_sink_add_what_it_reads() -> None:
    task_class = "org.apache.kafka.connect.file.FileStreamSinkTask"
    found = PLANNER.planned("snk", {**SINK, "tasks.max": "2"}).configs
    assert found == [{**SINK, "tasks.max": "2", "task.class": task_class}] * 2


def test_more_tasks_than_tasks_max_are_refused() -> None:
    props = {"name": "g", "connector.class": "Greedy", "topics": "t", "tasks.max": "2"}
    with pytest.raises(TooManyTasks) as refused:
        PLANNER.planned("g", props)
    assert str(refused.value).startswith(
        "The connector g has generated 3 tasks, which is greater than 2, the maximum number of "
        "tasks it is configured to create."
    )


def test_more_tasks_than_tasks_max_are_allowed_when_that_is_not_enforced() -> None:
    props = {"name": "g", "connector.class": "Greedy", "topics": "t", "tasks.max.enforce": "false"}
    assert PLANNER.planned("g", props).configs == [
        {"task": number, "task.class": "test.Greedy", "topics": "t"} for number in "01"
    ]


INHERITED: list[tuple[dict[str, str], dict[str, str], type, bool]] = [
    # worker's sub-keys, connector's settings, the converter, and its schemas.enable
    ({"schemas.enable": "false"}, {}, JsonConverter, False),
    # Whoever names the class configures it: the worker's sub-keys are not mixed in …
    ({"schemas.enable": "false"}, {"value.converter": JSON}, JsonConverter, True),
    (
        {"schemas.enable": "true"},
        {"value.converter": JSON, "value.converter.schemas.enable": "false"},
        JsonConverter,
        False,
    ),
    # … nor are a connector's sub-keys without its class.
    ({"schemas.enable": "false"}, {"value.converter.schemas.enable": "true"}, JsonConverter, False),
]


@pytest.mark.parametrize(("worker", "connector", "kind", "schemas"), INHERITED)
def test_whoever_names_the_converter_configures_it(
    worker: dict[str, str], connector: dict[str, str], kind: type, schemas: bool
) -> None:
    more = {f"value_converter_{name.replace('.', '_')}": text for name, text in worker.items()}
    plan = source_plan({**SOURCE, **connector}, planner(**more))
    assert plan.conversion.value.plugin.load() is kind
    [key] = [key for key in kind.plugin.config.keys if key.name == "schemas.enable"]  # type: ignore[attr-defined]
    assert plan.conversion.value.config[key] is schemas
    assert plan.conversion.key.plugin.load() is StringConverter


def test_a_converter_may_be_named_by_its_alias() -> None:
    plan = source_plan({**SOURCE, "key.converter": " ByteArrayConverter "})
    assert plan.conversion.key.plugin.load() is ByteArrayConverter


def test_a_producer_keeps_what_it_sends_in_order_and_waits_for_all_copies() -> None:
    producer = source_plan(SOURCE).producer
    assert producer["bootstrap.servers"] == "broker:9092"
    assert producer["acks"] == "all"
    assert producer["enable.idempotence"] is True
    assert producer["delivery.timeout.ms"] == 2147483647
    assert producer["client.id"] == "connector-producer-src-0"


def test_the_connectors_producer_settings_win_over_the_workers() -> None:
    worker = planner(producer_linger_ms="50", producer_compression_type="lz4")
    producer = source_plan({**SOURCE, "producer.override.linger.ms": "7"}, worker).producer
    assert (producer["linger.ms"], producer["compression.type"]) == (7, "lz4")


def test_a_producer_that_does_not_wait_is_not_idempotent() -> None:
    for name, text in (
        ("acks", "1"),
        ("retries", "0"),
        ("enable.idempotence", "false"),
    ):
        producer = source_plan({**SOURCE, f"producer.override.{name}": text}).producer
        assert producer["enable.idempotence"] is False
        # Or a retried batch could follow later ones.
        assert producer["max.in.flight.requests.per.connection"] == 1
    many = {"producer.override.max.in.flight.requests.per.connection": "9"}
    producer = source_plan({**SOURCE, **many}).producer
    assert producer["enable.idempotence"] is False
    assert producer["max.in.flight.requests.per.connection"] == 9


def test_a_sink_consumes_in_the_group_of_its_connector() -> None:
    plan = sink_plan(SINK)
    assert plan.topics == ("lines", "more")
    assert plan.consumer["group.id"] == "connect-snk"
    assert plan.consumer["client.id"] == "connector-consumer-snk-0"
    assert plan.consumer["auto.offset.reset"] == "earliest"
    assert plan.consumer["partition.assignment.strategy"].endswith(".CooperativeStickyAssignor")
    assert "heartbeat.interval.ms" not in plan.consumer
    shared = sink_plan({**SINK, "tasks.max": "2"})
    assert shared.consumer["heartbeat.interval.ms"] == "500"


def test_the_connectors_consumer_settings_reach_the_tasks_consumer() -> None:
    worker = planner(consumer_max_partition_fetch_bytes="1000", consumer_isolation_level="x")
    props = {
        **SINK,
        "consumer.override.group.id": "mine",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.max.poll.records": "9",
        "consumer.override.heartbeat.interval.ms": "2000",
        "consumer.override.enable.auto.commit": "true",
    }
    plan = sink_plan(props, worker)
    assert plan.consumer["group.id"] == "mine"
    assert plan.consumer["heartbeat.interval.ms"] == "2000"
    assert plan.consumer["isolation.level"] == "read_committed"
    assert plan.consumer["max.partition.fetch.bytes"] == "1000"
    assert plan.consumer["max.poll.records"] == "9"
    assert "enable.auto.commit" not in plan.consumer


def test_a_sink_may_read_a_pattern() -> None:
    props = {name: text for name, text in SINK.items() if name != "topics"}
    plan = sink_plan({**props, "topics.regex": "a.*"})
    assert (plan.topics, plan.topics_regex) == ((), "a.*")
    assert plan.consumer["metadata.max.age.ms"] == "5000"


def test_tolerance_is_none_unless_told_otherwise() -> None:
    assert source_plan(SOURCE).tolerance == Tolerance()
    props = {**SOURCE, "errors.tolerance": "all", "errors.log.enable": "true"}
    assert source_plan(props).tolerance == Tolerance(tolerate_all=True, log=True)


CHAIN = {
    "transforms": "a, b",
    "transforms.a.type": "test.Tag",
    "transforms.a.with": "x",
    "transforms.b.type": "Tag",
    "transforms.b.with": "y",
    "transforms.b.predicate": "p",
    "transforms.b.negate": "true",
    "predicates": "p",
    "predicates.p.type": "test.Every",
}


def test_transforms_form_a_chain_in_the_order_of_their_aliases() -> None:
    chain = sink_plan({**SINK, **CHAIN}).conversion.transforms
    assert [(each.alias, each.plugin.load(), each.config[TAG], each.negate) for each in chain] == [
        ("a", Tag, "x", False),
        ("b", Tag, "y", True),
    ]
    assert chain[0].predicate is None
    assert chain[1].predicate is not None
    assert chain[1].predicate.plugin.load() is Every
    assert "a (Tag), b (Tag if not Every)" in sink_plan({**SINK, **CHAIN}).describe()


def test_headers_have_the_workers_converter_unless_the_connector_has_its_own() -> None:
    assert sink_plan(SINK).conversion.header.plugin.load() is SimpleHeaderConverter
    own = {**SINK, "header.converter": STRING, "header.converter.converter.encoding": "UTF-16"}
    plan = sink_plan(own).conversion.header
    assert (plan.plugin.load(), plan.config.props["converter.type"]) == (StringConverter, "header")
    assert plan.config.props["converter.encoding"] == "UTF-16"
    with_json = sink_plan(SINK, planner(header_converter=JSON))
    assert with_json.conversion.header.plugin.load() is JsonConverter


DEAD = {
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
    "errors.retry.timeout": "-1",
    "errors.retry.delay.max.ms": "1000",
}


def test_failed_records_of_sinks_and_of_sources_go_to_the_dead_letter_topic() -> None:
    for plan in (sink_plan({**SINK, **DEAD}), source_plan({**SOURCE, **DEAD})):
        letters = plan.tolerance.dead_letters
        assert letters is not None
        assert (letters.topic, letters.replication, letters.context_headers) == ("dead", 1, True)
        assert letters.producer["client.id"] == f"connector-dlq-producer-{plan.task}"
        assert "enable.idempotence" not in letters.producer
        assert letters.admin["bootstrap.servers"] == "broker:9092"
        assert (plan.tolerance.retry_timeout_ms, plan.tolerance.retry_delay_max_ms) == (-1, 1000)


def test_on_a_worker_with_exactly_once_records_go_in_transactions() -> None:
    exact = planner(exactly_once_source_support="ENABLED", offset_flush_interval_ms="7000")
    plan = source_plan({**SOURCE, "producer.override.enable.idempotence": "false"}, exact)
    assert plan.transactions == Transactions(Boundary.POLL, 7000, "o")
    assert plan.producer["transactional.id"] == "workers-src-0"
    assert plan.producer["enable.idempotence"] is True
    assert plan.producer["delivery.timeout.ms"] == 60_000  # not longer than a transaction
    own = {
        **SOURCE,
        "transaction.boundary": "INTERVAL",
        "transaction.boundary.interval.ms": "5",
        "offsets.storage.topic": "mine",
        "producer.override.transaction.timeout.ms": "9000",
        "exactly.once.support": "required",
    }
    assert errors(own, exact) == {}
    plan = source_plan(own, exact)
    assert plan.transactions == Transactions(Boundary.INTERVAL, 5, "mine")
    assert plan.producer["socket.timeout.ms"] == 9000
    assert (
        source_plan(SOURCE, planner(exactly_once_source_support="preparing")).transactions is None
    )


CREATION = {
    "topic.creation.default.partitions": "4",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.retention.ms": "1000",
    "topic.creation.groups": "small",
    "topic.creation.small.include": "s-.*,t",
    "topic.creation.small.exclude": "s-x",
    "topic.creation.small.partitions": "1",
}


def test_topics_are_made_by_groups_in_order_the_default_last() -> None:
    assert source_plan({**SOURCE, **CREATION}).topic_groups == (
        TopicGroup(("s-.*", "t"), ("s-x",), 1, 1, {}),
        TopicGroup((".*",), (), 4, 1, {"retention.ms": "1000"}),
    )


def test_without_creation_settings_topics_are_the_brokers_business() -> None:
    assert source_plan(SOURCE).topic_groups == ()
    off = planner(topic_creation_enable="false")
    assert source_plan({**SOURCE, **CREATION}, off).topic_groups == ()


def test_a_plan_can_be_printed_without_its_secrets() -> None:
    login = 'org.example.PlainLoginModule required username="me" password="hunter2";'
    secrets = planner(producer_sasl_jaas_config=login, consumer_sasl_jaas_config=login)
    for plan in (source_plan(SOURCE, secrets), sink_plan(SINK, secrets)):
        printed = repr(plan) + plan.describe()
        assert "hunter2" not in printed
        assert "broker:9092" in plan.describe() or "lines, more" in plan.describe()


def test_a_connectors_restart_settings_go_before_its_workers() -> None:
    own = planner_with({"penstock.restart.attempts": "7", "penstock.restart.backoff.ms": "10"})
    assert own.restarts({"penstock.restart.backoff.ms": "20"}) == RestartPolicy(
        Causes.RETRIABLE, attempts=7, backoff_ms=20
    )
    assert own.restarts({"penstock.restart.policy": "OFF"}).causes is Causes.OFF


def test_restart_settings_that_cannot_be_read_restart_nothing() -> None:
    assert PLANNER.restarts({"penstock.restart.attempts": "many"}) == NO_RESTARTS


def test_a_validation_speaks_of_restart_settings_that_are_set() -> None:
    props = {"name": "s", "connector.class": "FileStreamSource", "topic": "t"}
    plain = PLANNER.validate(props)
    assert not [info for info in plain["configs"] if "restart" in info["definition"]["name"]]
    given = PLANNER.validate({**props, "penstock.restart.policy": "never"})
    assert given["groups"][-1] == "Automatic Restart"
    assert given["configs"][-1]["value"]["errors"] == [
        "Invalid value never for configuration penstock.restart.policy: "
        "String must be one of (case insensitive): off, retriable, any"
    ]
    assert given["error_count"] == plain["error_count"] + 1


def test_a_worker_with_unusable_restart_settings_does_not_start() -> None:
    with pytest.raises(ConfigInvalid, match=r"penstock\.restart\.window\.ms"):
        planner_with({"penstock.restart.window.ms": "0"})


BOTH = (FileStreamSource, FileStreamSink)


class Watching(FileStreamSource):
    """Requests to be planned again."""

    plugin = replace(FileStreamSource.plugin, class_name="test.Watching")

    def replan_ms(self, config: Config) -> int | None:
        return 1_500


def test_a_source_says_when_it_wants_to_be_asked_again() -> None:
    own = Planner(
        parse_distributed(WORKER),
        Registry([JsonConverter, StringConverter, SimpleHeaderConverter, *BOTH, Watching]),
    )
    config = {"name": "s", "topic": "t"}
    assert own.planned("s", {**config, "connector.class": "test.Watching"}).again_ms == 1_500
    assert own.planned("s", {**config, "connector.class": "FileStreamSource"}).again_ms is None
    sink = {"name": "s", "topics": "t", "connector.class": "FileStreamSink"}
    assert own.planned("s", sink).again_ms is None

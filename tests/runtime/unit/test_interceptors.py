"""Which interceptors a task has, and which names are refused."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from penstock.api import ConsumerInterceptor, Extra, Plugin
from penstock.config.define import ConfigDef
from penstock.config.worker import from_environment, parse_distributed
from penstock.errors import ConfigInvalid
from penstock.flow.plan import SinkPlan, SourcePlan
from penstock.ids import TaskId
from penstock.interceptors.monitoring import MonitoringConsumer, MonitoringProducer
from penstock.interceptors.tracing import ENDPOINT, TRACING, TracingConsumer, TracingProducer
from penstock.plugins.registry import Registry
from penstock.rest.model import plugin_infos
from penstock.runtime.planning import Planner
from tests.places import ROOT

from .test_planning import REGISTRY, SINK, SOURCE, WORKER

OURS = (MonitoringProducer, MonitoringConsumer, TracingProducer, TracingConsumer)


class Lacking(ConsumerInterceptor):
    """Its packages are not installed."""

    plugin = Plugin(
        "test.Lacking", "1", ConfigDef(), extra=Extra("x", "Watchers", ("no_such_package",))
    )


PLUGINS = Registry([*REGISTRY.found, *OURS, Lacking])
CONFLUENT = "io.confluent.monitoring.clients.interceptor."
PRODUCER, CONSUMER = "producer.interceptor.classes", "consumer.interceptor.classes"
OF_SOURCE, OF_SINK = (
    "producer.override.interceptor.classes",
    "consumer.override.interceptor.classes",
)


def planner(**worker: str) -> Planner:
    return Planner(parse_distributed({**WORKER, **worker}), PLUGINS)


def source(worker: dict[str, str], **props: str) -> SourcePlan:
    given = {**SOURCE, **props}
    plan = planner(**worker).flow(TaskId("src", 0), 1, given, given)
    assert isinstance(plan, SourcePlan)
    return plan


def sink(worker: dict[str, str], **props: str) -> SinkPlan:
    given = {**SINK, **props}
    plan = planner(**worker).flow(TaskId("snk", 0), 1, given, given)
    assert isinstance(plan, SinkPlan)
    return plan


def kinds(plan: SourcePlan | SinkPlan) -> list[type]:
    return [each.plugin.load() for each in plan.interceptors]


def errors(worker: dict[str, str], props: dict[str, str]) -> dict[str, list[str]]:
    infos: Any = planner(**worker).validate(props)
    rows = [row["value"] for row in infos["configs"]]
    return {row["name"]: row["errors"] for row in rows if row["errors"]}


def test_a_task_has_none_by_default() -> None:
    assert kinds(source({})) == kinds(sink({})) == []


def test_the_workers_are_every_tasks() -> None:
    worker = {
        PRODUCER: f"{CONFLUENT}MonitoringProducerInterceptor",
        CONSUMER: f"{CONFLUENT}MonitoringConsumerInterceptor",
    }
    assert kinds(source(worker)) == [MonitoringProducer]
    assert kinds(sink(worker)) == [MonitoringConsumer]
    assert "; intercept MonitoringProducer\n" in source(worker).describe()
    assert "interceptor.classes" not in sink(worker).consumer


def test_variables_of_the_container_images_name_them() -> None:
    name = f"{CONFLUENT}MonitoringProducerInterceptor"
    assert from_environment({"CONNECT_PRODUCER_INTERCEPTOR_CLASSES": name}) == {PRODUCER: name}
    assert from_environment({"CONNECT_CONSUMER_INTERCEPTOR_CLASSES": name}) == {CONSUMER: name}


def test_a_connectors_take_their_place_in_order_with_settings() -> None:
    worker = {
        CONSUMER: "MonitoringConsumerInterceptor",
        "consumer.penstock.tracing.endpoint": "http://a/",
    }
    props = {
        OF_SINK: "TracingConsumerInterceptor,io.penstock.interceptors.MonitoringConsumerInterceptor"
    }
    plan = sink(worker, **props)
    assert kinds(plan) == [TracingConsumer, MonitoringConsumer]
    assert plan.interceptors[0].config[ENDPOINT] == "http://a/"
    assert not any(name.startswith("penstock.") for name in plan.consumer)
    again = sink(worker, **props, **{"consumer.override.penstock.tracing.endpoint": "http://b/"})
    assert again.interceptors[0].config[ENDPOINT] == "http://b/"
    assert kinds(sink(worker, **{OF_SINK: ""})) == []


def test_valid_ones_are_no_error() -> None:
    given = {**SOURCE, OF_SOURCE: "MonitoringProducerInterceptor"}
    assert errors({}, given) == {}


@pytest.mark.parametrize(
    ("base", "setting"), [(SOURCE, OF_SOURCE), (SINK, OF_SINK)], ids=["source", "sink"]
)
def test_java_classes_are_refused_with_what_to_do(base: dict[str, str], setting: str) -> None:
    found = errors({}, {**base, setting: "org.example.Watching"})
    (text,) = found[setting]
    assert text.startswith(f"Invalid value org.example.Watching for configuration {setting}: ")
    assert "Python plugins" in text
    assert "Installed are: io.penstock.interceptors.Monitoring" in text


def test_one_of_the_other_client_is_refused() -> None:
    assert OF_SINK in errors({}, {**SINK, OF_SINK: "MonitoringProducerInterceptor"})


def test_one_whose_packages_are_missing_is_refused_with_the_command() -> None:
    (text,) = errors({}, {**SINK, OF_SINK: "test.Lacking"})[OF_SINK]
    assert "(no_such_package); install them with: pip install 'penstock[x]'" in text


def test_the_extra_for_tracing_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert all(each.startswith("opentelemetry-") for each in extras[TRACING.name])
    assert f"penstock[{TRACING.name}]" in extras["all"]


def test_invalid_settings_of_theirs_are_found() -> None:
    given = {
        **SINK,
        OF_SINK: "TracingConsumerInterceptor",
        "consumer.override.penstock.tracing.endpoint": "collector",
        "consumer.override.penstock.tracing.sample.ratio": "2",
    }
    assert set(errors({}, given)) == {
        "consumer.override.penstock.tracing.endpoint",
        "consumer.override.penstock.tracing.sample.ratio",
    }


def test_settings_for_the_workers_interceptors_are_validated_with_the_connector() -> None:
    given = {**SINK, "consumer.override.penstock.tracing.endpoint": "collector"}
    assert errors({}, given) == {}
    worker = {CONSUMER: "TracingConsumerInterceptor"}
    assert set(errors(worker, given)) == {"consumer.override.penstock.tracing.endpoint"}


def test_a_policy_may_forbid_them() -> None:
    worker = {"connector.client.config.override.policy": "None"}
    given = {**SOURCE, OF_SOURCE: "MonitoringProducerInterceptor"}
    assert OF_SOURCE in errors(worker, given)


def test_a_worker_with_java_classes_does_not_start() -> None:
    with pytest.raises(ConfigInvalid, match=r"producer\.interceptor\.classes.*Python plugins"):
        planner(**{PRODUCER: "org.example.Watching"})


def test_they_are_not_in_kafka_connects_list_of_plugins() -> None:
    listed = str([plugin_infos(PLUGINS, connectors_only=every) for every in (True, False)])
    assert "nterceptor" not in listed

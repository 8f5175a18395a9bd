"""Which settings each Kafka client gets: from the worker, under a prefix, from the connector
(kafka-connect.md §2.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.config.worker import parse_distributed
from penstock.flow.plan import SinkPlan, SourcePlan
from penstock.ids import TaskId
from penstock.kafka import clients
from penstock.offsets.admin import OffsetAdmin
from penstock.offsets.store import own_topic
from penstock.runtime import leader
from penstock.runtime.planning import Planner

from .test_planning import DEAD, REGISTRY, SINK, SOURCE, WORKER

MARK = "retry.backoff.ms"
"""A setting that every client has; its value says where it came from."""

PLAIN, PRODUCER, CONSUMER, ADMIN = "11", "12", "13", "14"
OVERRIDDEN = {"producer": "22", "consumer": "23", "admin": "24"}
LAYERS = {
    MARK: PLAIN,
    f"producer.{MARK}": PRODUCER,
    f"consumer.{MARK}": CONSUMER,
    f"admin.{MARK}": ADMIN,
}
CREATES = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": 1}
DEFAULT = "default"  # nobody has set it

Settings = Mapping[str, object]
Client = Callable[[Any, dict[str, str]], Settings]
"""The settings of a client, for a worker's settings and a connector's overrides."""


def source(worker: Any, overrides: dict[str, str]) -> SourcePlan:
    creates = {name: str(value) for name, value in CREATES.items()}
    props = {**SOURCE, **DEAD, **creates, **overrides}
    plan = Planner(worker, REGISTRY).flow(TaskId("src", 0), 1, props, props)
    assert isinstance(plan, SourcePlan)
    return plan


def sink(worker: Any, overrides: dict[str, str]) -> SinkPlan:
    props = {**SINK, **DEAD, **overrides}
    plan = Planner(worker, REGISTRY).flow(TaskId("snk", 0), 1, props, props)
    assert isinstance(plan, SinkPlan)
    return plan


def letters(plan: SourcePlan | SinkPlan) -> Any:
    assert plan.tolerance.dead_letters is not None
    return plan.tolerance.dead_letters


def own(worker: Any, overrides: dict[str, str]) -> Any:
    return own_topic(worker, "c", {"offsets.storage.topic": "own", **overrides}, False)


def fencing(worker: Any, overrides: dict[str, str]) -> Settings:
    """The settings with which the leader fences zombies."""
    used: list[Settings] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leader, "fence", lambda settings, ids, wanted: used.append(settings))
        zombies = leader.ZombieFencing(
            worker, lambda props: props, lambda name, ticket: True, lambda event: None
        )
        command: Any = SimpleNamespace(connector="c", ticket=1, tasks=1, config=overrides)
        zombies.fence(command)
    return used[0]


def of_rest(worker: Any, overrides: dict[str, str]) -> Settings:
    store: Any = None
    admin = OffsetAdmin(worker, store, lambda props: props, lambda *_: "")
    return clients.admin(admin._java("c", overrides)).settings


CLIENTS: dict[str, tuple[Client, tuple[str, ...], str | None]] = {
    # What the worker sets for it, the last wins; and the kind of override that wins over that.
    "the worker's own admin client": (lambda w, o: clients.admin(w.props).settings, (PLAIN,), None),
    "the worker's own producers": (lambda w, o: clients.producer(w.props).settings, (PLAIN,), None),
    "the worker's own consumers": (lambda w, o: clients.consumer(w.props).settings, (PLAIN,), None),
    "a source's producer": (lambda w, o: source(w, o).producer, (PRODUCER,), "producer"),
    "who creates a source's topics": (lambda w, o: source(w, o).admin, (PLAIN, ADMIN), "admin"),
    "a sink's consumer": (lambda w, o: sink(w, o).consumer, (CONSUMER,), "consumer"),
    "who looks up a sink's lag": (lambda w, o: sink(w, o).admin or {}, (CONSUMER,), "consumer"),
    "a sink's dead letters": (
        lambda w, o: letters(sink(w, o)).producer,
        (PRODUCER,),
        "producer",
    ),
    "who creates a sink's dead letter topic": (
        lambda w, o: letters(sink(w, o)).admin,
        (PLAIN, ADMIN),
        "admin",
    ),
    "who creates a source's dead letter topic": (
        lambda w, o: letters(source(w, o)).admin,
        (PLAIN, ADMIN),
        "admin",
    ),
    "the consumer of an own offset topic": (
        lambda w, o: own(w, o).consumer,
        (CONSUMER,),
        "consumer",
    ),
    "the producer of an own offset topic": (
        lambda w, o: own(w, o).producer,
        (PRODUCER,),
        "producer",
    ),
    "who creates an own offset topic": (lambda w, o: own(w, o).admin, (PLAIN, ADMIN), "admin"),
    "who alters a sink's offsets": (of_rest, (PLAIN, ADMIN), "admin"),
    "who fences zombies": (fencing, (PLAIN, ADMIN), "admin"),
}


def mark(settings: Settings) -> str:
    return str(settings.get(MARK, DEFAULT))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_gets_the_settings_that_are_meant_for_it(name: str) -> None:
    client, layers, override = CLIENTS[name]
    worker = parse_distributed({**WORKER, **LAYERS})
    assert mark(client(worker, {})) == layers[-1]
    overrides = {f"{kind}.override.{MARK}": text for kind, text in OVERRIDDEN.items()}
    expected = layers[-1] if override is None else OVERRIDDEN[override]
    assert mark(client(worker, overrides)) == expected
    unprefixed = parse_distributed({**WORKER, MARK: PLAIN})
    assert mark(client(unprefixed, {})) == (PLAIN if PLAIN in layers else DEFAULT)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_connects_to_the_brokers_of_its_connector(name: str) -> None:
    client, _, override = CLIENTS[name]
    worker = parse_distributed(WORKER)
    overrides = {f"{override}.override.bootstrap.servers": "other:9"} if override else {}
    expected = "other:9" if override else "broker:9092"
    assert client(worker, overrides)["bootstrap.servers"] == expected


def test_the_worker_names_its_connectors_admin_clients_where_it_names_its_own() -> None:
    named = parse_distributed({**WORKER, "client.id": "mine"})
    unnamed = parse_distributed(WORKER)
    assert source(named, {}).admin["client.id"] == "mine"
    assert source(unnamed, {}).admin["client.id"] == "connector-adminclient-src-0"
    assert letters(sink(unnamed, {})).admin["client.id"] == "connector-dlq-adminclient-snk-0"
    override = {"admin.override.client.id": "theirs"}
    assert source(named, override).admin["client.id"] == "theirs"

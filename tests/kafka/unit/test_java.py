"""Java's client settings: what Java accepts is accepted here, and a client can be made of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka.net.compat import KafkaNetClient

from penstock.config.define import ConfigDef, Key
from penstock.errors import ConfigInvalid
from penstock.kafka import clients, java

CAPTURED = [
    Path(__file__).with_name(f"kafka-clients{added}.tsv") for added in ("", "-added-in-4.4.0")
]
DEFINITIONS = {"producer": java.PRODUCER, "consumer": java.CONSUMER, "admin": java.CONNECTION}
MOST = {"INT": 2**31 - 1, "LONG": 2**63 - 1}
NEED: Mapping[str, Mapping[str, str]] = {
    # What Java requires as well, with an extreme value of another setting.
    "linger.ms": {"delivery.timeout.ms": str(2**31 - 1)},
    "retries": {"enable.idempotence": "false"},
    "max.in.flight.requests.per.connection": {"enable.idempotence": "false"},
    "delivery.timeout.ms": {"linger.ms": "0"},
    "transaction.timeout.ms": {"transactional.id": "t"},
}
NEVER_VALID = {("linger.ms", str(2**63 - 1)), ("delivery.timeout.ms", "0")}
"""Values within Java's ranges that its producer refuses anyway: the relation of two time-outs."""


def captured() -> Iterator[tuple[str, str, str, str, str]]:
    for line in (line for path in CAPTURED for line in path.read_text().splitlines()[1:]):
        client, name, kind, default, check = line.split("\t")
        yield client, name, kind, default, check


def declared(client: str, name: str) -> Key[object]:
    return DEFINITIONS[client][name]


def values(kind: str, default: str, check: str) -> list[str]:
    """The smallest, the usual and a large value; or all words."""
    if kind in MOST:
        least = re.match(r"\[(-?\d+),", check)
        most = re.search(r",(-?\d+)\]", check)
        return [
            least[1] if least else "-1",
            default,
            most[1] if most else str(MOST[kind]),
        ]
    if kind == "BOOLEAN":
        return ["true", "FALSE"]
    ignore_case = check.startswith("(case insensitive)")
    words = check.removeprefix("(case insensitive) ").strip("[]").split(", ")
    return [*words, *(word.swapcase() for word in words if ignore_case)]


TRIED = [
    pytest.param(client, name, values(kind, default, check), id=f"{client}-{name}")
    for client, name, kind, default, check in captured()
    if name in DEFINITIONS[client]
]

MAKE: Mapping[str, Callable[[Mapping[str, str]], Any]] = {
    "producer": lambda given: Producer({"log_level": 0, **clients.producer(given).settings}),
    "consumer": lambda given: Consumer(
        {"log_level": 0, "group.id": "unused", **clients.consumer(given).settings}
    ),
    "admin": lambda given: AdminClient({"log_level": 0, **clients.admin(given).settings}),
}


@pytest.mark.parametrize(("client", "name", "accepted"), TRIED)
def test_a_client_can_be_made_of_every_value_that_java_accepts(
    client: str, name: str, accepted: list[str]
) -> None:
    login = {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x.PlainLoginModule required username="me" password="secret";',
    }
    for value in accepted:
        if (name, value) in NEVER_VALID:
            continue
        secure = name == "security.protocol" and value.upper().startswith("SASL")
        given = {
            "bootstrap.servers": "127.0.0.1:1",
            **NEED.get(name, {}),
            **(login if secure else {}),
            name: value,
        }
        assert MAKE[client](given) is not None
        if client == "admin":
            KafkaNetClient(**clients.member(given).arguments()).close()


def test_the_types_and_checks_are_javas() -> None:
    problems = []
    for client, name, kind, _, check in captured():
        if name not in DEFINITIONS[client]:
            continue
        key = declared(client, name)
        ours = (key.kind.name, "" if key.check is None else str(key.check))
        if name == "retries":  # every INT
            check = "[0,...]"
        if ours != (kind, check):
            problems.append((client, name, ours, (kind, check)))
    assert problems == []


def test_every_declared_setting_is_one_of_javas() -> None:
    names = {(client, name) for client, name, *_ in captured()}
    for client, definition in DEFINITIONS.items():
        assert {(client, key.name) for key in definition.keys} <= names


def bad(definition: ConfigDef) -> list[tuple[str, str]]:
    return [
        (key.name, "maybe" if key.kind.name in ("STRING", "BOOLEAN") else "much")
        for key in definition.keys
    ]


@pytest.mark.parametrize("client", DEFINITIONS)
def test_every_bad_value_is_refused_by_the_settings_name(client: str) -> None:
    translate = getattr(clients, client)
    for name, value in bad(DEFINITIONS[client]):
        with pytest.raises(ConfigInvalid, match=f"Invalid value {value} for configuration {name}:"):
            translate({"bootstrap.servers": "127.0.0.1:1", name: value})


EXCLUDED = [
    ({"retries": "0"}, "Must set retries to non-zero"),
    ({"acks": "1"}, "Must set acks to all"),
    ({"max.in.flight.requests.per.connection": "6"}, "to at most 5"),
]


@pytest.mark.parametrize(("given", "text"), EXCLUDED)
def test_settings_that_exclude_idempotence_are_refused_with_it_as_in_java(
    given: dict[str, str], text: str
) -> None:
    assert not clients.may_be_idempotent(given)
    assert clients.may_be_idempotent({"acks": "-1", "retries": "1"})
    with pytest.raises(ConfigInvalid, match=text):
        clients.producer({**given, "enable.idempotence": "true"})
    forced = clients.idempotent(clients.producer(given).settings)
    Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **forced})


def test_a_delivery_that_ends_before_it_begins_is_refused_as_in_java() -> None:
    for given in ({"delivery.timeout.ms": "0"}, {"delivery.timeout.ms": "5", "linger.ms": "5"}):
        with pytest.raises(
            ConfigInvalid, match=r"delivery.timeout.ms should be equal to or larger"
        ):
            clients.producer(given)


PARTITIONERS = [
    ({}, "murmur2_random"),
    ({"partitioner.ignore.keys": "true"}, "random"),
    ({"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}, "random"),
]


@pytest.mark.parametrize(("given", "partitioner"), PARTITIONERS)
def test_records_are_distributed_as_by_the_partitioner_that_is_set(
    given: dict[str, str], partitioner: str
) -> None:
    assert clients.producer(given).settings["partitioner"] == partitioner


def test_a_partitioner_that_cannot_run_is_refused_as_it_decides_where_records_go() -> None:
    with pytest.raises(
        ConfigInvalid, match=r"configuration partitioner\.class: .*other partitions"
    ):
        clients.producer({"partitioner.class": "com.example.ByRegion"})


LEVELS = [
    ({"compression.type": "gzip", "compression.gzip.level": "7"}, 7),
    ({"compression.type": "lz4", "compression.lz4.level": "17"}, 12),
    ({"compression.type": "zstd", "compression.gzip.level": "7"}, None),
]


@pytest.mark.parametrize(("given", "level"), LEVELS)
def test_the_compression_level_is_that_of_the_type(
    given: dict[str, str], level: int | None
) -> None:
    assert clients.producer(given).settings.get("compression.level") == level

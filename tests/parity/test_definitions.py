"""Kafka Connect's and Kafka's clients' settings are still declared as the captured files say.

The unit tests compare our declarations with those files. Run as a program, this rewrites them:
`python -m tests.parity.test_definitions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from penstock import KAFKA_VERSION
from tests.places import TESTS

from .jvm import KafkaConnect
from .typed import Json

CONNECT: Final = {
    "source": "org.apache.kafka.connect.runtime.SourceConnectorConfig",
    "sink": "org.apache.kafka.connect.runtime.SinkConnectorConfig",
    "distributed": "org.apache.kafka.connect.runtime.distributed.DistributedConfig",
    "standalone": "org.apache.kafka.connect.runtime.standalone.StandaloneConfig",
}
CLIENTS: Final = {
    "producer": "org.apache.kafka.clients.producer.ProducerConfig",
    "consumer": "org.apache.kafka.clients.consumer.ConsumerConfig",
    "admin": "org.apache.kafka.clients.admin.AdminClientConfig",
}


def declared(connect: KafkaConnect, class_name: str) -> Iterator[Json]:
    definition = connect.call("declared", class_name)
    rows = json.loads(connect.call("definition", definition))
    dependents = json.loads(connect.call("dependents", definition))
    for row, found in zip(rows, dependents, strict=True):
        yield {**row, "dependents": found}


def default(row: Json, quote: str) -> str:
    if row["required"]:
        return "REQUIRED"
    return "null" if row["default"] is None else f"{quote}{row['default']}{quote}"


def connects(connect: KafkaConnect) -> Iterator[list[str]]:
    yield [
        f"# Captured from Kafka Connect {KAFKA_VERSION}: definition, name, type, default, "
        "importance, group, order, width, display name, dependents"
    ]
    for label, class_name in CONNECT.items():
        for row in declared(connect, class_name):
            yield [
                *(label, row["name"], row["type"], default(row, "'"), row["importance"]),
                *(str(row["group"] or "null"), str(row["order"]), row["width"]),
                *(row["display_name"], row["dependents"]),
            ]


def clients(connect: KafkaConnect) -> Iterator[list[str]]:
    yield [f"# Captured from Kafka {KAFKA_VERSION}: client, name, type, default, check"]
    for label, class_name in CLIENTS.items():
        for row in declared(connect, class_name):
            if not row["name"].startswith("sasl.") or row["name"] == "sasl.mechanism":
                yield [label, row["name"], row["type"], default(row, ""), row["validator"] or ""]


FILES: Final[dict[Path, Callable[[KafkaConnect], Iterator[list[str]]]]] = {
    TESTS / "config" / "unit" / "kafka-definitions.tsv": connects,
    TESTS / "kafka" / "unit" / "kafka-clients.tsv": clients,
}


def written(rows: Iterator[list[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_captured_definitions_are_those_of_kafka(path: Path) -> None:
    with KafkaConnect.started() as connect:
        assert path.read_text() == written(FILES[path](connect))


if __name__ == "__main__":
    with KafkaConnect.started() as running:
        for file, rows_of in FILES.items():
            file.write_text(written(rows_of(running)))

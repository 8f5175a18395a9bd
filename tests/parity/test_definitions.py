"""Kafka Connect's and Kafka's clients' settings are still declared as the captured files say.

The unit tests compare our declarations with those files. Run as a program, this rewrites them:
`python -m tests.parity.test_definitions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
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


Rows = Callable[[KafkaConnect], Iterator[list[str]]]

FILES: Final[dict[Path, Rows]] = {
    TESTS / "config" / "unit" / "kafka-definitions.tsv": connects,
    TESTS / "kafka" / "unit" / "kafka-clients.tsv": clients,
}


def written(rows: Iterable[list[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def added(path: Path) -> Path:
    """The file with what Kafka 4.4.0 declares in addition."""
    return path.with_stem(f"{path.stem}-added-in-4.4.0")


def captured() -> Iterator[tuple[Path, str]]:
    """Each file with its text."""
    with KafkaConnect.started() as kafka, KafkaConnect.started("connect-4.4") as newer:
        for path, rows in FILES.items():
            known = list(rows(kafka))
            names = {tuple(row[:2]) for row in known}
            yield path, written(known)
            header, *later = rows(newer)
            more = [row for row in later if tuple(row[:2]) not in names]
            yield added(path), written([[header[0].replace(KAFKA_VERSION, "4.4.0")], *more])


@pytest.fixture(scope="module")
def files() -> dict[Path, str]:
    return dict(captured())


@pytest.mark.parametrize("path", [*FILES, *map(added, FILES)], ids=lambda path: path.stem)
def test_the_captured_definitions_are_those_of_kafka(files: dict[Path, str], path: Path) -> None:
    assert path.read_text() == files[path]


if __name__ == "__main__":
    for file, text in captured():
        file.write_text(text)

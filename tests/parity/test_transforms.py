"""Kafka Connect's own transformations still answer as the golden file says.

Run as a program, this rewrites the file: `python -m tests.parity.test_transforms`.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.places import TESTS

from .jvm import KafkaConnect
from .transform_cases import CASES, RECORDS, Case
from .typed import Json

GOLDEN: Final = TESTS / "golden" / "transforms.jsonl.gz"
PACKAGE: Final = "org.apache.kafka.connect.transforms"
IDENTITY: Final = re.compile(r"(?<=[A-Za-z])@[0-9a-f]{6,8}\b")
"""An object without a text of its own: another one in every JVM."""
NEWER: Final = frozenset({"ValueToKey"})
"""What is as in Kafka Connect 4.4.0."""
PLUGINS: Final = sorted({case.plugin for case in CASES})


def answer(connect: KafkaConnect, case: Case) -> Json:
    """Case and answer, as in a line of the golden file; `"same"` is the record."""
    records = [RECORDS[name] for name in case.records]
    found = connect.apply(f"{PACKAGE}.{case.plugin}", case.config, records)
    asked = {"plugin": case.plugin, "config": case.config}
    if isinstance(found, dict):
        return {**asked, "refused": [IDENTITY.sub("@", text) for text in found["refused"]]}
    answers = ("same" if one == record else one for one, record in zip(found, records, strict=True))
    return {**asked, "answers": dict(zip(case.records, answers, strict=True))}


def lines() -> Iterator[Json]:
    """All of the golden file: the records, the definitions, the answers."""
    with KafkaConnect.started() as connect, KafkaConnect.started("connect-4.4") as newer:

        def asked(plugin: str) -> KafkaConnect:
            return newer if plugin in NEWER else connect

        definitions = {name: asked(name).definition(f"{PACKAGE}.{name}") for name in PLUGINS}
        yield {"records": RECORDS}
        yield {"definitions": definitions}
        for case in CASES:
            yield answer(asked(case.plugin), case)


@pytest.fixture(scope="module")
def captured() -> list[Json]:
    return json.loads(json.dumps(list(lines())))  # type: ignore[no-any-return]


def test_the_golden_file_is_what_kafka_connect_answers(captured: list[Json]) -> None:
    golden = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()]
    assert len(golden) == len(captured)
    for one, other in zip(golden, captured, strict=True):
        assert one == other


if __name__ == "__main__":
    text = "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines()
    )
    GOLDEN.write_bytes(gzip.compress(text.encode(), mtime=0))  # the same bytes each time

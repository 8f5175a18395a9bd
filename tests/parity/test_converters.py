"""Kafka Connect's converters, `Values` and projector against the answers kept in `tests/golden/`.

The unit tests compare ours with those answers; these tests verify that Kafka Connect still gives
them. After a change of the cases,

    python -m tests.parity.test_converters

asks for all of them and writes the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pytest
from py4j.protocol import Py4JJavaError

from penstock.config.define import Key
from penstock.config.render import config_key_info

from .converter_cases import (
    CONVERTERS,
    GOLDEN,
    Case,
    Json,
    cell_json,
    converter_cases,
    header_cases,
    json_cell,
    projection_cases,
    stored,
)
from .jvm import JavaObject, KafkaConnect, thrown

FILES = {"converters": converter_cases, "headers": header_cases, "projections": projection_cases}


class Asked:
    """Kafka Connect, queried case by case; keeps the converters it has made."""

    def __init__(self, connect: KafkaConnect) -> None:
        self.connect = connect
        self._made: dict[str, JavaObject] = {}

    def answer(self, case: Case, use: str = "value") -> Case:
        """What it gives or throws."""
        try:
            return {"gives": self._given(case, use)}
        except Py4JJavaError as error:
            if case["of"] == "project":
                return {"throws": [thrown(error)[0], *messages(error.java_exception)]}
            return {"throws": list(thrown(error))}

    def _given(self, case: Case, use: str) -> Json:
        connect = self.connect
        if case["of"] == "parse":
            return list(connect.typed(connect.call("parsed", case["read"])))
        if case["of"] == "project":
            return self._projected(*case["write"], case["to"])
        pair = connect.typed_pair(*case["write"]) if "write" in case else None
        if case["of"] == "text":
            return connect.call("convertedToString", pair)
        converter = self._converter(case["of"], case.get("config", {}), use)
        if pair is None:
            cell = json_cell(case["read"])
            if use == "header":
                return list(connect.typed(converter.toConnectHeader("topic", "name", cell)))
            return list(connect.typed(converter.toConnectData("topic", cell)))
        if use == "header":
            return cell_json(connect.call("fromConnectHeader", converter, "topic", "name", pair))
        return cell_json(connect.call("fromConnectData", converter, "topic", pair))

    def _projected(self, source: Json, value: Json, target: Json) -> Json:
        connect = self.connect
        record = {"struct": {} if value is None else {"f": value}}
        pair = connect.typed_pair({"type": "STRUCT", "fields": [["f", source]]}, record)
        wanted = connect.typed_pair({"type": "STRUCT", "fields": [["f", target]]}, None).schema()
        data = connect.gateway.jvm.org.apache.kafka.connect.data
        projected = data.SchemaProjector.project(pair.schema(), pair.value(), wanted)
        return connect.typed(data.SchemaAndValue(wanted, projected))[1]

    def _converter(self, of: str, config: dict[str, str], use: str) -> JavaObject:
        key = json.dumps([of, config, use])
        if key not in self._made:
            made = self.connect.new(CONVERTERS[of].plugin.class_name)
            made.configure(self.connect.map({**config, "converter.type": use}))
            self._made[key] = made
        return self._made[key]


def messages(error: JavaObject) -> Iterator[str]:
    while error is not None:
        yield error.getMessage()
        error = error.getCause()


def uses(case: Case) -> list[str]:
    return ["header"] if case["of"] == "SimpleHeaderConverter" else ["value", "header"]


def answered(asked: Asked, cases: Iterable[Case]) -> Iterator[Case]:
    """The cases with their answers; the converter also reads the JSON that it wrote."""
    for case in cases:
        answer = asked.answer(case, uses(case)[0])
        yield {**case, **answer}
        written = answer.get("gives")
        if case["of"] == "JsonConverter" and "write" in case and written is not None:
            back = {"of": case["of"], "config": case.get("config", {}), "read": written}
            if not back["config"]:
                del back["config"]
            yield {**back, **asked.answer(back, "value")}


def distinct(cases: Iterable[Case]) -> list[Case]:
    found = {json.dumps(case, sort_keys=True): case for case in cases}
    return list(found.values())


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    with KafkaConnect.started() as connect:
        yield Asked(connect)


@pytest.mark.parametrize("file", FILES)
def test_kafka_connect_answers_as_it_is_kept(asked: Asked, file: str) -> None:
    kept = stored(file)
    assert [{**case, **asked.answer(case, uses(case)[0])} for case in kept] == kept


@pytest.mark.parametrize("file", FILES)
def test_the_kept_cases_are_all_there_are(asked: Asked, file: str) -> None:
    assert distinct(answered(asked, FILES[file]())) == stored(file)


def test_kafka_connect_treats_headers_as_it_treats_values(asked: Asked) -> None:
    cases = [case for case in stored("converters") if len(uses(case)) > 1]
    assert cases
    for case in cases:
        assert asked.answer(case, "header") == asked.answer(case, "value"), case


# Kafka Connect requires what its runtime always sets; ours do not need it.
REQUIRED_THERE = {"converter.type"}


@pytest.mark.parametrize("of", CONVERTERS)
def test_settings_are_declared_as_there(asked: Asked, of: str) -> None:
    kind = CONVERTERS[of]
    there = {row["name"]: row for row in asked.connect.definition(kind.plugin.class_name)}
    ours = {key.name: declared(key) for key in kind.plugin.config.keys}
    assert ours.keys() == there.keys()
    for name, row in there.items():
        if name in REQUIRED_THERE:
            row["required"] = False
        if row["validator"] is None:
            del row["validator"], ours[name]["validator"]  # ours may be stricter
    assert ours == there


def declared(key: Key[object]) -> Json:
    info = config_key_info(key)
    return {
        "name": info["name"],
        "type": info["type"],
        "required": info["required"],
        "default": info["default_value"],
        "importance": info["importance"],
        "validator": None if key.check is None else str(key.check),
        "group": info["group"],
        "order": info["order_in_group"],
        "width": info["width"],
        "display_name": info["display_name"],
    }


def _write() -> None:
    with KafkaConnect.started() as connect:
        asked = Asked(connect)
        for file, cases in FILES.items():
            lines = [
                json.dumps(case, ensure_ascii=False, separators=(",", ":"))
                for case in distinct(answered(asked, cases()))
            ]
            (GOLDEN / f"{file}.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    _write()

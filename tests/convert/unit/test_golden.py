"""Converters, `Values` and projection against Kafka Connect 4.3.1's answers to the same cases.

`tests/parity/test_converters.py` captured the answers and requests them again. Bytes of JSON are
compared by value: the spelling of numbers and escapes is up to the writer, and Kafka Connect
orders a schemaless map as a HashMap does.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.api import Use
from penstock.convert.json import JsonConverter
from penstock.data.columns import Cells
from tests.parity.converter_cases import (
    Case,
    json_cell,
    ours,
    stored,
)
from tests.parity.typed import schema_json, value_json

Json = Any

NOT_A_VALUE = "a BigInteger is not a value of Connect; here it is written up to 64 bits"
NEGATIVE_ZERO = "0.0 in the JVM, but here the sign is kept"
NO_PAIRS = "a list where a map should be is taken for the pairs of one"

# The question, and why our answer differs.
DEVIATIONS: dict[str, str] = {
    '{"of": "JsonConverter", "write": [null, {"bigint": "9223372036854775808"}]}': NOT_A_VALUE,
    '{"of": "JsonConverter", "config": {"schemas.enable": "false"}, '
    '"write": [null, {"bigint": "9223372036854775808"}]}': NOT_A_VALUE,
    '{"of": "JsonConverter", '
    '"read": "{\\"schema\\":{\\"type\\":\\"double\\",\\"optional\\":false},\\"payload\\":-0.0}"}': (
        NEGATIVE_ZERO
    ),
    '{"of": "JsonConverter", "config": {"schemas.enable": "false"}, "read": "-0.0"}': NEGATIVE_ZERO,
    '{"of": "StringConverter", "write": '
    '[{"type": "MAP", "keys": "STRING", "values": "STRING"}, ["no map"]]}': NO_PAIRS,
}

# An invalid schema is a DataException too; here it has no separate class.
SAME_AS = {
    "org.apache.kafka.connect.errors.SchemaBuilderException": (
        "org.apache.kafka.connect.errors.DataException"
    )
}

CASES = [*stored("converters"), *stored("headers"), *stored("projections")]


def question(case: Case) -> Case:
    return {name: each for name, each in case.items() if name not in ("gives", "throws")}


def reported(case: Case) -> Json:
    """What has to be equal in answers."""
    if "throws" in case:
        kind, *messages = case["throws"]
        return [SAME_AS.get(kind, kind), *messages]
    given = case["gives"]
    if case["of"] == "JsonConverter" and "write" in case:
        return given and json.loads(given, parse_float=number, object_pairs_hook=members)
    if "read" in case:
        schema, value = given
        return [schema, plain(value, ordered=case["of"] != "JsonConverter")]
    return plain(given, ordered=True) if case["of"] == "project" else given


def number(text: str) -> Json:
    return "float", Decimal(text).normalize()


def members(pairs: list[tuple[str, Json]]) -> Json:
    return "object", pairs


def plain(node: Json, *, ordered: bool) -> Json:
    """A value without what its schema says, or what we cannot know without a schema."""
    if isinstance(node, list):
        return [plain(each, ordered=ordered) for each in node]
    if not isinstance(node, dict):
        return node
    ((tag, content),) = node.items()
    match tag:
        case "i8" | "i16" | "i32":
            return content
        case "f32" | "f64":
            return {"float": content}
        case "map":
            entries = plain(content, ordered=ordered)
            return {tag: entries if ordered else sorted(entries, key=json.dumps)}
        case "struct":
            return {tag: {name: plain(each, ordered=ordered) for name, each in content.items()}}
        case _:
            return node


def answered(case: Case, use: Use) -> tuple[Json, Json]:
    """Our answer and Kafka Connect's."""
    return reported({**question(case), **ours(question(case), use)}), reported(case)


def known(case: Case) -> str | None:
    return DEVIATIONS.get(json.dumps(question(case), ensure_ascii=False))


def test_there_are_as_many_cases_as_promised() -> None:
    assert len(stored("converters")) >= 300
    assert len(stored("headers")) >= 150


@pytest.mark.parametrize("of", sorted({case["of"] for case in CASES}))
def test_we_answer_as_kafka_connect(of: str) -> None:
    use = Use.HEADER if of == "SimpleHeaderConverter" else Use.VALUE
    asked = [case for case in CASES if case["of"] == of and known(case) is None]
    assert asked
    different = {
        json.dumps(question(case), ensure_ascii=False): both
        for case in asked
        if (both := answered(case, use))[0] != both[1]
    }
    assert not different


@pytest.mark.parametrize("text", DEVIATIONS)
def test_a_deviation_is_still_one(text: str) -> None:
    (case,) = [each for each in CASES if question(each) == json.loads(text)]
    one, other = answered(case, Use.VALUE)
    assert one != other


def test_headers_are_converted_as_values_are() -> None:
    asked = [case for case in stored("converters") if known(case) is None]
    for case in asked:
        assert ours(question(case), Use.HEADER) == ours(question(case), Use.VALUE), case


def test_json_that_is_read_into_fields_is_what_kafka_connect_said() -> None:
    taken = 0
    for case in CASES:
        if case["of"] != "JsonConverter" or "read" not in case:
            continue
        config = JsonConverter.plugin.config.parse({**case.get("config", {})})
        cells = Cells(pa.array([json_cell(case["read"])], pa.binary()), None)
        fields = JsonConverter(config, Use.VALUE).to_fields(cells)
        if fields is not None:
            taken += 1
            given = [schema_json(fields.schema), value_json(fields.schema, fields.values[0])]
            assert reported({**case, "gives": given}) == reported(case)
    assert taken >= 10

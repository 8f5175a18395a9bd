"""What every converter with a Schema Registry does, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from penstock.api import Use
from penstock.data import schema as s
from penstock.data.records import Column, Failed, Run
from penstock.data.schema import Schema, Value
from penstock.errors import DataError, Unavailable
from penstock.schema_registry import wire
from penstock.schema_registry.avro import AvroConverter
from penstock.schema_registry.framed import FramedConverter
from penstock.schema_registry.json_schema import JsonSchemaConverter
from penstock.schema_registry.protobuf import ProtobufConverter
from penstock.schema_registry.protobuf_files import to_base64
from penstock.schema_registry.transport import MockTransport

from .avro_examples import Ask
from .protobuf_examples import file_of

BOOK = s.struct({"title": s.STRING, "pages": s.INT32}, name="lib.Book")
ROW = {"title": "x", "pages": 3}
LATER = s.struct(
    {"title": s.STRING, "pages": s.INT32, "year": replace(s.OPTIONAL_INT32, default=7)},
    name="lib.Book",
)
OTHER = s.struct({"title": s.INT64, "pages": s.INT32}, name="lib.Book")
NAMES = "io.confluent.kafka.serializers.subject."
LATEST = {"auto_register_schemas": "false", "use_latest_version": "true"}

Converter = FramedConverter[Any, Any]
Make = Callable[..., Converter]


@dataclass(frozen=True)
class Format:
    """What differs between the formats."""

    kind: type[Converter]
    name: str
    not_read: str
    no_body: bytes
    """A message of BOOK after the id, which ends too early."""
    referring: tuple[str, str, str, bytes]
    """The name and the text of a schema, one that refers to it, and a message of that."""
    props: Mapping[str, str] = field(default_factory=dict)


_NOT_READ = "Converting byte[] to Kafka Connect data failed due to serialization error of topic t: "
_LINE = """
    name: "line.proto" package: "lib" syntax: "proto3"
    message_type {
      name: "Line" field { name: "n" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
    }
"""
_OUTER = """
    name: "default" syntax: "proto3" dependency: "line.proto"
    message_type {
      name: "R"
      field { name: "line" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
              type_name: ".lib.Line" }
    }
"""
FORMATS = [
    Format(
        AvroConverter,
        "Avro",
        not_read="Failed to deserialize data for topic t to Avro: ",
        no_body=b"\x02",
        referring=(
            "lib.Line",
            '{"type":"record","name":"lib.Line","fields":[{"name":"n","type":"int"}]}',
            '{"type":"record","name":"R","fields":[{"name":"line","type":"lib.Line"}]}',
            b"\x04",
        ),
    ),
    Format(
        JsonSchemaConverter,
        "JSON Schema",
        not_read=_NOT_READ,
        no_body=b"{",
        referring=(
            "line.json",
            '{"type":"object","properties":{"n":{"type":"integer"}}}',
            '{"type":"object","properties":{"line":{"$ref":"line.json"}}}',
            b'{"line":{"n":2}}',
        ),
        # An open schema cannot get a property: older data may have it with another type.
        props={"object.additional.properties": "false"},
    ),
    Format(
        ProtobufConverter,
        "Protobuf",
        not_read=_NOT_READ,
        no_body=b"\0\n\xff",
        referring=(
            "line.proto",
            to_base64(file_of(_LINE)),
            to_base64(file_of(_OUTER)),
            b"\0\n\x02\x08\x02",
        ),
    ),
]


@pytest.fixture(params=FORMATS, ids=lambda format: format.name)
def format(request: pytest.FixtureRequest) -> Format:
    chosen: Format = request.param
    return chosen


@pytest.fixture
def make(format: Format, registry_url: str) -> Make:
    """Makes a converter of the format on the test's own registry; settings with `_` for `.`."""

    def converter(use: Use = Use.VALUE, **props: str) -> Converter:
        given = {name.replace("_", "."): text for name, text in props.items()}
        url = {"schema.registry.url": registry_url}
        return format.kind(format.kind.plugin.config.parse({**url, **format.props, **given}), use)

    return converter


def write(
    converter: Converter, column: Column, topics: Sequence[str] | None = None
) -> list[bytes | None]:
    failed: Failed = {}
    cells = converter.from_connect(topics or ["t"] * len(column), column, failed)
    assert not failed, failed
    return cells


def message(converter: Converter, value: Value = None, schema: Schema | None = BOOK) -> bytes:
    [cell] = write(converter, Column.of([value or ROW], schema))
    assert cell is not None
    return cell


def read(converter: Converter, *cells: bytes | None, topic: str = "t") -> Column:
    failed: Failed = {}
    column = converter.to_connect([topic] * len(cells), cells, failed)
    assert not failed, failed
    return column


def error_of_reading(converter: Converter, cell: bytes, topic: str = "t") -> str:
    failed: Failed = {}
    assert converter.to_connect([topic], [cell], failed).values == [None]
    assert isinstance(failed[0], DataError)
    return str(failed[0])


def error_of_writing(converter: Converter, value: Value, schema: Schema | None) -> DataError:
    failed: Failed = {}
    assert converter.from_connect(["t"], Column.of([value], schema), failed) == [None]
    error = failed[0]
    assert isinstance(error, DataError)
    return error


def subjects(ask: Ask) -> list[str]:
    status, names = ask("GET", "/subjects")
    assert status == 200
    return list(names)


def test_a_value_is_read_as_it_was_written(make: Make) -> None:
    cell = message(make())
    assert cell[: wire.HEAD_SIZE] == wire.head(1)
    column = read(make(), cell)
    assert column.values == [ROW]
    [run] = column.runs
    assert run.schema is not None
    assert run.schema.version == 1
    assert [field.name for field in run.schema.fields] == ["title", "pages"]


@pytest.mark.parametrize("cell", [b"", b"{}", wire.head(1)[:4], b"\1" + wire.head(1)[1:] + b"x"])
def test_a_message_without_an_id_is_refused(make: Make, format: Format, cell: bytes) -> None:
    message(make())
    assert error_of_reading(make(), cell) == f"{format.not_read}Unknown magic byte!"


def test_an_unknown_id_is_refused(make: Make, format: Format) -> None:
    assert error_of_reading(make(), wire.head(9) + b"\0") == (
        f"{format.not_read}Error retrieving {format.name} value schema for id 9: "
        "Schema 9 not found; error code: 40403"
    )


def test_a_schema_of_another_format_is_refused(make: Make, format: Format, ask: Ask) -> None:
    of_avro = format.kind is AvroConverter
    body = {"schema": "{}", "schemaType": "JSON"} if of_avro else {"schema": '"string"'}
    assert ask("POST", "/subjects/t-value/versions", body)[0] == 200
    theirs, ours = ("JSON", "AVRO") if of_avro else ("AVRO", format.kind.schema_type)
    assert error_of_reading(make(), wire.head(1) + b"\0") == (
        f"{format.not_read}Error retrieving {format.name} value schema for id 1: "
        f"The schema is of type {theirs}, not {ours}"
    )
    strict = error_of_writing(make(**LATEST), ROW, BOOK)
    assert f"(it is of type {theirs})" in str(strict)
    lenient = error_of_writing(make(**LATEST, latest_compatibility_strict="false"), ROW, BOOK)
    assert f"The schema is of type {theirs}, not {ours}" in str(lenient)


def test_a_topic_whose_subject_lacks_the_schema_is_refused(make: Make, format: Format) -> None:
    error = error_of_reading(make(), message(make()), "mirrored")
    assert f"Error retrieving {format.name} value schema version for id 1: " in error
    assert error.endswith("Subject 'mirrored-value' not found.; error code: 40401")


def test_a_bad_row_costs_no_other(make: Make, format: Format) -> None:
    good, bad = message(make()), wire.head(1) + format.no_body
    failed: Failed = {}
    column = make().to_connect(["t"] * 6, [bad, good, None, b"", good, bad], failed)
    assert column.values == [None, ROW, None, None, ROW, None]
    assert failed.keys() == {0, 3, 5}
    assert all(isinstance(error, DataError) for error in failed.values())
    failed = {}
    rows = [ROW, {"title": 1, "pages": 1}, ROW, {"title": "x", "pages": "y"}]
    cells = make().from_connect(["t"] * 4, Column.of(rows, BOOK), failed)
    assert [cell is not None for cell in cells] == [True, False, True, False]
    assert {row: str(error) for row, error in failed.items()} == {
        1: "Field 'title': Invalid type for STRING: class java.lang.Long",
        3: "Field 'pages': Invalid type for INT32: class java.lang.String",
    }


def test_null_without_a_schema_is_a_tombstone(make: Make, ask: Ask) -> None:
    converter = make()
    assert write(converter, Column.of([None], None)) == [None]
    assert subjects(ask) == []
    cell = message(converter)
    column = read(converter, None, cell, None)
    assert column.values == [None, ROW, None]
    assert [run.schema is None for run in column.runs] == [True, False, True]
    mixed = Column([None, ROW, None], [Run(1, None), Run(2, BOOK), Run(3, None)])
    assert write(converter, mixed) == [None, cell, None]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "t-value"),
        ("RecordNameStrategy", "lib.Book"),
        ("TopicRecordNameStrategy", "t-lib.Book"),
    ],
)
def test_subjects_are_named_by_the_strategy(
    make: Make, ask: Ask, strategy: str, subject: str
) -> None:
    converter = make(value_subject_name_strategy=f"{NAMES}{strategy}")
    assert read(converter, message(converter)).values == [ROW]
    assert subjects(ask) == [subject]


def test_keys_have_subjects_of_their_own(make: Make, ask: Ask) -> None:
    converter = make(Use.KEY)
    assert read(converter, message(converter)).values == [ROW]
    assert subjects(ask) == ["t-key"]


def test_headers_are_written_and_read_with_the_subject_of_values(make: Make, ask: Ask) -> None:
    converter = make(Use.HEADER)
    assert read(converter, message(converter)).values == [ROW]
    assert subjects(ask) == ["t-value"]


def test_topics_of_a_batch_have_schemas_of_their_own(make: Make, ask: Ask) -> None:
    converter = make()
    topics = ["t", "u", "t"]
    cells = write(converter, Column.of([ROW] * 3, BOOK), topics)
    failed: Failed = {}
    assert converter.to_connect(topics, cells, failed).values == [ROW] * 3
    assert not failed
    assert subjects(ask) == ["t-value", "u-value"]


def test_a_later_version_is_read_beside_the_first(make: Make, ask: Ask) -> None:
    first, second = message(make()), message(make(), {**ROW, "year": 5}, LATER)
    assert ask("GET", "/subjects/t-value/versions") == (200, [1, 2])
    column = read(make(), first, second, first)
    assert column.values == [ROW, {**ROW, "year": 5}, ROW]
    assert [run.schema and run.schema.version for run in column.runs] == [1, 2, 1]


def test_nothing_is_registered_unless_allowed(make: Make, ask: Ask) -> None:
    converter = make(auto_register_schemas="false")
    assert "not found" in str(error_of_writing(converter, ROW, BOOK))
    assert subjects(ask) == []
    cell = message(make())
    assert message(converter) == cell


def test_the_latest_version_is_used_if_it_fits(make: Make, ask: Ask) -> None:
    message(make())
    message(make(), {**ROW, "year": 5}, LATER)
    cell = message(make(**LATEST))
    assert cell[: wire.HEAD_SIZE] == wire.head(2)
    title_and_pages = {name: read(make(), cell).values[0][name] for name in ROW}
    assert title_and_pages == ROW
    assert ask("GET", "/subjects/t-value/versions") == (200, [1, 2])
    error = str(error_of_writing(make(**LATEST), {"title": 1, "pages": 1}, OTHER))
    assert "Incompatible schema" in error
    assert "latest.compatibility.strict=false" in error


def test_an_incompatible_schema_fails_with_the_registrys_words(make: Make, format: Format) -> None:
    message(make())
    error = error_of_writing(make(), {"title": 1, "pages": 1}, OTHER)
    assert not error.retriable
    assert error.java_name == "org.apache.kafka.common.config.ConfigException"
    assert str(error).startswith(
        f"Failed to access {format.name} data from topic t : Schema being registered is "
        'incompatible with an earlier schema for subject "t-value", details: ['
    )


def test_a_registry_that_is_down_is_asked_once_a_batch(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = message(make())
    asked: list[str] = []

    def down(self: MockTransport, method: str, path: str, *args: object) -> object:
        asked.append(path)
        raise Unavailable("no answer")

    monkeypatch.setattr(MockTransport, "request", down)
    failed: Failed = {}
    make().to_connect(["t", "u", "t", "u"], [cell, cell, wire.head(7) + b"\0", cell], failed)
    assert len(asked) == 1
    assert [type(failed[row]) for row in range(4)] == [Unavailable] * 4
    assert str(failed[3]) == (
        "Network connection error while deserializing data for topic u: no answer"
    )
    failed = {}
    column = Column([ROW, {**ROW, "year": 1}, ROW], [Run(1, BOOK), Run(2, LATER), Run(3, BOOK)])
    make().from_connect(["t"] * 3, column, failed)
    assert len(asked) == 2
    assert [type(failed[row]) for row in range(3)] == [Unavailable] * 3


@pytest.mark.parametrize("props", [{}, {**LATEST, "latest_cache_ttl_sec": "-1"}])
def test_known_schemas_are_used_while_the_registry_is_down(
    make: Make, monkeypatch: pytest.MonkeyPatch, props: dict[str, str]
) -> None:
    message(make())
    converter = make(**props)
    cell = message(converter)
    read(converter, cell)

    def down(*args: object) -> object:
        raise Unavailable("no answer")

    monkeypatch.setattr(MockTransport, "request", down)
    assert message(converter) == cell
    assert read(converter, cell).values == [ROW]


def test_references_are_fetched_from_the_registry(make: Make, format: Format, ask: Ask) -> None:
    name, line, outer, data = format.referring
    kind = {"schemaType": format.kind.schema_type}
    ask("POST", "/subjects/lines/versions", {"schema": line, **kind})
    references = [{"name": name, "subject": "lines", "version": 1}]
    body = {"schema": outer, "references": references, **kind}
    assert ask("POST", "/subjects/t-value/versions", body)[0] == 200
    assert read(make(), wire.head(2) + data).values == [{"line": {"n": 2}}]


def test_values_without_a_schema_need_a_format_that_has_them(make: Make, format: Format) -> None:
    if format.kind is AvroConverter:
        assert read(make(), message(make(), {"a": 1}, None)).values == [{"a": 1}]
    else:
        assert str(error_of_writing(make(), {"a": 1}, None)) == (
            "A value without a schema cannot be written in the format of a registry"
        )

"""JSON Schema and Protobuf over HTTP, against confluent-kafka's serializers and deserializers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema as RegisteredSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from penstock.api import Converter, Failed, Use
from penstock.data import schema as s
from penstock.data.records import Column
from penstock.data.schema import Value
from penstock.errors import Unavailable
from penstock.schema_registry.json_schema import JsonSchemaConverter
from penstock.schema_registry.json_schema_names import Options as JsonOptions
from penstock.schema_registry.json_schema_schema import json_schema
from penstock.schema_registry.protobuf import ProtobufConverter
from penstock.schema_registry.protobuf_files import from_base64, message_at, pool_of, to_base64
from penstock.schema_registry.protobuf_names import Options as ProtobufOptions
from penstock.schema_registry.protobuf_schema import message_file
from penstock.testing.registry import RegistryProcess

Unique = Callable[[str], str]

BOOK = s.struct(
    {
        "title": s.STRING,
        "pages": s.INT32,
        "price": s.FLOAT64,
        "lent": s.BOOLEAN,
        "tags": s.array(s.STRING),
        "ratings": s.map_of(s.STRING, s.INT64),
        "cover": s.BYTES,
    },
    name="lib.Book",
)
ROW = {
    "title": "Moby-Dick; ü",
    "pages": 635,
    "price": 9.5,
    "lent": True,
    "tags": ["sea", ""],
    "ratings": {"me": -5},
    "cover": b"\0\xff",
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def client(registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    """Confluent's own client."""
    with SchemaRegistryClient({"url": registry.url}) as confluent:
        yield confluent


def make(kind: type[Converter], url: str, **props: str) -> Converter:
    given = {name.replace("__", "."): text for name, text in props.items()}
    config = kind.plugin.config.parse({"schema.registry.url": url, **given})
    return kind(config, Use.VALUE)


def write(converter: Converter, topic: str, row: Value, schema: s.Schema = BOOK) -> bytes:
    failed: Failed = {}
    (cell,) = converter.from_connect([topic], Column.of([row], schema), failed)
    assert not failed
    assert cell is not None
    return cell


def read(converter: Converter, topic: str, cell: bytes) -> Value:
    failed: Failed = {}
    column = converter.to_connect([topic], [cell], failed)
    assert not failed
    return column.values[0]


def about(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_json_is_read_and_written_as_confluent_kafka_does(
    registry: RegistryProcess, client: SchemaRegistryClient, unique: Unique
) -> None:
    topic = unique("books")
    converter = make(JsonSchemaConverter, registry.url)
    ours = write(converter, topic, ROW)
    document = json.dumps(json_schema(BOOK, JsonOptions()))
    deserialize = JSONDeserializer(None, schema_registry_client=client)
    as_json = {**ROW, "cover": "AP8="}
    assert deserialize(ours, about(topic)) == as_json
    # The text is the registered one, so it is found and not registered again.
    serialize = JSONSerializer(
        client.get_latest_version(f"{topic}-value").schema.schema_str,
        client,
        conf={"auto.register.schemas": False},
    )
    theirs = serialize(as_json, about(topic))
    assert theirs is not None
    assert theirs[:5] == ours[:5]
    assert json.loads(theirs[5:]) == json.loads(ours[5:])
    assert read(converter, topic, theirs) == read(converter, topic, ours) == ROW
    assert json.loads(client.get_latest_version(f"{topic}-value").schema.schema_str) == (
        json.loads(document)
    )


def test_json_schemas_built_on_others_are_read(
    registry: RegistryProcess, client: SchemaRegistryClient, unique: Unique
) -> None:
    topic, people = unique("orders"), unique("people")
    person = {"type": "object", "properties": {"name": {"type": "string"}}, "title": "Person"}
    client.register_schema(people, RegisteredSchema(json.dumps(person), "JSON"))
    order = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Order",
        "type": "object",
        "properties": {"by": {"$ref": "person.json"}, "count": {"type": "integer"}},
    }
    serialize = JSONSerializer(
        RegisteredSchema(json.dumps(order), "JSON", [SchemaReference("person.json", people, 1)]),
        client,
    )
    value = {"by": {"name": "Ishmael"}, "count": 3}
    theirs = serialize(value, about(topic))
    for strict in ("false", "true"):
        converter = make(JsonSchemaConverter, registry.url, json__fail__invalid__schema=strict)
        assert read(converter, topic, theirs) == value


def book_message() -> Any:
    """The class of the message that is written for a book."""
    made = message_file(BOOK, ProtobufOptions())
    pool = pool_of(from_base64(to_base64(made.file)))
    return GetMessageClass(message_at(pool, "default", made.path))


def test_protobuf_is_read_and_written_as_confluent_kafka_does(
    registry: RegistryProcess, client: SchemaRegistryClient, unique: Unique
) -> None:
    topic = unique("books")
    converter = make(ProtobufConverter, registry.url)
    ours = write(converter, topic, ROW)
    Book = book_message()
    deserialize = ProtobufDeserializer(Book, {}, client)
    message = deserialize(ours, about(topic))
    assert (message.title, message.pages, message.cover) == ("Moby-Dick; ü", 635, b"\0\xff")
    # In its own subject: its schema has full type names, like the compiler's, but ours has those of
    # the JVM's converter, which a registry that compares texts rejects.
    other = unique("books")
    theirs = ProtobufSerializer(Book, client)(message, about(other))
    assert theirs is not None
    assert theirs[5:] == ours[5:]
    assert read(converter, other, theirs) == read(converter, topic, ours) == ROW
    latest = {"auto__register__schemas": "false", "use__latest__version": "true"}
    assert write(make(ProtobufConverter, registry.url, **latest), other, ROW) == theirs


NESTED = """
    name: "shop/order.proto" package: "shop" syntax: "proto3" dependency: "shop/money.proto"
    message_type { name: "Nothing" }
    message_type {
      name: "Order"
      field { name: "id" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
      nested_type {
        name: "Line"
        field { name: "price" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                type_name: ".shop.Money" }
        field { name: "count" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
      }
    }
"""
MONEY = """
    name: "shop/money.proto" package: "shop" syntax: "proto3"
    message_type {
      name: "Money"
      field { name: "cents" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 }
    }
"""


def test_nested_messages_of_imported_files_are_read(
    registry: RegistryProcess, client: SchemaRegistryClient, unique: Unique
) -> None:
    topic = unique("lines")
    money, order = (text_format.Parse(text, FileDescriptorProto()) for text in (MONEY, NESTED))
    pool = pool_of(order, [money])
    Line = GetMessageClass(pool.FindMessageTypeByName("shop.Order.Line"))
    # confluent-kafka registers the imported file under its own name and refers to it.
    theirs = ProtobufSerializer(Line, client)(Line(price={"cents": 250}, count=2), about(topic))
    assert theirs is not None
    assert theirs[5:8] == b"\x04\x02\x00"
    converter = make(ProtobufConverter, registry.url)
    assert read(converter, topic, theirs) == {"price": {"cents": 250}, "count": 2}


@pytest.mark.parametrize("kind", [JsonSchemaConverter, ProtobufConverter])
def test_a_registry_that_is_gone_may_be_tried_again(
    kind: type[Converter], tmp_path: Path, unique: Unique
) -> None:
    topic = unique("gone")
    with RegistryProcess(tmp_path) as registry:
        cell = write(make(kind, registry.url), topic, ROW)
        url = registry.url
    converter = make(kind, url, max__retries="0")
    failed: Failed = {}
    assert converter.to_connect([topic] * 3, [cell] * 3, failed).values == [None] * 3
    assert converter.from_connect([topic], Column.of([ROW], BOOK), failed) == [None]
    assert all(isinstance(error, Unavailable) for error in failed.values())
    assert failed.keys() == {0, 1, 2}


def test_answers_of_the_registry_are_kept(
    registry: RegistryProcess, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("kept")
    converter = make(ProtobufConverter, registry.url)
    cell = write(converter, topic, ROW)
    read(converter, topic, cell)

    def refuse(*_: object, **__: object) -> httpx.Response:
        raise AssertionError("it was asked again")

    monkeypatch.setattr(httpx.Client, "request", refuse)
    monkeypatch.setattr(httpx.Client, "send", refuse)
    assert read(converter, topic, cell) == ROW
    assert write(converter, topic, ROW) == cell

"""The client: its requests, its caches, and how failures are shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.errors import DataError, Unavailable
from penstock.schema_registry.client import (
    Lookups,
    Misused,
    Reference,
    RegistryClient,
    RegistrySchema,
    WriterSchemas,
    explained,
)
from penstock.schema_registry.settings import REGISTRY
from penstock.schema_registry.transport import MockTransport, Refused


def record(*fields: str, name: str = "R") -> RegistrySchema:
    inside = ",".join(f'{{"name":"{each}","type":"int"}}' for each in fields)
    return RegistrySchema(f'{{"type":"record","name":"{name}","fields":[{inside}]}}')


class Counting:
    """A registry's transport that keeps requests."""

    def __init__(self, scope: str) -> None:
        self.way = MockTransport(scope)
        self.asked: list[str] = []
        self.down = False

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Any:
        self.asked.append(f"{method} {path}")
        if self.down:
            raise Unavailable("down")
        return self.way.request(method, path, query, body)


class FakeClock:
    def __init__(self) -> None:
        self.ms = 0

    def now(self) -> int:
        return self.ms


def made(scope: str, **props: str) -> tuple[RegistryClient, Counting, FakeClock]:
    config = REGISTRY.parse(
        {"schema.registry.url": "mock://x", **{k.replace("_", "."): v for k, v in props.items()}}
    )
    way, clock = Counting(scope), FakeClock()
    return RegistryClient(config, way=way, clock=clock), way, clock


def test_immutable_answers_are_asked_for_once(scope: str) -> None:
    client, way, _ = made(scope)
    assert client.register("t-value", record("a")) == client.register("t-value", record("a")) == 1
    assert client.schema(1) is client.schema(1)
    assert client.schema(1).text == record("a").text
    assert client.lookup("t-value", record("a")).version == 1
    assert client.lookup("t-value", record("a")).id == 1
    assert way.asked == [
        "POST /subjects/t-value/versions",
        "GET /schemas/ids/1",
        "POST /subjects/t-value",
    ]


def test_subjects_are_encoded(scope: str) -> None:
    client, way, _ = made(scope)
    client.register("a/b c-value", record("a"))
    assert way.asked == ["POST /subjects/a%2Fb%20c-value/versions"]
    assert client.latest("a/b c-value").subject == "a/b c-value"


def test_the_latest_version_is_as_new_as_the_settings_ask_for(scope: str) -> None:
    client, way, clock = made(scope, latest_cache_ttl_sec="10")
    way.way.registry.answer("PUT", "/config", {}, {"compatibility": "NONE"})
    client.register("s", record("a"))
    assert client.latest("s").version == 1
    client.register("s", record("a", "b"))
    clock.ms = 9_999
    assert client.latest("s").version == 1
    clock.ms = 10_000
    assert client.latest("s").version == 2


def test_the_latest_with_metadata_is_found(scope: str) -> None:
    client, way, _ = made(scope)
    for major in ("1", "2"):
        way.way.registry.answer(
            "POST",
            "/subjects/s/versions",
            {},
            {**record("a").body(), "metadata": {"properties": {"major": major, "a&b": "c=d"}}},
        )
    assert client.latest("s").version == 2
    assert client.latest("s", {"major": "1"}).version == 1
    assert client.latest("s", {"major": "2", "a&b": "c=d"}).version == 2
    with pytest.raises(Refused, match="40402"):
        client.latest("s", {"major": "3"})


def test_references_come_after_those_they_refer_to(scope: str) -> None:
    client, _, _ = made(scope)
    client.register("a", record("x", name="n.A"))
    middle = RegistrySchema(
        '{"type":"record","name":"n.B","fields":[{"name":"a","type":"n.A"}]}',
        references=(Reference("n.A", "a", 1),),
    )
    client.register("b", middle)
    top = RegistrySchema(
        '{"type":"record","name":"n.C","fields":[{"name":"b","type":"n.B"},'
        '{"name":"a","type":"n.A"}]}',
        references=(Reference("n.B", "b", 1), Reference("n.A", "a", 1)),
    )
    number = client.register("c", top)
    assert list(client.referenced(client.schema(number))) == ["n.A", "n.B"]


def test_a_failed_look_up_is_made_once_a_batch() -> None:
    lookups, tries = Lookups(), []

    def find() -> int:
        tries.append(1)
        raise DataError("no such schema")

    for _ in range(5):
        with pytest.raises(DataError, match="no such schema"):
            lookups.of("x", find)
    assert len(tries) == 1
    assert lookups.of("y", lambda: 2) == 2


def test_after_one_failure_to_answer_no_other_look_up_is_made() -> None:
    lookups, tries = Lookups(), []

    def find() -> int:
        tries.append(1)
        raise Unavailable("down")

    for key in range(5):
        with pytest.raises(Unavailable, match="down"):
            lookups.of(key, find)
    assert len(tries) == 1
    assert Lookups().of(0, lambda: 1) == 1


WRITTEN = record("a")
NEWER = RegistrySchema(
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},'
    '{"name":"b","type":"int","default":0}]}'
)
FOREIGN = record("z")


def never(chosen: RegistrySchema, own: RegistrySchema) -> str | None:
    return None


def always(chosen: RegistrySchema, own: RegistrySchema) -> str | None:
    return "z is missing"


def test_a_schema_is_registered_when_the_settings_say_so(scope: str) -> None:
    client, way, _ = made(scope)
    config = REGISTRY.parse({"schema.registry.url": "mock://x"})
    assert WriterSchemas(client, config, always).of("s", WRITTEN) == (1, WRITTEN)
    assert way.asked == ["POST /subjects/s/versions"]


@pytest.mark.parametrize(
    ("props", "found"),
    [
        ({}, (1, WRITTEN)),
        ({"use.latest.version": "true"}, (2, NEWER)),
        ({"use.schema.id": "2"}, (2, NEWER)),
        ({"use.schema.id": "2", "use.latest.version": "true"}, (2, NEWER)),
    ],
)
def test_without_registering_the_settings_say_which_schema_is_written(
    scope: str, props: dict[str, str], found: tuple[int, RegistrySchema]
) -> None:
    client, _, _ = made(scope)
    client.register("s", WRITTEN)
    client.register("s", NEWER)
    config = REGISTRY.parse(
        {"schema.registry.url": "mock://x", "auto.register.schemas": "false", **props}
    )
    assert WriterSchemas(client, config, never).of("s", WRITTEN) == found


def test_a_schema_the_registry_lacks_is_refused_without_registering(scope: str) -> None:
    client, _, _ = made(scope)
    client.register("s", NEWER)
    config = REGISTRY.parse({"schema.registry.url": "mock://x", "auto.register.schemas": "false"})
    with pytest.raises(Refused, match="Schema not found; error code: 40403"):
        WriterSchemas(client, config, never).of("s", WRITTEN)


@pytest.mark.parametrize(
    ("chosen", "setting"),
    [
        ({"use.latest.version": "true"}, "latest.compatibility.strict"),
        ({"use.schema.id": "1"}, "id.compatibility.strict"),
    ],
)
def test_a_schema_that_does_not_go_with_the_records_is_refused_if_strict(
    scope: str, chosen: dict[str, str], setting: str
) -> None:
    client, _, _ = made(scope)
    client.register("s", WRITTEN)
    props = {"schema.registry.url": "mock://x", "auto.register.schemas": "false", **chosen}
    strict = WriterSchemas(client, REGISTRY.parse(props), always)
    with pytest.raises(DataError, match=f"z is missing.*Set {setting}=false"):
        strict.of("s", FOREIGN)
    lenient = WriterSchemas(client, REGISTRY.parse({**props, setting: "false"}), always)
    assert lenient.of("s", FOREIGN) == (1, WRITTEN)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("a=b,c=d", "key=a&value=b&key=c&value=d"),
        (" a=b ", "key=a&value=b"),
        ("'a=b,c',d=e", "key=a&value=b%2Cc&key=d&value=e"),
    ],
)
def test_metadata_is_given_as_pairs(scope: str, text: str, query: str) -> None:
    client, way, _ = made(scope)
    config = REGISTRY.parse(
        {
            "schema.registry.url": "mock://x",
            "auto.register.schemas": "false",
            "use.latest.with.metadata": text,
        }
    )
    with pytest.raises(Refused):
        WriterSchemas(client, config, never).of("s", WRITTEN)
    assert way.asked == [f"GET /subjects/s/metadata?{query}"]


@pytest.mark.parametrize(
    ("cause", "kind", "java", "message"),
    [
        (
            Unavailable("down"),
            Unavailable,
            "org.apache.kafka.connect.errors.RetriableException",
            "N down",
        ),
        (
            Refused(409, 409, "incompatible"),
            Misused,
            "org.apache.kafka.common.config.ConfigException",
            "R incompatible; error code: 409",
        ),
        (
            Refused(404, 40403, "Schema 7 not found"),
            DataError,
            "org.apache.kafka.connect.errors.DataException",
            "F Schema 7 not found; error code: 40403",
        ),
    ],
)
def test_failures_are_reported_as_kafka_connect_does(
    cause: Exception, kind: type[Exception], java: str, message: str
) -> None:
    error = explained(cause, network="N", refused="R", failed="F")
    assert type(error) is kind
    assert (error.java_name, str(error)) == (java, message)
    assert error.__cause__ is cause
    assert error.retriable is (kind is Unavailable)

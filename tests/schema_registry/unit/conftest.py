"""What tests of registry converters share: in-process registries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from penstock.api import Use
from penstock.schema_registry.avro import AVRO_CONVERTER, AvroConverter
from penstock.schema_registry.transport import MockTransport

from .avro_examples import Make

_numbers = itertools.count(1)


@pytest.fixture
def scope() -> Iterator[str]:
    """The name of a registry for one test; its URL is `mock://` and this."""
    name = f"unit-{next(_numbers)}"
    yield name
    MockTransport.forget(name)


@pytest.fixture
def registry_url(scope: str) -> str:
    return f"mock://{scope}"


@pytest.fixture
def ask(scope: str) -> Callable[..., tuple[int, object]]:
    """Sends a request to the test's own registry; status and body."""
    registry = MockTransport(scope).registry

    def request(method: str, path: str, body: object = None, **query: str) -> tuple[int, object]:
        answer = registry.answer(method, path, query, body)  # type: ignore[arg-type]
        return answer.status, answer.body

    return request


@pytest.fixture
def avro(registry_url: str) -> Make:
    """Makes a converter on the test's own registry; settings with `_` for `.`."""

    def converter(use: Use = Use.VALUE, **props: str) -> AvroConverter:
        given = {name.replace("_", "."): text for name, text in props.items()}
        return AvroConverter(
            AVRO_CONVERTER.parse({"schema.registry.url": registry_url, **given}), use
        )

    return converter

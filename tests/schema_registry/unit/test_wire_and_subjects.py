"""How messages name their schemas, and the subjects of these."""

from __future__ import annotations

import pytest

from penstock.api.converter import Use
from penstock.errors import DataError
from penstock.schema_registry import settings, wire
from penstock.schema_registry.settings import REGISTRY
from penstock.schema_registry.subjects import SubjectNames


@pytest.mark.parametrize(
    ("number", "head"),
    [(1, b"\0\0\0\0\1"), (0x01020304, b"\0\1\2\3\4"), (2**31 - 1, b"\0\x7f\xff\xff\xff")],
)
def test_the_id_stands_before_the_payload(number: int, head: bytes) -> None:
    assert wire.head(number) == head
    assert wire.schema_id(head + b"payload") == number


@pytest.mark.parametrize("cell", [b"", b"\0", b"\0\0\0\1", b"\1\0\0\0\1x", b"{}     "])
def test_messages_that_do_not_begin_with_an_id_are_told_apart(cell: bytes) -> None:
    with pytest.raises(wire.NotFramed, match="Unknown magic byte!"):
        wire.schema_id(cell)


@pytest.mark.parametrize(
    ("strategy", "use", "subject"),
    [
        (settings.TOPIC_NAME, Use.KEY, "t-key"),
        (settings.TOPIC_NAME, Use.VALUE, "t-value"),
        (settings.TOPIC_NAME, Use.HEADER, "t-value"),
        (settings.RECORD_NAME, Use.KEY, "a.R"),
        (settings.TOPIC_RECORD_NAME, Use.VALUE, "t-a.R"),
    ],
)
def test_the_strategy_names_the_subject(strategy: str, use: Use, subject: str) -> None:
    config = REGISTRY.parse(
        {
            "schema.registry.url": "mock://x",
            "key.subject.name.strategy": strategy,
            "value.subject.name.strategy": strategy,
        }
    )
    assert SubjectNames(config, use).of("t", "a.R") == subject


def test_a_record_is_needed_where_its_name_is() -> None:
    config = REGISTRY.parse(
        {"schema.registry.url": "mock://x", "key.subject.name.strategy": settings.RECORD_NAME}
    )
    with pytest.raises(DataError, match="the message key must only be a record schema"):
        SubjectNames(config, Use.KEY).of("t", None)
    assert SubjectNames(config, Use.VALUE).of("t", None) == "t-value"

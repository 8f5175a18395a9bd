"""Sinks under chaos behind transforms that route the records of a partition to several topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from .base import Family
from .jdbc import Postgres
from .objects import S3

ROUTES: Final = ("", "left", "right")
"""The header of a record, by `number % 3`; it has a topic of its own."""


def _named(kind: str, name: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {f"{kind}.{name}.{setting}": value for setting, value in settings.items()}


BY_HEADER: Final[Mapping[str, str]] = {
    "transforms": "left,right",
    "predicates": "left,right",
    **{
        setting: value
        for route in ROUTES[1:]
        for setting, value in {
            **_named(
                "transforms",
                route,
                {
                    "type": "org.apache.kafka.connect.transforms.RegexRouter",
                    "regex": "(.*)",
                    "replacement": f"$1-{route}",
                    "predicate": route,
                },
            ),
            **_named(
                "predicates",
                route,
                {
                    "type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
                    "name": route,
                },
            ),
        }.items()
    },
}
"""Records of one partition get three topics."""

BY_HEADER_AND_MINUTE: Final[Mapping[str, str]] = {
    **BY_HEADER,
    "transforms": "left,right,minute",
    **_named(
        "transforms",
        "minute",
        {
            "type": "org.apache.kafka.connect.transforms.TimestampRouter",
            "topic.format": "${topic}-${timestamp}",
            "timestamp.format": "yyyyMMddHHmm",
        },
    ),
}
"""Records of one partition get three topics, and another three each minute."""


class Routed(Family):
    """Records are routed by their headers; only those of one topic are in order."""

    _topic = ""

    def headers(self, number: int) -> Sequence[tuple[str, bytes]]:
        route = ROUTES[number % len(ROUTES)]
        return [(route, b"1")] if route else []

    def stream(self, key: str, number: int) -> object:
        return number % len(ROUTES)

    def prepare(self, topic: str) -> None:
        self._topic = topic
        super().prepare(topic)

    def topics(self) -> list[str]:
        """The topics that records are routed to."""
        return [f"{self._topic}-{route}" if route else self._topic for route in ROUTES]

    def topic_of(self, number: int) -> str:
        return self.topics()[number % len(ROUTES)]


class S3Routed(Routed, S3):
    """Each record in an object of its topic, once."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {**super().config(topic, port), **BY_HEADER_AND_MINUTE}

    def check_place(self, name: str, row: Mapping[str, Any]) -> None:
        routed, _, minute = name.split("/")[1].rpartition("-")
        assert len(minute) == len("yyyyMMddHHmm"), name
        assert routed == self.topic_of(int(row["n"])), f"{row} is in {name}"


class PostgresRouted(Routed, Postgres):
    """Inserts into the table of each record's topic."""

    def __init__(self) -> None:
        super().__init__("insert")

    def prepare(self, topic: str) -> None:
        self._topic = topic
        for table in self.topics():
            self._execute(
                f'CREATE TABLE "{table}" (seq serial, n bigint, id varchar(20), text varchar(40))'
            )

    def config(self, topic: str, port: int) -> dict[str, str]:
        tables = {"table.name.format": "${topic}"}
        return {**super().config(topic, port), **tables, **BY_HEADER}

    def refuse(self, keys: Iterable[str]) -> None:
        self.mend()
        names = ", ".join(f"'{key}'" for key in keys)
        self._alter(f"ADD CONSTRAINT refused CHECK (id NOT IN ({names})) NOT VALID")

    def mend(self) -> None:
        self._alter("DROP CONSTRAINT IF EXISTS refused")

    def _alter(self, change: str) -> None:
        self._execute(*(f'ALTER TABLE "{table}" {change}' for table in self.topics()))

    def stored(self) -> Iterable[tuple[str, int]]:
        for table in self.topics():
            with self._server.connect() as connection:
                for key, number in connection.rows(f'SELECT id, n FROM "{table}" ORDER BY seq'):
                    assert self.topic_of(int(number)) == table, f"{number} is in {table}"
                    yield str(key), int(number)

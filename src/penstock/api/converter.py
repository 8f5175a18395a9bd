"""The contract of a converter: one side of a batch between Kafka's bytes and Connect values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

from penstock.api.plugin import Plugin
from penstock.config.define import Config
from penstock.data.columns import Cells, Fields
from penstock.data.records import Column, Failed


class Use(Enum):
    """What a converter instance converts; the values are those of `converter.type`."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"


class HeaderConverter(ABC):
    """Converts Kafka's bytes to Connect values and back, a batch at a time.

    An instance is created once per task and use from its parsed configuration; it may keep caches.
    A cell that cannot be converted gets an entry in `failed` (a `DataError` wherever Kafka Connect
    raises its DataException) and None in its place; an error whose `retriable` is true, such as an
    unavailable server, is retried within `errors.retry.timeout`. It never raises for a cell, and
    does not modify its arguments.
    """

    plugin: ClassVar[Plugin]

    def __init__(self, config: Config, use: Use) -> None:
        self.config = config
        self.use = use

    @abstractmethod
    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        """The values of `cells` with their schemas; `topics[i]` is the topic of cell i."""

    def to_fields(self, cells: Cells) -> Fields | None:
        """The result of `to_connect` as `Fields`, for writers that take them. None falls back to
        `to_connect`: always allowed, and required if a cell is null or fails."""
        return None

    @abstractmethod
    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        """The bytes of `column`'s values for Kafka; `topics[i]` is the topic of row i."""

    def close(self) -> None:  # noqa: B027 - few hold resources
        """Releases resources. Called once, when the task has ended."""


class Converter(HeaderConverter):
    """Converts keys, values and, like every converter, headers."""

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
    """What a converter instance converts; the value is what `converter.type` says."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"


class HeaderConverter(ABC):
    """Turns bytes of Kafka's into Connect values and back, a batch at a time.

    An instance is made once per task and use from its parsed configuration; it may keep caches. A
    cell that cannot be converted gets an entry in `failed` (a `DataError` wherever Kafka Connect
    would raise its DataException) and None in its place; an error whose `retriable` is true, such
    as a server that does not answer, is tried again as `errors.retry.timeout` allows. It never
    raises for a cell. What it is given stays as it is.
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
        """What `to_connect` would give for the values of these, for writers that take `Fields`.
        None, which is always right, leaves them to `to_connect`; so it has to be where a cell is
        null or fails."""
        return None

    @abstractmethod
    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        """The bytes of `column`'s values as they go to Kafka; `topics[i]` is the topic of row i."""

    def close(self) -> None:  # noqa: B027 - few hold something open
        """Lets go of what is held open. Called once, when the task has ended."""


class Converter(HeaderConverter):
    """Converts keys, values, and, as every converter can, headers too."""

"""The contract of a converter: one side of a batch between Kafka's bytes and Connect values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from penstock.api.plugin import Plugin
from penstock.config.define import Config
from penstock.data.records import Column

Failed = dict[int, Exception]
"""Rows that could not be converted, and why. Their place in the result holds None."""


class Converter(ABC):
    """Turns Kafka's bytes into Connect values and back, a batch at a time.

    An instance is made once per task and side (key, value) from its parsed configuration; it may
    keep caches. A row that cannot be converted gets an entry in `failed` (a `DataError` wherever
    Kafka Connect would raise its DataException) and None in its place; it never raises for a row.
    """

    plugin: ClassVar[Plugin]

    def __init__(self, config: Config, *, is_key: bool) -> None:
        self.config = config
        self.is_key = is_key

    @abstractmethod
    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        """The values of `cells` with their schemas; `topics[i]` is the topic of row i."""

    @abstractmethod
    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        """The bytes of `column`'s values as they go to Kafka; `topics[i]` is the topic of row i."""

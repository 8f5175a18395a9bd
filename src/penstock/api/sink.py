"""The contract of a sink connector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from penstock.api.connector import Connector
from penstock.config.define import Config
from penstock.data.records import Failed, Records


class SinkWriter(ABC):
    """Writes one task's records to the target; stays open over many batches.

    A writer that can use values as Arrow's arrays, a field at a time, says so by `takes_fields`;
    the values of a batch may be `Fields` then. For others these would only be a detour.
    """

    takes_fields: ClassVar[bool] = False

    @abstractmethod
    def write(self, records: Records, failed: Failed) -> None:
        """Writes every record, in order; when it returns, the target has them.

        A record that the target refuses gets an entry in `failed`, by its row; the others are
        written. Raise an error with `retriable` to be given the whole batch again after a while;
        any other error fails the task. What is given stays as it is.
        """

    def close(self) -> None:  # noqa: B027 - not every target holds something open
        """Lets go of what is held open."""


class SinkConnector(Connector):
    """Moves records from Kafka into another system."""

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        """Called before a user's change of a stopped connector's offsets (by topic and partition;
        None: forgotten) is committed. Raise PenstockError to refuse it. True if nothing has to be
        changed elsewhere (KIP-875)."""
        return False

    @abstractmethod
    def open(self, config: Config) -> SinkWriter:
        """A writer for one task; `config` is the task's own configuration."""

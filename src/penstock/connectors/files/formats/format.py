"""The contract of formats for writing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, Protocol, TypeVar

from penstock.api import Column, DataError, Failed
from penstock.api.schema import Schema

Data = bytes | bytearray | memoryview

E = TypeVar("E")


class Out(Protocol):
    """Receives the bytes of a file. Never fails: the store reports errors elsewhere."""

    def write(self, data: Data, /) -> int: ...


class Encoder(ABC, Generic[E]):
    """Writes one file. Its bytes depend only on the records, not on their batches, unless memory is
    short (`relieve`)."""

    held_bytes: int = 0
    """About how many of the appended bytes are still in memory."""

    @abstractmethod
    def encode(self, column: Column) -> E | Failed:
        """Encodes values of the file's schema for `append`; or returns the rows that this format
        cannot represent, with their errors. Changes nothing."""

    @abstractmethod
    def append(self, encoded: E) -> None:
        """Writes the result of the last `encode`."""

    def relieve(self) -> None:
        """Writes held bytes to free memory."""

    @abstractmethod
    def finish(self) -> None:
        """Writes the end of the file."""


class Format(ABC):
    """Writes files of a format."""

    needs_schema: ClassVar[bool] = False
    structs_only: ClassVar[bool] = False
    """Whether keys and headers are written as the only field of a struct, `RecordKey` and
    `RecordHeaders`, as Confluent's connectors do in Parquet."""

    @property
    @abstractmethod
    def ending(self) -> str:
        """The extension of file names, with the dot."""

    @abstractmethod
    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[object]:
        """Begins a file. `seed`, its name, distinguishes it from others. Raises DataError for a
        schema that the format cannot represent."""

    def require(self, schema: Schema | None, name: str) -> Schema:
        """The schema; raises DataError if there is none."""
        if schema is None:
            raise DataError(
                f"{name} files need records with a schema; use a converter that provides one, or "
                "another format.class"
            )
        return schema

"""The contract of a format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, Protocol, TypeVar

from penstock.api import Column, DataError, Failed
from penstock.api.schema import Schema

Data = bytes | bytearray | memoryview

E = TypeVar("E")


class Out(Protocol):
    """Where the bytes of a file go. Never fails: what cannot be stored is told elsewhere."""

    def write(self, data: Data, /) -> int: ...


class Encoder(ABC, Generic[E]):
    """Writes one file. What is written depends on the records alone, not on how they come, unless
    memory is short (`relieve`)."""

    held_bytes: int = 0
    """About how much of what was appended is still here."""

    @abstractmethod
    def encode(self, column: Column) -> E | Failed:
        """The values of a column, which are of the file's schema, as what `append` takes; or, if
        there are any, the rows that this format cannot hold, and why. Changes nothing."""

    @abstractmethod
    def append(self, encoded: E) -> None:
        """Writes what the last `encode` made."""

    def relieve(self) -> None:
        """Writes what is held, for others need the memory."""

    @abstractmethod
    def finish(self) -> None:
        """Writes what a whole file ends with."""


class Format(ABC):
    """How records become a file."""

    needs_schema: ClassVar[bool] = False
    structs_only: ClassVar[bool] = False
    """Whether keys and headers are written as the only field of a struct, `RecordKey` and
    `RecordHeaders`, as Confluent's connectors do in Parquet."""

    @property
    @abstractmethod
    def ending(self) -> str:
        """What names of its files end with, from the dot on."""

    @abstractmethod
    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[object]:
        """Begins a file. `seed` is what makes it differ from others: its name. Raises DataError for
        a schema that no file of this format can have."""

    def require(self, schema: Schema | None, name: str) -> Schema:
        """The schema; raises DataError where there is none."""
        if schema is None:
            raise DataError(
                f"{name} files need records with a schema; use a converter that gives one, or "
                "another format.class"
            )
        return schema

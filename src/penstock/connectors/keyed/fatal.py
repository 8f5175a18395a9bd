"""Keeps the error that ends a writer: one that is not retriable.

After such an error some records of a batch are not stored. If a later `flush` succeeded, their
offsets would be committed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from penstock.api import Failed, Records, SinkWriter, TopicPartition, is_transient


class FatalError:
    """The first error of a writer that is not retriable; every later call raises it again.

    >>> fatal = FatalError()
    >>> with fatal.kept():
    ...     raise ValueError("refused")
    Traceback (most recent call last):
    ValueError: refused
    >>> with fatal.kept():
    ...     print("flushed")
    Traceback (most recent call last):
    ValueError: refused
    """

    def __init__(self) -> None:
        self._error: Exception | None = None

    def check(self) -> None:
        """Raises the error, if there was one."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Raises the earlier error, or runs the block and keeps the error that it raises."""
        self.check()
        try:
            yield
        except Exception as error:
            if not is_transient(error):
                self._error = error
            raise


class FailingWriter(SinkWriter):
    """A writer whose calls all fail after an error that is not retriable.

    `write_batch` writes the records; when it returns, the target has them.
    """

    def __init__(self) -> None:
        self._fatal = FatalError()

    @abstractmethod
    def write_batch(self, records: Records, failed: Failed) -> None:
        """Does what `write` promises, for at least one record."""

    def write(self, records: Records, failed: Failed) -> None:
        if not len(records):
            return
        with self._fatal.kept():
            self.write_batch(records, failed)

    def flush(self) -> None:
        self._fatal.check()

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._fatal.check()
        return reached

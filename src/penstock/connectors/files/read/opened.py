"""A file that is being read, with the files of its keys and headers."""

from __future__ import annotations

from dataclasses import replace

from penstock.api import Column, DataError, Failed
from penstock.api.schema import Schema, Value
from penstock.connectors.files.formats.decoder import Chunk, Decoder, Position, Truncated
from penstock.connectors.files.read.plan import Beside, ReadingOf, SourcePlan
from penstock.connectors.files.read.rows import Side, restored_headers
from penstock.connectors.files.read.scan import Work
from penstock.connectors.files.stores.reading import ListedFile, OpenFile, ReadStore


class Opened:
    """Reads one file from a position on. Raises errors of stores and decoders."""

    def __init__(self, plan: SourcePlan, store: ReadStore, work: Work) -> None:
        self._files: list[_File] = []
        path, position = work.found.path, work.position
        growing = plan.finding.tails
        try:
            reading = plan.reading
            if work.target.tombstones and plan.keys is not None:
                reading = plan.keys.reading
            self._values = self._add(store, reading, work.found, position, growing=growing)
            self._keys = self._headers = None
            if plan.keys is not None and not work.target.tombstones:
                self._keys = self._beside(store, plan.keys, path, position)
            if plan.headers is not None:
                self._headers = self._beside(store, plan.headers, path, position)
        except BaseException:
            self.close()
            raise

    def read(self, max_bytes: int) -> tuple[Chunk, Side] | None:
        """The next records; None at the end, or if a growing file has no more yet."""
        chunk = self._values.decoder.read(max_bytes)
        if chunk is None:
            return None
        side = Side()
        count = len(chunk.values)
        failed = dict(chunk.failed)
        if self._keys is not None:
            side.keys = self._keys.take(count, failed)
        if self._headers is not None:
            side.headers = restored_headers(self._headers.take(count, failed))
        return replace(chunk, failed=failed), side

    def close(self) -> None:
        """Never fails."""
        for file in self._files:
            file.close()

    def _add(
        self,
        store: ReadStore,
        reading: ReadingOf,
        found: ListedFile,
        position: Position,
        *,
        growing: bool = False,
    ) -> _File:
        file = _File(store.open(found, growing=growing), found.path)
        self._files.append(file)
        file.decoder = reading(found.path).open(file.input, position, growing=growing)
        return file

    def _beside(self, store: ReadStore, beside: Beside, path: str, position: Position) -> _File:
        start = f"{beside.stem(path)}.{beside.what}."
        found = next(store.list(start, recursive=False), None)
        if found is None:
            raise DataError(
                f"The file of its {beside.what} is missing: no name begins with '{start}'; set "
                f"store.kafka.{beside.what}=false if they were not stored"
            )
        begin = Position(position.record, None) if position.record else Position()
        return self._add(store, beside.reading, found, begin)


class _File:
    """One of the files, with rows that were read but not taken yet."""

    decoder: Decoder

    def __init__(self, file: OpenFile, path: str) -> None:
        self.input = file
        self._path = path
        self._values: list[Value] = []
        self._schemas: list[Schema | None] = []
        self._failed: Failed = {}
        self._at = 0

    def take(self, count: int, failed: Failed) -> Column:
        """The next `count` values."""
        while len(self._values) - self._at < count:
            chunk = self.decoder.read(1 << 20)
            if chunk is None:
                raise Truncated(
                    f"'{self._path}', the file of its keys or headers, has fewer records"
                )
            self._values = self._values[self._at :]
            self._schemas = self._schemas[self._at :]
            self._failed = {row - self._at: error for row, error in self._failed.items()}
            self._at = 0
            begin = len(self._values)
            self._values += chunk.values.values
            self._schemas += chunk.values.schemas()
            self._failed |= {row + begin: error for row, error in chunk.failed.items()}
        stop = self._at + count
        for row, error in self._failed.items():
            if self._at <= row < stop:
                failed.setdefault(row - self._at, error)
        column = Column.gather(self._values[self._at : stop], self._schemas[self._at : stop])
        self._at = stop
        return column

    def close(self) -> None:
        decoder = getattr(self, "decoder", None)
        if decoder is not None:
            decoder.close()
        self.input.close()

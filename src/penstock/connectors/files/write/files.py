"""Open files, and spans whose files are being stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.api import Column, DataError, Failed, Header, Records
from penstock.api.schema import ProjectionError, Schema, Value, projector, struct, text
from penstock.connectors.files.boundaries.spans import Place, Schemas
from penstock.connectors.files.formats.format import Encoder, Format
from penstock.connectors.files.stores.store import FileExists, NewFile, Origin
from penstock.connectors.files.write.rows import HEADERS
from penstock.connectors.files.write.shapes import Shape

_WRAPPERS: Final = {"keys": ("RecordKey", "key"), "headers": ("RecordHeaders", "headers")}

Side = Callable[[Records, Failed], Column]
"""Returns the column of records that goes to one of the files: their values, keys or headers."""


@dataclass(slots=True)
class _Part:
    """One of the files that hold the same rows."""

    side: Side
    ending: str
    file: NewFile
    encoder: Encoder[Any]


class OpenFiles:
    """The file of a folder, with those of its keys and headers: all of them hold the same rows."""

    def __init__(
        self,
        create: Callable[[str], NewFile],
        schemas: Schemas,
        formats: Sequence[tuple[str, Format]],
        path: Callable[[str, int], str],
        shape: Shape | None = None,
        *,
        create_only: bool = False,
        origin: Origin | None = None,
    ) -> None:
        """`formats`: for each of `values`, `keys` and `headers` that is written. `path` returns the
        name of a file by its ending and last offset. `origin` has no timestamp yet. Raises
        DataError for schemas that a format does not support."""
        self.rows = 0
        self._path = path
        self._origin = Origin() if origin is None else origin
        self._offsets = (0, 0)  # of the first and the last record
        self._parts: list[_Part] = []
        for content, format in formats:
            ending = format.ending if content == "values" else f".{content}{format.ending}"
            file = create(path(ending, 0))
            file.create_only = create_only
            schema, side = _side(content, schemas, shape)
            if content != "values" and schema is not None and format.structs_only:
                schema, side = _wrapped(_WRAPPERS[content], schema, side)
            self._parts.append(_Part(side, ending, file, format.open(schema, file, file.path)))

    @property
    def files(self) -> list[NewFile]:
        return [part.file for part in self._parts]

    def write(self, records: Records, rows: Sequence[int], failed: Failed) -> None:
        """Adds these rows of `records`. Rows that a format cannot hold get an entry in `failed`."""
        batch_rows = rows
        remaining = records if len(rows) == len(records) else records.only(rows)
        while len(remaining):
            bad: Failed = {}
            encoded: list[Any] = []
            for part in self._parts:
                column = part.side(remaining, bad)
                if bad:
                    break
                result = part.encoder.encode(column)
                if isinstance(result, dict):
                    bad = result
                    break
                encoded.append(result)
            if not bad:
                for part, encoded_column in zip(self._parts, encoded, strict=True):
                    part.encoder.append(encoded_column)
                first = self._offsets[0] if self.rows else remaining.offsets[0]
                if not self.rows:
                    self._origin = replace(self._origin, first_ms=remaining.timestamps[0])
                self._offsets = (first, remaining.offsets[-1])
                self.rows += len(remaining)
                return
            failed.update((batch_rows[row], error) for row, error in bad.items())
            good = [row for row in range(len(remaining)) if row not in bad]
            batch_rows = [batch_rows[row] for row in good]
            remaining = remaining.only(good)

    @property
    def held_bytes(self) -> int:
        """Approximate memory that the formats hold."""
        return sum(part.encoder.held_bytes for part in self._parts)

    def relieve(self) -> None:
        """Makes the formats write what they hold."""
        for part in self._parts:
            part.encoder.relieve()

    def settle(self) -> None:
        """See `NewFile.settle`."""
        for part in self._parts:
            part.file.settle()

    def finish(self) -> list[NewFile]:
        """Completes the contents and names of the files, and returns them."""
        start, end = self._offsets
        for part in self._parts:
            part.encoder.finish()
            part.file.path = self._path(part.ending, end)
            part.file.origin = self._origin
            part.file.about = {
                "startOffset": str(start),
                "endOffset": str(end),
                "recordCount": str(self.rows),
            }
        return self.files

    def drop(self) -> None:
        for part in self._parts:
            part.file.drop()


def _side(content: str, schemas: Schemas, shape: Shape | None) -> tuple[Schema | None, Side]:
    value, key = schemas
    if shape is not None:
        return shape.schema(schemas), lambda records, failed: shape.column(records, schemas, failed)
    if content == "keys":
        return key, lambda records, failed: records.keys
    if content == "headers":
        return HEADERS, lambda records, failed: _headers(records)
    return value, lambda records, failed: _projected(records.values, value, failed)


def _wrapped(names: tuple[str, str], schema: Schema, side: Side) -> tuple[Schema, Side]:
    """Wraps a side in a struct with one field; `names`: of the struct and of the field."""
    name, field = names
    outer = struct({field: schema}, name=name)

    def wrapped(records: Records, failed: Failed) -> Column:
        return Column.of([{field: value} for value in side(records, failed).values], outer)

    return outer, wrapped


def _headers(records: Records) -> Column:
    headers: Sequence[Sequence[Header]] = records.headers or [()] * len(records)
    rows: list[Value] = [
        [{"key": name, "value": text(schema, value)} for name, value, schema in row]
        for row in headers
    ]
    return Column.of(rows, HEADERS)


def _projected(column: Column, schema: Schema | None, failed: Failed) -> Column:
    """Projects the values to the schema of the file; rows that fail get an entry in `failed`."""
    if all(run.schema is schema or run.schema == schema for run in column.runs):
        return column
    values: list[Value] = []
    for source, start, stop in column.slices():
        project = projector(source, schema)
        for row in range(start, stop):
            value = column.values[row]
            try:
                value = project(value)
            except (ProjectionError, DataError) as error:
                failed[row] = error
            values.append(value)
    return Column.of(values, schema)


class Storing:
    """A span whose files are complete. Other threads store them after `begin`."""

    def __init__(
        self,
        offset: int,
        files: Sequence[tuple[Place, NewFile]],
        pool: Executor,
        publish: Callable[[Sequence[NewFile], int], None] | None = None,
        before: Storing | None = None,
    ) -> None:
        """`files`, each with its topic and folder. `publish` is called when all are committed and
        the span `before` is published."""
        self.offset = offset
        self.replaces = False
        """Whether it replaces files of others, so that no later span may be stored at once."""
        self._files = files
        self._pool = pool
        self._publish = publish
        self._before = before
        self._commits: list[Future[None]] | None = None
        self._publication: Future[None] | None = None

    def begin(self) -> None:
        """Starts storing the files, unless that has begun."""
        if self._commits is None:
            self._commits = [self._pool.submit(file.commit) for _, file in self._files]
            if self._publish is not None:
                self._submit_publication()

    def _submit_publication(self) -> None:
        """Call this after the jobs that it waits for are submitted: the pool takes jobs in turn, so
        these are running or done by then."""
        waits = list(self._commits or ())
        if self._before is not None and self._before._publication is not None:
            waits.append(self._before._publication)

        def publish() -> None:
            assert self._publish is not None, "it is why this was submitted"
            for future in waits:
                future.result()
            self._publish([file for _, file in self._files], self.offset)
            self._before = None

        self._publication = self._pool.submit(publish)

    def _futures(self) -> list[Future[None]]:
        commits = list(self._commits or ())
        return commits if self._publication is None else [*commits, self._publication]

    @property
    def is_stored(self) -> bool:
        """Whether all files are stored."""
        return self._commits is not None and all(
            future.done() and _error(future) is None for future in self._futures()
        )

    def ends_of_others(self) -> dict[Place, int]:
        """The last offsets of files that other writers have stored under the same names. If there
        is one, waits for the others."""
        ends: dict[Place, int] = {}
        commits = () if self.replaces else self._commits or ()
        if not any(isinstance(_error(each), FileExists) for each in commits if each.done()):
            return ends
        for (place, _), future in zip(self._files, commits, strict=True):
            error = _error(future)
            if isinstance(error, FileExists):
                ends[place] = max(error.end, ends.get(place, error.end))
        return ends

    def replace_others(self, offset: int) -> None:
        """Replaces files of other writers from now on; the span has another offset."""
        self.offset = offset
        self.replaces = True
        for _, file in self._files:
            file.create_only = False

    def retry(self) -> None:
        """Retries files that could not be stored. Call this for spans in order."""
        if self._commits is None:
            return
        for index, future in enumerate(self._commits):
            if future.done() and _error(future) is not None:
                self._commits[index] = self._pool.submit(self._files[index][1].commit)
        publication = self._publication
        if publication is not None and publication.done() and _error(publication) is not None:
            self._submit_publication()

    def wait_for_all(self) -> None:
        """Waits until every file has been stored or has failed."""
        for future in self._futures():
            _error(future)

    def wait(self) -> None:
        """Waits until all files are stored. Raises the error of one that could not be."""
        self.begin()
        for future in self._futures():
            error = _error(future)
            if error is not None:
                raise error

    def drop(self) -> None:
        """Drops the files that are not stored, once no thread is storing them any more."""
        for future in reversed(self._futures()):
            future.cancel()
        for future in self._futures():
            if not future.cancelled():
                _error(future)
        for _, file in self._files:
            file.drop()


def _error(future: Future[None]) -> BaseException | None:
    """Waits for the future."""
    return future.exception()

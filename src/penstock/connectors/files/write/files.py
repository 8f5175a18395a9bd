"""Files that are open, and spans that are being stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, Final

from penstock.api import Column, DataError, Failed, Header, Records
from penstock.api.schema import ProjectionError, Schema, Value, projector, struct, text
from penstock.connectors.files.boundaries.spans import Schemas
from penstock.connectors.files.formats.format import Encoder, Format
from penstock.connectors.files.stores.store import FileExists, NewFile
from penstock.connectors.files.write.rows import HEADERS
from penstock.connectors.files.write.shapes import Shape

_WRAPPERS: Final = {"keys": ("RecordKey", "key"), "headers": ("RecordHeaders", "headers")}

Side = Callable[[Records, Failed], Column]
"""What of records goes to one of the files: their values, keys or headers."""


@dataclass(slots=True)
class _Part:
    """One of the files that go together."""

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
        anew: bool = False,
    ) -> None:
        """`formats` are those of what is written, by `values`, `keys` or `headers`; `path` gives
        the name of a file by its ending and its last offset. Raises DataError for what a format
        does not have."""
        self.rows = 0
        self._path = path
        self._offsets = (0, 0)  # of the first and the last record
        self._parts: list[_Part] = []
        for what, format in formats:
            ending = format.ending if what == "values" else f".{what}{format.ending}"
            file = create(path(ending, 0))
            file.anew = anew
            schema, side = _side(what, schemas, shape)
            if what != "values" and schema is not None and format.structs_only:
                schema, side = _wrapped(_WRAPPERS[what], schema, side)
            self._parts.append(_Part(side, ending, file, format.open(schema, file, file.path)))

    @property
    def files(self) -> list[NewFile]:
        return [part.file for part in self._parts]

    def write(self, records: Records, rows: Sequence[int], failed: Failed) -> None:
        """Adds these rows, but those that get an entry in `failed`: rows of `records`."""
        places = rows
        some = records if len(rows) == len(records) else records.only(rows)
        while len(some):
            bad: Failed = {}
            encoded: list[Any] = []
            for part in self._parts:
                column = part.side(some, bad)
                if bad:
                    break
                result = part.encoder.encode(column)
                if isinstance(result, dict):
                    bad = result
                    break
                encoded.append(result)
            if not bad:
                for part, each in zip(self._parts, encoded, strict=True):
                    part.encoder.append(each)
                first = self._offsets[0] if self.rows else some.offsets[0]
                self._offsets = (first, some.offsets[-1])
                self.rows += len(some)
                return
            failed.update((places[row], error) for row, error in bad.items())
            good = [row for row in range(len(some)) if row not in bad]
            places = [places[row] for row in good]
            some = some.only(good)

    @property
    def held_bytes(self) -> int:
        """About what the formats hold."""
        return sum(part.encoder.held_bytes for part in self._parts)

    def relieve(self) -> None:
        """Has the formats hold nothing."""
        for part in self._parts:
            part.encoder.relieve()

    def settle(self) -> None:
        """See `NewFile.settle`."""
        for part in self._parts:
            part.file.settle()

    def finish(self) -> list[NewFile]:
        """The files, with all that belongs in them."""
        start, end = self._offsets
        for part in self._parts:
            part.encoder.finish()
            part.file.path = self._path(part.ending, end)
            part.file.about = {
                "startOffset": str(start),
                "endOffset": str(end),
                "recordCount": str(self.rows),
            }
        return self.files

    def drop(self) -> None:
        for part in self._parts:
            part.file.drop()


def _side(what: str, schemas: Schemas, shape: Shape | None) -> tuple[Schema | None, Side]:
    value, key = schemas
    if shape is not None:
        return shape.schema(schemas), lambda records, failed: shape.column(records, schemas, failed)
    if what == "keys":
        return key, lambda records, failed: records.keys
    if what == "headers":
        return HEADERS, lambda records, failed: _headers(records)
    return value, lambda records, failed: _projected(records.values, value, failed)


def _wrapped(names: tuple[str, str], schema: Schema, side: Side) -> tuple[Schema, Side]:
    """The same as the only field of a struct: the struct's name and that of its field."""
    name, field = names
    outer = struct({field: schema}, name=name)

    def wrapped(records: Records, failed: Failed) -> Column:
        return Column.of([{field: each} for each in side(records, failed).values], outer)

    return outer, wrapped


def _headers(records: Records) -> Column:
    each: Sequence[Sequence[Header]] = records.headers or [()] * len(records)
    rows: list[Value] = [
        [{"key": name, "value": text(schema, value)} for name, value, schema in row] for row in each
    ]
    return Column.of(rows, HEADERS)


def _projected(column: Column, schema: Schema | None, failed: Failed) -> Column:
    """The values as those of the file's schema."""
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
    """A span whose files are complete, and are being stored by other threads, once it `begin`s."""

    def __init__(
        self,
        offset: int,
        files: Sequence[tuple[str, NewFile]],
        pool: Executor,
        publish: Callable[[Sequence[NewFile], int], None] | None = None,
        before: Storing | None = None,
    ) -> None:
        """`files`, each with its folder. With `publish`, that is called when all files are
        committed, and when it has been for the span `before`."""
        self.offset = offset
        self._files = files
        self._pool = pool
        self._publish = publish
        self._before = before
        self._commits: list[Future[None]] | None = None
        self._publication: Future[None] | None = None

    def begin(self) -> None:
        """Has the files stored, if that has not begun."""
        if self._commits is None:
            self._commits = [self._pool.submit(file.commit) for _, file in self._files]
            if self._publish is not None:
                self._submit_publication()

    def _submit_publication(self) -> None:
        """To be called after what is waited for is submitted: so the pool, which takes jobs in
        turn, is at work on that, or done with it."""
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

    def ends_of_others(self) -> dict[str, int]:
        """The last offsets of files that other writers have stored under the same names, by
        folder."""
        found: dict[str, int] = {}
        for (folder, _), future in zip(self._files, self._commits or (), strict=False):
            error = _error(future) if future.done() else None
            if isinstance(error, FileExists):
                found[folder] = max(error.end, found.get(folder, error.end))
        return found

    def try_again(self) -> None:
        """Has files stored that could not be before. Of spans in order the first one first."""
        if self._commits is None:
            return
        for at, future in enumerate(self._commits):
            if future.done() and _error(future) is not None:
                self._commits[at] = self._pool.submit(self._files[at][1].commit)
        last = self._publication
        if last is not None and last.done() and _error(last) is not None:
            self._submit_publication()

    def wait_for_all(self) -> None:
        """Returns when no file is being stored any more, whatever came of it."""
        for future in self._futures():
            _error(future)

    def wait(self) -> None:
        """Returns when all files are stored. Raises the error of one that could not be."""
        self.begin()
        for future in self._futures():
            error = _error(future)
            if error is not None:
                raise error

    def drop(self) -> None:
        """Gives up what is not stored, when nobody is storing it any more."""
        for future in reversed(self._futures()):
            future.cancel()
        for future in self._futures():
            if not future.cancelled():
                _error(future)
        for _, file in self._files:
            file.drop()


def _error(future: Future[None]) -> BaseException | None:
    """Waits for the end of it."""
    return future.exception()

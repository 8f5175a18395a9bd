"""Large files that are read in parallel ranges.

A poll returns the ranges of a window of the file as its parts, and the offset after the window. A
range has the records that begin in it, so together the ranges have each record once. Records keep
their order within a range, but not between ranges.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from penstock.api import DataError, Failed, Records, SourceContext
from penstock.connectors.files.formats.decoder import Position
from penstock.connectors.files.read.names import Target
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.read.rows import Side, dressed
from penstock.connectors.files.read.scan import Work
from penstock.connectors.files.stores.reading import ListedFile, ReadStore
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

log = logging.getLogger(__name__)

_WINDOW: Final = 8  # ranges of a poll: the maximum number of shared slots
_CHUNK_BYTES: Final = 1 << 20
_TRIES: Final = 5
_PAUSE_S: Final = 1.0
_LOGGED: Final = 10


@dataclass(frozen=True, slots=True)
class Range:
    """The records of a file that begin at a byte from `begin` up to `stop`; None: up to its end."""

    found: ListedFile
    topic: str
    partition: int | None
    begin: int
    stop: int | None

    def part(self) -> str:
        """The range as a part of a poll."""
        found = self.found
        file = [found.path, found.size, found.modified_ms, found.version, found.identity]
        return orjson.dumps([file, self.topic, self.partition, self.begin, self.stop]).decode()

    @classmethod
    def of(cls, part: str) -> Range:
        """The range of a part of a poll."""
        file, topic, partition, begin, stop = orjson.loads(part)
        return cls(ListedFile(*file), topic, partition, begin, stop)


def is_split(plan: SourcePlan, work: Work) -> bool:
    """Whether the rest of a file is read in ranges: it is larger than one range, its format is
    splittable, and nothing counts its records."""
    begin = work.position.byte
    if not plan.split_bytes or begin is None or work.position.record:
        return False
    return work.found.size - begin > plan.split_bytes and plan.reading(work.found.path).splittable


def window(plan: SourcePlan, work: Work) -> tuple[list[Range], int]:
    """The next ranges of a file, and the byte after them."""
    size, step = work.found.size, plan.split_bytes
    begin = work.position.byte or 0
    stop = min(size, begin + _WINDOW * step)
    target = work.target
    ranges = [
        Range(
            work.found,
            target.topic,
            target.partition,
            first,
            None if first + step >= size else first + step,
        )
        for first in range(begin, stop, step)
    ]
    return ranges, stop


def records_of(
    plan: SourcePlan, store: ReadStore, context: SourceContext, range: Range
) -> Iterator[Records]:
    """The records of a range. Retries a few times if the store is unavailable. Raises DataError
    with the file's name, unless the plan skips such files."""
    position = Position(0, range.begin)
    skipped = 0
    tries = 0
    while True:
        try:
            for records, failed, after in _read(plan, store, range, position):
                tries = 0
                if failed and not plan.errors.skips_records:
                    raise failed[min(failed)]
                for row in sorted(failed):
                    skipped += 1
                    if skipped <= _LOGGED:
                        path = range.found.path
                        log.error("A record of '%s' is skipped: %s", path, failed[row])
                yield records.but(failed) if failed else records
                position = after
            return
        except StoreUnavailable:
            tries += 1
            if tries == _TRIES or not context.is_running:
                raise
            context.wait(_PAUSE_S)
        except (DataError, StoreRefused) as error:
            text = (
                f"The file '{range.found.path}' cannot be read, from byte {range.begin} on: "
                f"{str(error).rstrip('.')}."
            )
            if plan.errors.skips_files:
                log.error("%s The rest of this range is skipped (%s).", text, plan.errors.setting)
                return
            raise DataError(
                f"{text} Repair or remove the file, or set {plan.errors.setting} to skip such "
                "files."
            ) from error


def _read(
    plan: SourcePlan, store: ReadStore, range: Range, position: Position
) -> Iterator[tuple[Records, Failed, Position]]:
    work = Work(range.found, Target(range.topic, range.partition, ""), position)
    file = store.open(range.found)
    try:
        decoder = plan.reading(range.found.path).open(file, position, range.stop)
        try:
            while (chunk := decoder.read(_CHUNK_BYTES)) is not None:
                failed: Failed = dict(chunk.failed)
                first = chunk.after.record - len(chunk.values)
                records = dressed(plan.dress, work, first, chunk.values, Side(), failed)
                yield records, failed, chunk.after
        finally:
            decoder.close()
    finally:
        file.close()

"""Large files that are read in ranges, side by side.

A poll gives the ranges of a window of the file as its parts, and the offset behind the window. A
range has the records that begin in it, so that together they have each once. Their order is that of
the file within a range, and any between ranges.
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
from penstock.connectors.files.stores.reading import Found, ReadStore
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

log = logging.getLogger(__name__)

_WINDOW: Final = 8  # ranges of a poll: as many as there are shared slots at most
_AT_ONCE: Final = 1 << 20
_TRIES: Final = 5
_PAUSE_S: Final = 1.0
_LOGGED: Final = 10


@dataclass(frozen=True, slots=True)
class Range:
    """The records of a file that begin at a byte from `begin` up to `stop`; None: up to its end."""

    found: Found
    topic: str
    partition: int | None
    begin: int
    stop: int | None

    def part(self) -> str:
        """The range as a part of a poll."""
        found = self.found
        about = [found.path, found.size, found.modified_ms, found.version, found.identity]
        return orjson.dumps([about, self.topic, self.partition, self.begin, self.stop]).decode()

    @classmethod
    def of(cls, part: str) -> Range:
        """The range of such a part."""
        about, topic, partition, begin, stop = orjson.loads(part)
        return cls(Found(*about), topic, partition, begin, stop)


def is_split(plan: SourcePlan, work: Work) -> bool:
    """Whether what is left of a file is read in ranges: it is larger than one, its format can be
    entered there, and nothing counts its records."""
    begin = work.position.byte
    if not plan.split_bytes or begin is None or work.position.record:
        return False
    return work.found.size - begin > plan.split_bytes and plan.reading(work.found.path).splittable


def window(plan: SourcePlan, work: Work) -> tuple[list[Range], int]:
    """The next ranges of a file, and the byte behind them."""
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
    """The records of a range. A store that does not answer is asked again a few times. Raises
    DataError with the file's name, unless such errors are left out."""
    position = Position(0, range.begin)
    left_out = 0
    tries = 0
    while True:
        try:
            for records, failed, after in _read(plan, store, range, position):
                tries = 0
                if failed and not plan.errors.skips_records:
                    raise failed[min(failed)]
                for row in sorted(failed):
                    left_out += 1
                    if left_out <= _LOGGED:
                        path = range.found.path
                        log.error("A record of '%s' is left out: %s", path, failed[row])
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
                log.error("%s The rest of this range is left out (%s).", text, plan.errors.setting)
                return
            raise DataError(
                f"{text} Repair or remove the file, or set {plan.errors.setting} to leave such "
                "files out."
            ) from error


def _read(
    plan: SourcePlan, store: ReadStore, range: Range, position: Position
) -> Iterator[tuple[Records, Failed, Position]]:
    work = Work(range.found, Target(range.topic, range.partition, ""), position)
    file = store.open(range.found)
    try:
        decoder = plan.reading(range.found.path).open(file, position, range.stop)
        try:
            while (chunk := decoder.read(_AT_ONCE)) is not None:
                failed: Failed = dict(chunk.failed)
                first = chunk.after.record - len(chunk.values)
                records = dressed(plan.dress, work, first, chunk.values, Side(), failed)
                yield records, failed, chunk.after
        finally:
            decoder.close()
    finally:
        file.close()

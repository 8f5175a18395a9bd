"""`write`: converts lines to records, and writes these into a topic."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.cli.exits import CommandError, Unusable
from penstock.cli.records.lines import Written, record_of
from penstock.cli.records.settings import JSON, RAW, SIDES, RecordsSettings, settings_checked
from penstock.cli.records.sides import NOTHING, Cell, Side, Unwritable, side_of
from penstock.kafka import clients

_FLUSH_S: Final = 60.0
_CHUNK_BYTES: Final = 1 << 16
_DEFAULTS: Final = {"acks": "all", "linger.ms": "5"}

Headers = Sequence[tuple[str, bytes | None]]


class Writer:
    """Sends records to a topic; `close` returns when Kafka has stored them."""

    def __init__(self, settings: RecordsSettings, topic: str, partition: int | None) -> None:
        java = {**_DEFAULTS, **settings.java}
        with settings_checked():
            config: dict[str, Any] = {
                "delivery.timeout.ms": 30_000,  # a user waits for it
                "enable.idempotence": clients.may_be_idempotent(java),
                **settings.client(clients.producer(java)),
                "error_cb": lambda error: None,  # `_done` gets the error
            }
            self._producer = Producer(config)
        self._topic = topic
        self._place: dict[str, Any] = {} if partition is None else {"partition": partition}
        self._error: KafkaError | None = None
        self.stored = 0

    def send(
        self, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int | None
    ) -> None:
        """Sends one record. Raises CommandError when it, or one before it, is refused."""
        more = self._place if timestamp is None else {**self._place, "timestamp": timestamp}
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, headers=list(headers), on_delivery=self._done, **more
                )
                break
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                raise self._refused(error.args[0]) from error
        self._producer.poll(0)
        if self._error is not None:
            raise self._refused(self._error)

    def close(self) -> None:
        """Waits until Kafka has stored everything. Raises CommandError if it has not."""
        unsent = self._producer.flush(_FLUSH_S)
        if self._error is not None:
            raise self._refused(self._error)
        if unsent:
            raise CommandError(f"Kafka has not acknowledged {unsent} records of '{self._topic}'.")

    def _done(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.stored += 1
        elif self._error is None:
            self._error = error

    def _refused(self, error: KafkaError) -> CommandError:
        return CommandError(
            f"Kafka refused a record for '{self._topic}': {error.str()}.",
            f"{self.stored} records before it were written.",
        )


class Lines:
    """Writes lines into a topic, in one of three formats."""

    def __init__(
        self, settings: RecordsSettings, topic: str, form: str, separator: str | None
    ) -> None:
        self._topic = topic
        self._form = form
        self._separator = separator
        self._key, self._value, self._header = (side_of(settings, side) for side in SIDES)

    def write(self, file: str, writer: Writer) -> None:
        """Writes the lines of a file, `-` being standard input, as they come. Raises Unusable at
        the first one that cannot be written."""
        source = "standard input" if file == "-" else f"'{file}'"
        with _opened(file) as stream:
            number = 1
            for lines in _batches(stream):
                self._batch(lines, number, source, writer)
                number += len(lines)

    def _batch(self, batch: Sequence[bytes], number: int, source: str, writer: Writer) -> None:
        """Writes a batch, whose first line has this number, up to the first unwritable line."""
        if self._form == RAW:
            for line in batch:
                writer.send(None, line, (), None)
            return
        records: list[Written] = []
        problem: Exception | None = None
        for line in batch:
            try:
                records.append(self._record(line))
            except (ValueError, Unwritable) as error:
                problem = error
                break
        badly: dict[int, Exception] = {}
        topics = [self._topic] * len(records)
        keys = self._converted(self._key, topics, [record.key for record in records], "key", badly)
        values = self._converted(
            self._value, topics, [record.value for record in records], "value", badly
        )
        flat = [cell for record in records for _, cell in record.headers]
        rows = [row for row, record in enumerate(records) for _ in record.headers]
        cells = self._converted(
            self._header, [self._topic] * len(flat), flat, "header", badly, rows
        )
        remaining = iter(cells)
        for row, record in enumerate(records):
            headers = [(name, next(remaining)) for name, _ in record.headers]
            if row in badly:
                raise _unusable(number + row, source, badly[row])
            writer.send(keys[row], values[row], headers, record.timestamp)
        if problem is not None:
            raise _unusable(number + len(records), source, problem)

    def _record(self, line: bytes) -> Written:
        text = line.removesuffix(b"\r").decode()
        if self._form == JSON:
            return record_of(text)
        key = NOTHING
        if self._separator is not None:
            before, separator, after = text.partition(self._separator)
            if not separator:
                raise Unwritable(
                    f"it has no key: '{self._separator}' is not in it",
                    "--key-separator sets what separates the key.",
                )
            key, text = self._key.parsed(before), after
        return Written(key, self._value.parsed(text))

    def _converted(
        self,
        side: Side,
        topics: Sequence[str],
        cells: Sequence[Cell],
        name: str,
        badly: dict[int, Exception],
        rows: Sequence[int] | None = None,
    ) -> list[bytes | None]:
        if not cells:
            return []
        failed: dict[int, Exception] = {}
        written = side.write(topics, cells, failed)
        for place, error in failed.items():
            row = place if rows is None else rows[place]
            advice = "" if side.named else f"--{name}-converter, --connector or --worker name one."
            title = f" ({side.title})" if side.title else ""
            badly.setdefault(
                row, Unwritable(f"its {name} cannot be written{title}: {error}", advice)
            )
        return written


def _unusable(number: int, source: str, problem: Exception) -> Unusable:
    before = f" The {number - 1} before it were written." if number > 1 else ""
    text = f"Line {number} of {source}: {problem}.{before}"
    return Unusable(text, getattr(problem, "advice", ""))


@contextlib.contextmanager
def _opened(file: str) -> Iterator[BufferedIOBase]:
    if file == "-":
        yield cast("BufferedIOBase", sys.stdin.buffer)
        return
    try:
        stream = Path(file).expanduser().open("rb")
    except OSError as error:
        raise Unusable(f"Cannot read '{file}': {error.strerror}.") from error
    with stream:
        yield stream


def _batches(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """The lines, without their ends, as soon as they are read: a user may be typing them."""
    rest = b""
    while chunk := stream.read1(_CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]

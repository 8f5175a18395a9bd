"""What `read` prints: records in one of three formats, and notes about how they are shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import Message

from penstock.cli import show
from penstock.cli.exits import Exit
from penstock.cli.records.letters import letter
from penstock.cli.records.lines import HeaderCells, ShownRecord, json_line, text_lines
from penstock.cli.records.settings import JSON, RAW, SIDES, RecordsSettings
from penstock.cli.records.sides import Guessed, framed, side_of


class Printer:
    """Prints records, and notes once how records without a named converter are shown."""

    def __init__(self, settings: RecordsSettings, form: str, *, headers: bool, trace: bool) -> None:
        self._form = form
        self._headers = headers
        self._trace = trace
        self._connector = settings.connector
        self._key, self._value, self._header = (side_of(settings, side) for side in SIDES)
        self._kinds: dict[str, dict[str, None]] = {"keys": {}, "values": {}}
        self._failed = 0
        self._records = 0

    def print(self, batch: Sequence[Message]) -> None:
        if not batch:
            return
        self._records += len(batch)
        out = sys.stdout.buffer
        if self._form == RAW:
            out.write(b"".join((message.value() or b"") + b"\n" for message in batch))
        else:
            out.write("".join(self._lines(batch)).encode("utf-8", "backslashreplace"))
        out.flush()

    def _lines(self, batch: Sequence[Message]) -> Iterator[str]:
        for shown in self._shown(batch):
            if self._form == JSON:
                yield f"{json_line(shown).decode()}\n"
            else:
                lines = text_lines(shown, headers=self._headers, trace=self._trace)
                yield "".join(f"{show.plain(line)}\n" for line in lines)

    def _shown(self, batch: Sequence[Message]) -> Iterator[ShownRecord]:
        topics = [message.topic() or "" for message in batch]
        raw_keys, raw_values = (
            [message.key() for message in batch],
            [message.value() for message in batch],
        )
        self._say_guesses(raw_keys, raw_values)
        keys, values = self._key.read(topics, raw_keys), self._value.read(topics, raw_values)
        headers: list[list[tuple[str, bytes | None]]] = [_headers(message) for message in batch]
        decoded = self._header_cells(topics, headers)
        for row, message in enumerate(batch):
            self._failed += keys[row].error is not None or values[row].error is not None
            kind, ms = message.timestamp()
            yield ShownRecord(
                topics[row],
                message.partition() or 0,
                message.offset() or 0,
                ms if kind else None,
                keys[row],
                values[row],
                decoded[row],
                letter(headers[row]),
            )

    def _header_cells(
        self, topics: Sequence[str], headers: Sequence[Sequence[tuple[str, bytes | None]]]
    ) -> list[HeaderCells]:
        flat = [cell for row in headers for _, cell in row]
        of_topics = [topic for topic, row in zip(topics, headers, strict=True) for _ in row]
        cells = iter(self._header.read(of_topics, flat) if flat else ())
        return [[(name, next(cells)) for name, _ in row] for row in headers]

    def _say_guesses(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> None:
        """Notes guesses that were not made before; a key is expected to be a text."""
        guesses: list[str] = []
        for name, side, cells in (("keys", self._key, keys), ("values", self._value, values)):
            if not isinstance(side, Guessed):
                continue
            known_kinds = self._kinds[name]
            kinds = dict.fromkeys(kind for cell in cells if (kind := side.kind(cell)))
            new = [kind for kind in kinds if kind not in known_kinds]
            known_kinds.update(dict.fromkeys(new))
            if new and (name == "values" or new != ["text"]):
                guesses.append(f"{name} as {' and '.join(new)}")
                number = next((schema_id for cell in cells if (schema_id := framed(cell))), None)
                if "bytes" in new and number is not None:
                    guesses[-1] += f" (in a Schema Registry's format, of schema {number}?)"
        if guesses:
            advice = "To name one: --connector, --worker, --key-converter, --value-converter."
            if self._connector is not None:
                advice = (
                    f"'{self._connector}' uses its worker's converters: name the worker's "
                    "settings with --worker FILE."
                )
            show.note(f"Without a converter: {', '.join(guesses)}. {advice}")

    def end(self, topic: str) -> int:
        if not self._records:
            show.note(f"No records there in '{topic}'.")
        if self._failed:
            show.note(
                f"{self._failed} of {self._records} records could not be converted; their bytes "
                "are shown."
            )
        return Exit.DIFFERENT if self._failed else Exit.DONE


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    """A message's headers; the client's types allow more than it ever returns."""
    headers: Any = message.headers()
    return list(headers or ())

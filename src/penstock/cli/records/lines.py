"""Records as lines: of JSON, which can be written again, and of text, which people read.

    {"topic": "orders", "partition": 0, "offset": 41, "timestamp": 1700000000000,
     "headers": [{"name": "source", "value": "web"}], "key": "7", "value": {"id": 7}}

A key, a value or a header's value may be followed by the other fields of its `sides.Cell`:
`schema`, `encoding`, and the converter's `error` (`value_schema`; in a header `schema`). A dead
letter has its `failure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from penstock.cli.records.letters import PREFIX, LetterHeaders
from penstock.cli.records.sides import NOTHING, Cell, Unwritable, parse_json, text_of
from penstock.convert.json_write import dump

HeaderCells = Sequence[tuple[str, Cell]]

_PARTS: Final = ("schema", "encoding", "error")
_READ_ONLY: Final = ("topic", "partition", "offset", "failure")
_KNOWN: Final = frozenset(
    [*_READ_ONLY, "timestamp", "headers", "key", "value"]
    + [f"{side}_{part}" for side in ("key", "value") for part in _PARTS]
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """One record of a topic, its cells decoded."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None  # ms since the epoch
    key: Cell
    value: Cell
    headers: HeaderCells
    letter: LetterHeaders | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """One record to write."""

    key: Cell
    value: Cell
    headers: HeaderCells = ()
    timestamp: int | None = None


def json_line(shown: ShownRecord) -> bytes:
    document: dict[str, Any] = {
        "topic": shown.topic,
        "partition": shown.partition,
        "offset": shown.offset,
    }
    if shown.timestamp is not None:
        document["timestamp"] = shown.timestamp
    if shown.headers:
        document["headers"] = [
            {"name": name, **_members("value", cell, "")} for name, cell in shown.headers
        ]
    document |= _members("key", shown.key, "key_")
    document |= _members("value", shown.value, "value_")
    if shown.letter is not None:
        document["failure"] = shown.letter.document()
    return dump(document)


def _members(name: str, cell: Cell, prefix: str) -> dict[str, Any]:
    members = {name: cell.node}
    parts = zip(_PARTS, (cell.schema, cell.encoding, cell.error), strict=True)
    return members | {f"{prefix}{part}": value for part, value in parts if value is not None}


def text_lines(shown: ShownRecord, *, headers: bool, trace: bool) -> list[str]:
    """The record on a line, followed by lines for its headers, if requested, the converter's error,
    and why it is a dead letter."""
    timestamp = "" if shown.timestamp is None else f" {timestamp_text(shown.timestamp)}"
    key, value = _one_line(text_of(shown.key)), _one_line(text_of(shown.value))
    lines = [f"{shown.topic}-{shown.partition}@{shown.offset}{timestamp} key={key} value={value}"]
    for name, cell in (("key", shown.key), ("value", shown.value)):
        if cell.error is not None:
            lines.append(f"  {name} not converted: {_one_line(cell.error)}")
    if headers:
        lines += [
            f"  header {name}: {_one_line(text_of(cell))}"
            for name, cell in shown.headers
            if not name.startswith(PREFIX)  # these are shown as the failure
        ]
    if shown.letter is not None:
        lines += [f"  {line}" for line in shown.letter.lines(trace=trace)]
    return lines


def timestamp_text(ms: int) -> str:
    """A timestamp in UTC.

    >>> timestamp_text(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def record_of(line: str) -> Written:
    """The record that a line of JSON describes. Ignores where it was read, and why it failed there.
    Raises Unwritable."""
    try:
        document = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise Unwritable(
            f"it is not JSON: {error}", "--format line treats each line as a value."
        ) from error
    if not isinstance(document, dict):
        raise Unwritable(
            "it is not a JSON object",
            'A record is written {"key": …, "value": …, "headers": [{"name": …, "value": …}]}.',
        )
    unknown = sorted(set(document) - _KNOWN)
    if unknown:
        raise Unwritable(
            f"it has an unknown member '{unknown[0]}'",
            f"Known: {', '.join(sorted(_KNOWN))}.",
        )
    if "value" not in document:
        raise Unwritable("it has no 'value'", 'A record without a value has "value": null.')
    timestamp = document.get("timestamp")
    if timestamp is not None and (type(timestamp) is not int or timestamp < 0):
        raise Unwritable("its 'timestamp' is not a number of milliseconds since the epoch")
    return Written(
        _cell(document, "key", "key_"),
        _cell(document, "value", "value_"),
        _header_cells(document.get("headers")),
        timestamp,
    )


def _cell(document: Mapping[str, Any], name: str, prefix: str) -> Cell:
    cell = Cell(
        document.get(name), document.get(f"{prefix}schema"), document.get(f"{prefix}encoding")
    )
    return NOTHING if cell.node is None and cell.schema is None else cell


def _header_cells(headers: Any) -> HeaderCells:
    """Headers in their order, or as an object."""
    if headers is None:
        return ()
    if isinstance(headers, dict):
        return [(name, Cell(value)) for name, value in headers.items()]
    if not isinstance(headers, list):
        raise Unwritable("its 'headers' are not a list", 'Write [{"name": …, "value": …}].')
    for header in headers:
        if not isinstance(header, dict) or not isinstance(header.get("name"), str):
            raise Unwritable("one of its headers has no 'name'", 'Write {"name": …, "value": …}.')
        unknown = sorted(set(header) - {"name", "value", *_PARTS})
        if unknown:
            raise Unwritable(f"its header '{header['name']}' has an unknown member '{unknown[0]}'")
    return [(header["name"], _cell(header, "value", "")) for header in headers]

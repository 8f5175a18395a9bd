"""The wire format: a zero byte, the schema's id, the payload (kafka-connect.md §9.5).

    0       magic, 0x00
    1–4     schema id, big endian
    5–      payload; Protobuf's begins with the path to the message type

Ids in record headers (`__value_schema_id`) are not supported, as converters do not receive headers.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from penstock.errors import DataError

HEAD_SIZE: Final = 5
"""Number of bytes before the payload."""

_HEAD: Final = Struct(">bi")


def head(schema_id: int) -> bytes:
    """The bytes before every payload of that schema."""
    return _HEAD.pack(0, schema_id)


class NotFramed(DataError):
    """A message does not begin with the id of a schema."""


def schema_id(cell: bytes) -> int:
    """The id that a message begins with. Raises NotFramed, a DataError."""
    if len(cell) < HEAD_SIZE or cell[0]:
        raise NotFramed("Unknown magic byte!")
    return int.from_bytes(cell[1:HEAD_SIZE], signed=True)

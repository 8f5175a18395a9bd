"""Segments of protocol version 5 that arrive in pieces of any size."""

from __future__ import annotations

import io
from typing import Any

import pytest

from penstock.connectors.cassandra.client.reactor import WholeSegments, connection_class

connection_class(encrypts=False)  # the driver looks for an event loop when it is imported

from cassandra.connection import Connection, DefaultEndPoint  # noqa: E402 # see above
from cassandra.segment import SegmentCodec  # noqa: E402 # see above

SMALL = [1, 3, 0, 500, 2, 40]  # of bodies, in bytes
LARGE = [*SMALL, 140_000, 7]  # a segment holds 131,071


class Receiving:
    """Without a socket: keeps the sizes of messages instead of decoding them."""

    def process_msg(self, header: Any, body: bytes) -> None:
        self.__dict__.setdefault("sizes", []).append(len(body))

    def close(self) -> None:
        """Has nothing to close."""


class Theirs(Receiving, Connection):  # type: ignore[misc] # Any: the driver has no types
    """As the driver reads."""


class Ours(Receiving, WholeSegments, Connection):  # type: ignore[misc] # Any: see Theirs
    """As penstock reads."""


def received(connection: type, sizes: list[int], piece: int, damaged: int | None = None) -> Any:
    """A connection that has received messages of these sizes, `piece` bytes at a time; the byte at
    `damaged` is changed."""
    stream = io.BytesIO()
    for size in sizes:
        frame = bytes([0x85, 0, 0, 1, 8]) + size.to_bytes(4, "big") + b"x" * size
        SegmentCodec().encode(stream, frame)
    data = bytearray(stream.getvalue())
    if damaged is not None:
        data[damaged] ^= 1
    receiving = connection(DefaultEndPoint("127.0.0.1"), protocol_version=5)
    receiving._enable_checksumming()
    for start in range(0, len(data), piece):
        receiving._iobuf.write(bytes(data[start : start + piece]))
        receiving.process_io_buffer()
    return receiving


@pytest.mark.parametrize("piece", [1, 2, 5, 6, 7, 11, 64, 4096, 1 << 20])
def test_every_message_arrives_whatever_the_pieces(piece: int) -> None:
    sizes = SMALL if piece < 64 else LARGE
    connection = received(Ours, sizes, piece)
    assert connection.sizes == sizes
    assert not connection.is_defunct


@pytest.mark.parametrize(
    "damaged", [0, 4, 8, 16], ids=["header", "its CRC", "payload", "payload's CRC"]
)
def test_a_damaged_segment_breaks_the_connection(damaged: int) -> None:
    connection = received(Ours, [1], 1 << 20, damaged)
    assert connection.is_defunct
    assert "CRC mismatch" in str(connection.last_error)


@pytest.mark.xfail(strict=True, reason="PYTHON-1337: when this passes, WholeSegments can go")
def test_the_driver_loses_a_header_that_arrives_in_pieces() -> None:
    assert received(Theirs, SMALL, 5).sizes == SMALL

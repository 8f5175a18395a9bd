"""The frequent packets of MQTT: PUBLISH and its acknowledgements.

This module encodes and decodes them in bulk; paho handles all other packets.

>>> publish(0x32, Item(b"a/b", b"hi"), 7).hex(" ")
'32 09 00 03 61 2f 62 00 07 68 69'
>>> read_publish(0x32, bytes.fromhex("0003612f620007 6869"), 0, 9, v5=False)
Message(topic=b'a/b', payload=b'hi', flags=2, mid=7, properties=b'')
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.api import PenstockError

PUBLISH: Final = 0x30
PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x60
PUBCOMP: Final = 0x70
PINGRESP: Final = 0xD0

DUP: Final = 0x08
RETAIN: Final = 0x01

MAX_BYTES: Final = 268_435_455
"""The maximum size of a packet after its length field."""


class Malformed(PenstockError):
    """The broker has sent data that is not MQTT."""


class Message(NamedTuple):
    """A received PUBLISH packet. `flags`: the low four bits of its first byte; `mid`: 0 at QoS 0;
    `properties`: encoded as in MQTT 5, without their length."""

    topic: bytes
    payload: bytes
    flags: int
    mid: int
    properties: bytes

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3


class Item(NamedTuple):
    """A message to publish. `properties` begin with their length; None before MQTT 5."""

    topic: bytes
    payload: bytes
    properties: bytes | None = None


class Answer(NamedTuple):
    """A received PUBACK, PUBREC, PUBREL or PUBCOMP."""

    kind: int
    mid: int
    reason: int


def length_of(size: int) -> bytes:
    """Encodes a length as in MQTT."""
    if size < 128:
        return bytes((size,))
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)
    return bytes(out)


def publish(first: int, item: Item, mid: int) -> bytes:
    """Encodes a PUBLISH packet. `first`: its first byte, with QoS and flags. At QoS 0 it has no
    message id."""
    topic, payload, properties = item
    head = len(topic).to_bytes(2, "big") + topic
    if first & 6:
        head += mid.to_bytes(2, "big")
    if properties is not None:
        head += properties
    size = len(head) + len(payload)
    length = bytes((first, size)) if size < 128 else bytes((first,)) + length_of(size)
    return length + head + payload


def read_publish(first: int, packet: bytes, at: int, end: int, *, v5: bool) -> Message:
    """Decodes a PUBLISH packet from `at`, after its length field. Raises Malformed."""
    try:
        position = at + 2 + (packet[at] << 8 | packet[at + 1])
        topic = packet[at + 2 : position]
        mid = 0
        if first & 6:
            mid = packet[position] << 8 | packet[position + 1]
            position += 2
        properties = b""
        if v5:
            size = packet[position]
            position += 1
            if size:
                if size > 127:
                    size, position = read_length(packet, position - 1)
                properties = packet[position : position + size]
                position += size
    except IndexError:
        position = end + 1
    if position > end:
        raise Malformed("The broker sent a truncated PUBLISH packet")
    return Message(topic, packet[position:end], first & 15, mid, properties)


def read_length(packet: bytes, at: int) -> tuple[int, int]:
    """Decodes a length; returns it and the position after it. Raises IndexError if it is
    incomplete, Malformed if it is invalid."""
    size = shift = 0
    while True:
        digit = packet[at]
        at += 1
        size |= (digit & 127) << shift
        if digit < 128:
            return size, at
        shift += 7
        if shift > 21:
            raise Malformed("The broker sent a length of more than four bytes")


def acknowledgements(kind: int, mids: Iterable[int]) -> bytes:
    """Encodes successful acknowledgements of one kind for these messages."""
    first = kind | 2 if kind == PUBREL else kind
    head = bytes((first, 2))
    return b"".join([head + mid.to_bytes(2, "big") for mid in mids])

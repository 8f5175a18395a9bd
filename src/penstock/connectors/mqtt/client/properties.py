"""Properties of messages (MQTT 5, section 2.2.2).

>>> properties = Properties(content_type="text/plain", user=(("a", "1"), ("a", "2")))
>>> read(properties.packed()[1:]) == properties
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.connectors.mqtt.client.packets import Malformed, length_of, read_length

_FORMAT: Final = 0x01
_EXPIRY: Final = 0x02
_CONTENT_TYPE: Final = 0x03
_RESPONSE_TOPIC: Final = 0x08
_CORRELATION: Final = 0x09
_SUBSCRIPTION: Final = 0x0B
_ALIAS: Final = 0x23
_USER: Final = 0x26
_MAX_TEXT: Final = 65_535

NONE: Final = b"\x00"
"""Encoded empty properties, with their length."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a message; None: absent."""

    payload_format: int | None = None
    expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user: tuple[tuple[str, str], ...] = ()

    def packed(self) -> bytes:
        """Encodes the properties, with their length. Raises ValueError if one is too long or out
        of range."""
        out = bytearray()
        if self.payload_format is not None:
            out += bytes((_FORMAT, _in_range("payload format", self.payload_format, 1)))
        if self.expiry_s is not None:
            out.append(_EXPIRY)
            out += _in_range("message expiry", self.expiry_s, 2**32 - 1).to_bytes(4, "big")
        for code, text in (
            (_CONTENT_TYPE, self.content_type),
            (_RESPONSE_TOPIC, self.response_topic),
        ):
            if text is not None:
                out.append(code)
                out += _sized(text.encode())
        if self.correlation_data is not None:
            out.append(_CORRELATION)
            out += _sized(self.correlation_data)
        for name, value in self.user:
            out.append(_USER)
            out += _sized(name.encode()) + _sized(value.encode())
        return length_of(len(out)) + out


def read(packed: bytes) -> Properties:
    """Decodes properties without their length. Raises Malformed."""
    values: dict[int, int | bytes] = {}
    user: list[tuple[str, str]] = []
    position = 0
    try:
        while position < len(packed):
            code = packed[position]
            position += 1
            if code == _USER:
                name, position = _bytes(packed, position)
                value, position = _bytes(packed, position)
                user.append((name.decode(), value.decode()))
            elif code in _READERS:
                values[code], position = _READERS[code](packed, position)
            else:
                raise Malformed(f"The broker sent the unknown property {code}")
        return Properties(
            payload_format=_number(values.get(_FORMAT)),
            expiry_s=_number(values.get(_EXPIRY)),
            content_type=_text(values.get(_CONTENT_TYPE)),
            response_topic=_text(values.get(_RESPONSE_TOPIC)),
            correlation_data=_raw(values.get(_CORRELATION)),
            user=tuple(user),
        )
    except (IndexError, UnicodeDecodeError) as error:
        raise Malformed("The broker sent malformed properties") from error


def _bytes(packed: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + (packed[at] << 8 | packed[at + 1])
    if end > len(packed):
        raise IndexError
    return packed[at + 2 : end], end


def _int(size: int) -> Callable[[bytes, int], tuple[int, int]]:
    def read_int(packed: bytes, at: int) -> tuple[int, int]:
        if at + size > len(packed):
            raise IndexError
        return int.from_bytes(packed[at : at + size], "big"), at + size

    return read_int


_READERS: Final[dict[int, Callable[[bytes, int], tuple[int | bytes, int]]]] = {
    _FORMAT: _int(1),
    _EXPIRY: _int(4),
    _CONTENT_TYPE: _bytes,
    _RESPONSE_TOPIC: _bytes,
    _CORRELATION: _bytes,
    _SUBSCRIPTION: read_length,
    _ALIAS: _int(2),
}


def _number(value: int | bytes | None) -> int | None:
    return value if isinstance(value, int) else None


def _raw(value: int | bytes | None) -> bytes | None:
    return value if isinstance(value, bytes) else None


def _text(value: int | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else None


def _sized(text: bytes) -> bytes:
    if len(text) > _MAX_TEXT:
        raise ValueError("a property is longer than 65,535 bytes")
    return len(text).to_bytes(2, "big") + text


def _in_range(name: str, value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise ValueError(f"the {name} must be 0 to {most}, not {value}")
    return value

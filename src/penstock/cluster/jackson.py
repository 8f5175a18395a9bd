"""JSON as the JVM worker's Jackson writes it, byte for byte: compact, raw UTF-8, but `\\u001F` for
control characters and two surrogate escapes for a character beyond U+FFFF (observed with
connect-json 4.3.1)."""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite, isnan
from typing import Final

import orjson

from penstock.errors import DataError

_SPELLED_OTHERWISE: Final = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}|\\(?:u[0-9a-f]{4}|.)")
"""Characters beyond U+FFFF, which Jackson escapes as two surrogates, and all escapes."""


def dump(value: object) -> bytes:
    """Compact JSON, members in the order given. Raises DataError."""
    try:
        text = orjson.dumps(value)
    except TypeError as error:
        raise DataError(f"The record cannot be written as JSON: {error}") from error
    if text.isascii() and b"\\u" not in text:
        return text
    return _SPELLED_OTHERWISE.sub(_as_jackson, text)


def _as_jackson(match: re.Match[bytes]) -> bytes:
    spelled = match[0]
    if spelled.startswith(b"\\u"):
        return b"\\u" + spelled[2:].upper()
    if spelled.startswith(b"\\"):
        return spelled
    high, low = divmod(ord(spelled.decode()) - 0x10000, 0x400)
    return b"\\u%04X\\u%04X" % (0xD800 + high, 0xDC00 + low)


def double(value: float) -> object:
    """What `dump` writes for a double: `Double.toString`, and text where JSON has no number."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return value
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    scale = exponent + len(rest)
    return orjson.Fragment(f"{'-' * sign}{first}.{''.join(rest) or '0'}E{scale}")

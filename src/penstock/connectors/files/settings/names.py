"""Names of folders and objects that are made of texts of records."""

from __future__ import annotations

from penstock.api import DataError


def checked_name(text: str, name: str, kind: str, longest: int) -> str:
    """`name`, which was made of `text`. Raises DataError if it is not Unicode, or has more than
    `longest` bytes. `kind`: what it names, for the message."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError as cause:
        raise DataError(f"{text!r} is not a string, so it cannot be the name of {kind}") from cause
    if size > longest:
        raise DataError(f"{text[:40]!r}… is too long for the name of {kind}: {size} bytes")
    return name

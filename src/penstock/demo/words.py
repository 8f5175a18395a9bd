"""The demo's number formats."""

from __future__ import annotations


def percent(part: int, whole: int) -> str:
    """A share in whole percent; 100 % only when nothing is missing.

    >>> percent(999, 1000), percent(1000, 1000)
    ('99 %', '100 %')
    """
    return f"{min(100, 100 * part // whole) if whole else 100} %"


def size_words(size: int) -> str:
    """A number of bytes in the unit that fits.

    >>> size_words(999), size_words(44_082_292), size_words(1_073_741_824)
    ('999 bytes', '44.1 MB', '1.07 GB')
    """
    for unit, bytes_each, digits in (("GB", 1_000_000_000, 2), ("MB", 1_000_000, 1)):
        if size >= bytes_each:
            return f"{size / bytes_each:.{digits}f} {unit}"
    if size >= 1000:
        return f"{size / 1000:.1f} kB"
    return "1 byte" if size == 1 else f"{size} bytes"


def rate_words(rate: float) -> str:
    """Records per second.

    >>> rate_words(123456.7)
    '123,457 rec/s'
    """
    return f"{rate:,.0f} rec/s"

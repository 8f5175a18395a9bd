"""Logical values and their base values, as a table read both ways."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from penstock.data import logical
from penstock.data.schema import Value
from penstock.errors import DataError

DECIMALS = [
    ("0.00", 2, "00"),
    ("2.00", 2, "00c8"),
    ("-1.28", 2, "80"),
    ("1.28", 2, "0080"),
    ("-1.29", 2, "ff7f"),
    ("12345678901234567890123456789012345678.9", 1, "5ce0e9a56015fec5aadfa328ae398115"),
    ("5E+3", -3, "05"),
]


@pytest.mark.parametrize(("text", "scale", "hex"), DECIMALS)
def test_a_decimal_is_its_unscaled_value(text: str, scale: int, hex: str) -> None:
    assert logical.decimal_to_bytes(Decimal(text), scale).hex() == hex
    back = logical.bytes_to_decimal(bytes.fromhex(hex), scale)
    assert str(back) == text


def test_a_decimal_of_another_scale_is_refused() -> None:
    with pytest.raises(DataError, match="Decimal value has mismatching scale"):
        logical.decimal_to_bytes(Decimal("1.5"), 2)


def test_no_bytes_are_no_decimal() -> None:
    with pytest.raises(DataError, match="Zero length BigInteger"):
        logical.bytes_to_decimal(b"", 0)


MOMENTS: list[tuple[Callable[[Value], int], Callable[[int], Value], Value, int]] = [
    (logical.date_to_days, logical.days_to_date, date(1970, 1, 1), 0),
    (logical.date_to_days, logical.days_to_date, date(2024, 2, 29), 19_782),
    (logical.date_to_days, logical.days_to_date, date(1969, 12, 31), -1),
    (logical.time_to_ms, logical.ms_to_time, time(), 0),
    (logical.time_to_ms, logical.ms_to_time, time(23, 59, 59, 999_000), 86_399_999),
    (
        logical.timestamp_to_ms,
        logical.ms_to_timestamp,
        datetime(2023, 11, 14, 22, 13, 20, 1000, UTC),
        1_700_000_000_001,
    ),
    (
        logical.timestamp_to_ms,
        logical.ms_to_timestamp,
        datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC),
        -1,
    ),
]


@pytest.mark.parametrize(("encode", "decode", "value", "number"), MOMENTS)
def test_a_moment_is_a_number(
    encode: Callable[[Value], int], decode: Callable[[int], Value], value: Value, number: int
) -> None:
    assert encode(value) == number
    assert decode(number) == value


@pytest.mark.parametrize("ms", [-1, 86_400_000])
def test_a_time_lies_within_a_day(ms: int) -> None:
    with pytest.raises(DataError, match="greater than 0 and less than 86400000"):
        logical.ms_to_time(ms)


@pytest.mark.parametrize(
    ("decode", "number"),
    [(logical.days_to_date, 10**9), (logical.ms_to_timestamp, 2**62)],
)
def test_dates_outside_pythons_years_are_refused(
    decode: Callable[[int], Value], number: int
) -> None:
    with pytest.raises(DataError, match="outside the years 1 to 9999"):
        decode(number)


def test_a_timestamp_without_a_zone_is_refused() -> None:
    with pytest.raises(DataError, match="time zone"):
        logical.timestamp_to_ms(datetime(2024, 1, 1))  # noqa: DTZ001 - the point

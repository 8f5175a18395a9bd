"""Decimals in text."""

from __future__ import annotations

import pytest

from penstock.api import DataError
from penstock.connectors.files.formats.json_values import scaled


@pytest.mark.parametrize(
    ("text", "scale", "value"),
    [
        ("1.50", 2, "1.50"),
        ("1.5", 2, "1.50"),
        ("-0.05", 2, "-0.05"),
        ("1e2", 0, "100"),
        ("1500", -2, "1.5E+3"),
        ("7", 0, "7"),
    ],
)
def test_a_decimal_gets_its_scale(text: str, scale: int, value: str) -> None:
    assert str(scaled(text, scale)) == value


@pytest.mark.parametrize(
    ("text", "scale"),
    [("1.505", 2), ("1.5", -2), ("150", -2), ("1_0.25", 2), ("\u0661.00", 2), ("NaN", 2), ("x", 0)],
)
def test_an_invalid_decimal_is_refused(text: str, scale: int) -> None:
    with pytest.raises(DataError):
        scaled(text, scale)

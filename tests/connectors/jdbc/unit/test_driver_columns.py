"""Columns as a JDBC driver describes them."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.jdbc.read.columns import Mapping, cells_of, schema_of
from penstock.connectors.jdbc.read.driver import _column
from penstock.data import schema as s


@pytest.mark.parametrize("numeric", ["none", "best_fit"])
def test_a_number_of_oracle_without_precision_has_the_scale_of_the_jvms_connector(
    numeric: str,
) -> None:
    about: Any = SimpleNamespace(
        **{
            name: lambda at, value=value: value
            for name, value in {
                "getPrecision": 0,
                "getScale": -127,
                "isNullable": 0,
                "isSigned": True,
                "isAutoIncrement": False,
            }.items()
        }
    )
    column = _column(about, 1, "N", "NUMBER", 2)
    assert schema_of(column, Mapping(numeric=numeric)) == s.decimal(127)
    assert schema_of(column, Mapping(numeric=numeric, unlimited_scale=9)) == s.decimal(9)
    cells = cells_of(column, s.decimal(127), Mapping())
    assert cells(pa.array(["1.25"]))[0] == Decimal("1.25")

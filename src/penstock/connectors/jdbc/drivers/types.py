"""The types of columns by their JDBC names, and the Arrow types of their cells.

Between a driver and the records, cells are Arrow arrays:

    type                                 Arrow               Connect
    BOOLEAN                              bool                BOOLEAN
    BIT TINYINT SMALLINT INTEGER BIGINT  int64               INT8 … INT64, one wider if unsigned
    REAL, DOUBLE                         double              FLOAT32, FLOAT64
    NUMERIC, DECIMAL                     string, as written  Decimal, or what numeric.mapping says
    STRING, BYTES                        string, binary      STRING, BYTES
    DATE, TIME                           date32, time64(us)  Date, Time
    TIMESTAMP                            timestamp(us)       Timestamp, or timestamp.granularity
    TIMESTAMP of more than six digits    struct<us, ns>      the same; `ns` are beyond the `us`

A timestamp without a zone is a wall clock time in `db.timezone`; one with a zone is in UTC here.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import pyarrow as pa


class Sql(Enum):
    """The type of a column."""

    BOOLEAN = "BOOLEAN"
    BIT = "BIT"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    REAL = "REAL"
    DOUBLE = "DOUBLE"
    NUMERIC = "NUMERIC"
    DECIMAL = "DECIMAL"
    STRING = "STRING"
    BYTES = "BYTES"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"


NANOS: Final = pa.struct([("us", pa.timestamp("us")), ("ns", pa.int16())])

ARROW: Final = {
    Sql.BOOLEAN: pa.bool_(),
    Sql.BIT: pa.int64(),
    Sql.TINYINT: pa.int64(),
    Sql.SMALLINT: pa.int64(),
    Sql.INTEGER: pa.int64(),
    Sql.BIGINT: pa.int64(),
    Sql.REAL: pa.float64(),
    Sql.DOUBLE: pa.float64(),
    Sql.NUMERIC: pa.string(),
    Sql.DECIMAL: pa.string(),
    Sql.STRING: pa.string(),
    Sql.BYTES: pa.binary(),
    Sql.DATE: pa.date32(),
    Sql.TIME: pa.time64("us"),
    Sql.TIMESTAMP: pa.timestamp("us"),
}


def arrow_of(sql_type: Sql, digits: int = 0) -> pa.DataType:
    """The Arrow type of a column's cells; `digits` are those of a second in a timestamp."""
    return NANOS if sql_type is Sql.TIMESTAMP and digits > 6 else ARROW[sql_type]

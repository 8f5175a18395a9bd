"""Databases behind a JDBC driver, and how the SQL of each differs from the standard.

The URL or `dialect.name` selects a product. The types of SQL Server and Oracle are those of
connectors.md §3.2; for the other databases, the nearest equivalents. Tests run only H2; Derby and
HSQLDB were tried; the statements for the others follow their manuals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from penstock.api.schema import Logical, Type
from penstock.connectors.jdbc.drivers.url import Url


class Limit(Enum):
    """How a query returns a single row after skipped ones."""

    FETCH = " OFFSET {skipped} ROWS FETCH NEXT 1 ROWS ONLY"
    LIMIT = " LIMIT 1 OFFSET {skipped}"
    DRIVER = ""  # the driver skips them


class Upsert(Enum):
    """How rows are inserted, or replace those with the same key."""

    H2 = "its own MERGE"
    VALUES = "MERGE from VALUES"
    SELECT = "MERGE from a SELECT without a table"
    DUAL = "MERGE from a SELECT of a table with one row"
    TWICE = "UPDATE, and INSERT of those that were not there"


@dataclass(frozen=True, slots=True)
class Coarse:
    """A type of timestamps whose values are not those of a decimal fraction: only a literal of the
    same type, of `digits`, equals them. At a multiple of `resolution_us` it holds that very
    moment."""

    literal: str
    digits: int
    resolution_us: int


_SYBASE_TICKS: Final = {
    # Ticks of 1/300 s, of which every third ends a hundredth.
    "datetime": Coarse("CAST('{at}' AS datetime)", 3, 10_000),
    "smalldatetime": Coarse("CAST('{at}' AS smalldatetime)", 0, 60_000_000),
}
_SQL_SERVER_TICKS: Final = {
    # With the style, a text means the same in every language of the session.
    "datetime": replace(_SYBASE_TICKS["datetime"], literal="CONVERT(datetime, '{at}', 121)"),
    "smalldatetime": replace(
        _SYBASE_TICKS["smalldatetime"], literal="CONVERT(smalldatetime, '{at}', 120)"
    ),
}

Types = Mapping[Type | Logical, str]

STANDARD: Final[Types] = {
    Type.INT8: "SMALLINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INTEGER",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "DOUBLE PRECISION",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "VARCHAR(4000)",
    Type.BYTES: "VARBINARY(4000)",
    Logical.DECIMAL: "DECIMAL(31,{scale})",
    Logical.DATE: "DATE",
    Logical.TIME: "TIME",
    Logical.TIMESTAMP: "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class Product:
    """One kind of database. `quotes` open and close names; None: those the driver reports."""

    name: str  # in `dialect.name`
    types: Types = field(default_factory=lambda: STANDARD)
    text_key: str = ""  # the type of text columns that are keys, where it differs
    quotes: tuple[str, str] | None = None
    limit: Limit = Limit.DRIVER
    upsert: Upsert = Upsert.TWICE
    now: str = "SELECT CURRENT_TIMESTAMP"  # in UTC, or with a zone
    clock: str = ""  # the same as DEFAULT CURRENT_TIMESTAMP writes it, if that differs
    moment: str = "{{ts '{at}'}}"  # a timestamp literal; this is JDBC's own form
    zoned: str = "TIMESTAMP '{at}+00:00'"
    digits: int = 9  # of a second that a timestamp literal may have
    coarse: Mapping[str, Coarse] = field(default_factory=dict)  # by names of types
    exact: str = ""  # truncates a timestamp to the nine digits that are compared
    bytes: str = "X'{hex}'"
    literals: bool = True  # accepts DATE '…', TIME '…', TIMESTAMP '…' as defaults
    null: str = " NULL"  # after a nullable column
    remainder: str = "MOD({number}, {parts})"
    create: str = "CREATE TABLE"
    add: str = "ADD {column}"
    one_row: str = ""  # the FROM clause of a SELECT of values only
    holds_lock: bool = False


_GENERIC: Final = Product("GenericDatabaseDialect")

_H2: Final = replace(
    _GENERIC,
    types={
        **STANDARD,
        Type.INT8: "TINYINT",
        Type.STRING: "VARCHAR",
        Type.BYTES: "VARBINARY",
        Logical.DECIMAL: "DECIMAL(1000,{scale})",
        Logical.TIME: "TIME(3)",
        Logical.TIMESTAMP: "TIMESTAMP(3)",
    },
    limit=Limit.FETCH,
    upsert=Upsert.H2,
    moment="TIMESTAMP '{at}'",
    zoned="TIMESTAMP WITH TIME ZONE '{at}+00:00'",
    create="CREATE TABLE IF NOT EXISTS",
)

_HSQLDB: Final = replace(
    _GENERIC,
    limit=Limit.FETCH,
    now="VALUES CURRENT_TIMESTAMP",
    moment="TIMESTAMP '{at}'",
    zoned="TIMESTAMP '{at}+0:00'",
    null="",
    create="CREATE TABLE IF NOT EXISTS",
    one_row=" FROM (VALUES (0))",
)

_SQL_SERVER: Final = replace(
    _GENERIC,
    name="SqlServerDatabaseDialect",
    types={
        Type.INT8: "tinyint",
        Type.INT16: "smallint",
        Type.INT32: "int",
        Type.INT64: "bigint",
        Type.FLOAT32: "real",
        Type.FLOAT64: "float",
        Type.BOOLEAN: "bit",
        Type.STRING: "varchar(max)",
        Type.BYTES: "varbinary(max)",
        Logical.DECIMAL: "decimal(38,{scale})",
        Logical.DATE: "date",
        Logical.TIME: "time",
        Logical.TIMESTAMP: "datetime2",
    },
    text_key="varchar(900)",
    quotes=("[", "]"),
    limit=Limit.FETCH,
    upsert=Upsert.SELECT,
    now="SELECT SYSUTCDATETIME()",
    clock="SELECT SYSDATETIME()",
    moment="CAST('{at}' AS datetime2(7))",
    zoned="CAST('{at} +00:00' AS datetimeoffset(7))",
    digits=7,
    coarse=_SQL_SERVER_TICKS,
    bytes="0x{hex}",
    literals=False,
    remainder="{number} % {parts}",
    holds_lock=True,
)

_ORACLE: Final = replace(
    _GENERIC,
    name="OracleDatabaseDialect",
    types={
        Type.INT8: "NUMBER(3,0)",
        Type.INT16: "NUMBER(5,0)",
        Type.INT32: "NUMBER(10,0)",
        Type.INT64: "NUMBER(19,0)",
        Type.FLOAT32: "BINARY_FLOAT",
        Type.FLOAT64: "BINARY_DOUBLE",
        Type.BOOLEAN: "NUMBER(1,0)",
        Type.STRING: "VARCHAR2(4000)",
        Type.BYTES: "BLOB",
        Logical.DECIMAL: "NUMBER(*,{scale})",
        Logical.DATE: "DATE",
        Logical.TIME: "DATE",
        Logical.TIMESTAMP: "TIMESTAMP",
    },
    quotes=('"', '"'),
    limit=Limit.FETCH,
    upsert=Upsert.DUAL,
    now="SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) FROM DUAL",
    clock="SELECT CURRENT_TIMESTAMP FROM DUAL",
    moment="TIMESTAMP '{at}'",
    zoned="TIMESTAMP '{at} +00:00'",
    bytes="HEXTORAW('{hex}')",
    add="ADD ({column})",
    one_row=" FROM DUAL",
)

_DB2: Final = replace(
    _GENERIC,
    name="Db2DatabaseDialect",
    types={
        **STANDARD,
        Type.FLOAT64: "DOUBLE",
        Type.BOOLEAN: "SMALLINT",
        Type.STRING: "VARCHAR(32672)",
        Type.BYTES: "BLOB(64000)",
    },
    text_key="VARCHAR(255)",
    quotes=('"', '"'),
    limit=Limit.FETCH,
    upsert=Upsert.VALUES,
    now="SELECT CURRENT TIMESTAMP - CURRENT TIMEZONE FROM SYSIBM.SYSDUMMY1",
    clock="SELECT CURRENT TIMESTAMP FROM SYSIBM.SYSDUMMY1",
    moment="TIMESTAMP '{at}'",
    exact="CAST({name} AS TIMESTAMP(9))",
    bytes="BLOB(X'{hex}')",
    null="",
    one_row=" FROM SYSIBM.SYSDUMMY1",
)

_DERBY: Final = replace(
    _GENERIC,
    name="DerbyDatabaseDialect",
    types={
        **STANDARD,
        Type.FLOAT64: "DOUBLE",
        Type.STRING: "VARCHAR(32672)",
        Type.BYTES: "BLOB(64000)",
    },
    text_key="VARCHAR(255)",
    quotes=('"', '"'),
    limit=Limit.FETCH,
    now="VALUES CURRENT_TIMESTAMP",  # in the server's zone, which it does not report
    bytes="CAST(X'{hex}' AS BLOB)",
    literals=False,
    null="",
    one_row=" FROM SYSIBM.SYSDUMMY1",
)

_HANA: Final = replace(
    _GENERIC,
    name="SapHanaDatabaseDialect",
    types={
        **STANDARD,
        Type.FLOAT64: "DOUBLE",
        Type.STRING: "NVARCHAR(5000)",
        Type.BYTES: "BLOB",
        Logical.DECIMAL: "DECIMAL(38,{scale})",
    },
    text_key="NVARCHAR(1000)",
    quotes=('"', '"'),
    limit=Limit.LIMIT,
    now="SELECT CURRENT_UTCTIMESTAMP FROM DUMMY",
    clock="SELECT CURRENT_TIMESTAMP FROM DUMMY",
    moment="TO_TIMESTAMP('{at}')",
    digits=7,
    literals=False,
    add="ADD ({column})",
    one_row=" FROM DUMMY",
)

_VERTICA: Final = replace(
    _GENERIC,
    name="VerticaDatabaseDialect",
    types={
        **STANDARD,
        **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), "INT"),
        Type.FLOAT32: "FLOAT",
        Type.FLOAT64: "FLOAT",
        Type.STRING: "VARCHAR(65000)",
        Type.BYTES: "VARBINARY(65000)",
        Logical.DECIMAL: "DECIMAL(38,{scale})",
    },
    text_key="VARCHAR(1024)",
    quotes=('"', '"'),
    limit=Limit.LIMIT,
    now="SELECT CURRENT_TIMESTAMP AT TIME ZONE 'UTC'",
    clock="SELECT LOCALTIMESTAMP",
    moment="TIMESTAMP '{at}'",
    zoned="TIMESTAMPTZ '{at}+00'",
    digits=6,
    null="",
    create="CREATE TABLE IF NOT EXISTS",
)

_SYBASE: Final = replace(
    _GENERIC,
    name="SybaseDatabaseDialect",
    types={
        Type.INT8: "smallint",
        Type.INT16: "smallint",
        Type.INT32: "int",
        Type.INT64: "bigint",
        Type.FLOAT32: "real",
        Type.FLOAT64: "float",
        Type.BOOLEAN: "tinyint",
        Type.STRING: "text",
        Type.BYTES: "image",
        Logical.DECIMAL: "decimal(38,{scale})",
        Logical.DATE: "date",
        Logical.TIME: "time",
        Logical.TIMESTAMP: "datetime",
    },
    text_key="varchar(512)",
    quotes=('"', '"'),
    now="SELECT GETUTCDATE()",
    clock="SELECT GETDATE()",
    moment="CAST('{at}' AS bigdatetime)",
    digits=6,
    coarse=_SYBASE_TICKS,
    bytes="0x{hex}",
    literals=False,
    remainder="{number} % {parts}",
)

_BY_URL: Final[Mapping[str, Product]] = {
    "h2": _H2,
    "hsqldb": _HSQLDB,
    "sqlserver": _SQL_SERVER,
    "microsoft:sqlserver": _SQL_SERVER,
    "jtds:sqlserver": _SQL_SERVER,
    "oracle": _ORACLE,
    "oracle:thin": _ORACLE,
    "db2": _DB2,
    "derby": _DERBY,
    "sap": _HANA,
    "vertica": _VERTICA,
    "sybase": _SYBASE,
    "jtds:sybase": _SYBASE,
}
_BY_NAME: Final[Mapping[str, Product]] = {
    product.name: product
    for product in (_DB2, _DERBY, _GENERIC, _ORACLE, _HANA, _SQL_SERVER, _SYBASE, _VERTICA)
}

DIALECT_NAMES: Final = tuple(_BY_NAME)


def product_of(url: Url) -> Product:
    """The product of a URL: by `dialect.name`, or what follows `jdbc:`."""
    name = str(url.options.get("dialect", ""))
    if name:
        return _BY_NAME[name]
    return _BY_URL.get(url.database, _GENERIC)

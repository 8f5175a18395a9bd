"""Schemas of the Connect data model, and helpers for their values.

>>> point = struct({"x": INT32, "y": INT32.as_optional()}, name="Point")
>>> check(point, {"x": 1})
>>> text(point, {"x": 1, "y": None})
'Struct{x=1}'

A target that keeps one version of a schema projects the values of others to it, as Kafka Connect's
`SchemaProjector` does; incompatible schemas raise ProjectionError, an error of the record.

>>> wider = struct({"x": INT64, "z": INT8.as_optional()}, name="Point")
>>> project(point, {"x": 1, "y": 2}, wider)
{'x': 1, 'z': None}
>>> [projector(point, wider)(value) for value in ({"x": 3}, {"x": 4})]
[{'x': 3, 'z': None}, {'x': 4, 'z': None}]
>>> project(wider, {"x": 1}, point)
Traceback (most recent call last):
    ...
penstock.data.projection.ProjectionError: Error projecting x
"""

from penstock.data.java_maps import map_order
from penstock.data.logical import (
    EPOCH,
    MS_PER_DAY,
    bytes_to_decimal,
    date_to_days,
    days_to_date,
    decimal_to_bytes,
    int_to_bytes,
    ms_to_time,
    ms_to_timestamp,
    time_to_ms,
    timestamp_to_ms,
    unscaled_to_decimal,
)
from penstock.data.projection import (
    Project,
    ProjectionError,
    project,
    projector,
)
from penstock.data.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INT_BITS,
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT8,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    SCALE,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
    Logical,
    Schema,
    Type,
    Value,
    array,
    check,
    decimal,
    fields_of,
    float32,
    int_range,
    java_class,
    map_of,
    pairs,
    struct,
    wrap_int,
)
from penstock.data.structs import (
    Columns,
    structs_of,
)
from penstock.data.text import (
    column_texts,
    decimal_text,
    double_text,
    float_text,
    text,
    text_of,
    texts_of,
    utf8,
)

__all__ = [
    "BOOLEAN",
    "BYTES",
    "DATE",
    "EPOCH",
    "FLOAT32",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "INT_BITS",
    "MS_PER_DAY",
    "OPTIONAL_BOOLEAN",
    "OPTIONAL_BYTES",
    "OPTIONAL_FLOAT32",
    "OPTIONAL_FLOAT64",
    "OPTIONAL_INT8",
    "OPTIONAL_INT16",
    "OPTIONAL_INT32",
    "OPTIONAL_INT64",
    "OPTIONAL_STRING",
    "SCALE",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "Columns",
    "Field",
    "Logical",
    "Project",
    "ProjectionError",
    "Schema",
    "Type",
    "Value",
    "array",
    "bytes_to_decimal",
    "check",
    "column_texts",
    "date_to_days",
    "days_to_date",
    "decimal",
    "decimal_text",
    "decimal_to_bytes",
    "double_text",
    "fields_of",
    "float32",
    "float_text",
    "int_range",
    "int_to_bytes",
    "java_class",
    "map_of",
    "map_order",
    "ms_to_time",
    "ms_to_timestamp",
    "pairs",
    "project",
    "projector",
    "struct",
    "structs_of",
    "text",
    "text_of",
    "texts_of",
    "time_to_ms",
    "timestamp_to_ms",
    "unscaled_to_decimal",
    "utf8",
    "wrap_int",
]

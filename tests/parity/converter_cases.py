"""Cases for the converters of Kafka Connect and for ours, and how ours answer.

A case is JSON, as `tests/golden/{converters,headers,projections}.jsonl` hold it:

    {"of": "IntegerConverter", "read": "text"}          bytes to a value; `config` if not empty
    {"of": "JsonConverter", "write": [schema, value]}   the other way, in the form of `typed`
    {"of": "parse", "read": "text"}                     Values.parseString
    {"of": "text", "write": [schema, value]}            Values.convertToString
    {"of": "project", "write": [schema, value], "to": schema}    SchemaProjector.project

and an answer `"gives": [schema, value]`, `"gives": "text"` or `"throws": [class, message]`. Bytes
are a text, null, or `{"hex": "00ff"}` if they are not UTF-8. Projections are of the field `f` of a
struct, on both sides; their errors have all messages, outermost first.

Values are such that nothing is lost on the way: no Byte, Short, Integer or Float without a schema
(ours are Longs and Doubles there), no floating point number that JDKs before 19 print with a digit
too many, no map of several entries in a schemaless text, whose order is that of a HashMap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

from penstock.api import Failed, HeaderConverter, Use
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.json import JsonConverter
from penstock.convert.numbers import (
    BooleanConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from penstock.convert.raw import ByteArrayConverter
from penstock.convert.text import StringConverter
from penstock.data.paths import Misfit
from penstock.data.projection import project
from penstock.data.records import Column
from penstock.data.schema import struct
from penstock.data.value_text import to_text
from penstock.data.values import parse
from penstock.errors import DataError, PenstockError
from tests.places import TESTS

from .typed import json_schema, json_value, schema_json, value_json

Json = Any
Case = dict[str, Json]

GOLDEN: Final = TESTS / "golden"

CONVERTERS: Final[Mapping[str, type[HeaderConverter]]] = {
    each.plugin.simple_name: each
    for each in (
        BooleanConverter,
        ByteArrayConverter,
        DoubleConverter,
        FloatConverter,
        IntegerConverter,
        JsonConverter,
        LongConverter,
        ShortConverter,
        SimpleHeaderConverter,
        StringConverter,
    )
}


def stored(file: str) -> list[Case]:
    """The cases of a golden file, with their answers."""
    return [json.loads(line) for line in (GOLDEN / f"{file}.jsonl").read_text().splitlines()]


def cell_json(cell: bytes | None) -> Json:
    """The JSON of a message."""
    if cell is None:
        return None
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return {"hex": cell.hex()}


def json_cell(node: Json) -> bytes | None:
    """The message of its JSON."""
    if node is None:
        return None
    return bytes.fromhex(node["hex"]) if isinstance(node, dict) else node.encode()


def ours(case: Case, use: Use) -> Case:
    """Our answer, in the form of Kafka Connect's; of what was thrown only the message."""
    try:
        return {"gives": _answer(case, use)}
    except PenstockError as error:
        if case["of"] == "project":
            return {"throws": [error.java_name, *_messages(error)]}
        # The path before Kafka Connect's words is our own addition.
        words = error.reason if isinstance(error, Misfit) else str(error)
        return {"throws": [error.java_name, words]}


def _messages(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield str(error)
        error = error.__cause__


def _answer(case: Case, use: Use) -> Json:
    if case["of"] == "parse":
        schema, value = parse(case["read"])
        return [schema_json(schema), value_json(schema, value)]
    if case["of"] == "text":
        schema = json_schema(case["write"][0])
        return to_text(schema, json_value(schema, case["write"][1]))
    if case["of"] == "project":
        source, target = (
            struct({"f": json_schema(each)}) for each in (case["write"][0], case["to"])
        )
        value = {"f": json_value(source.fields[0].schema, case["write"][1])}
        return value_json(target, project(source, value, target))
    kind = CONVERTERS[case["of"]]
    config = {**case.get("config", {})}
    if kind is not SimpleHeaderConverter:
        config["converter.type"] = use.value
    converter = kind(kind.plugin.config.parse(config), use)
    failed: Failed = {}
    if "read" in case:
        column = converter.to_connect(["topic"], [json_cell(case["read"])], failed)
        _raise(failed)
        (schema,) = column.schemas()
        return [schema_json(schema), value_json(schema, column.values[0])]
    schema = json_schema(case["write"][0])
    value = json_value(schema, case["write"][1])
    cells = converter.from_connect(["topic"], Column.of([value], schema), failed)
    _raise(failed)
    return cell_json(cells[0])


def _raise(failed: Failed) -> None:
    for error in failed.values():
        assert isinstance(error, DataError), error
        raise error


# The cases

_DATE: Final = {"type": "INT32", "name": "org.apache.kafka.connect.data.Date", "version": 1}
_TIME: Final = {"type": "INT32", "name": "org.apache.kafka.connect.data.Time", "version": 1}
_TIMESTAMP: Final = {
    "type": "INT64",
    "name": "org.apache.kafka.connect.data.Timestamp",
    "version": 1,
}


def _decimal(scale: int, kind: str = "BYTES") -> Json:
    return {
        "type": kind,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": str(scale)},
    }


def _struct(**fields: Json) -> Json:
    return {"type": "STRUCT", "fields": [[name, schema] for name, schema in fields.items()]}


_POINT: Final = {**_struct(x="INT32", y="STRING?"), "name": "Point", "version": 2, "doc": "where"}
_ORDER: Final = _struct(
    id="INT64",
    price=_decimal(2, "BYTES?"),
    at=_TIMESTAMP,
    tags={"type": "ARRAY", "values": "STRING"},
    more={"type": "MAP?", "keys": "STRING", "values": "INT32"},
    where={**_POINT, "type": "STRUCT?"},
)
_WITH_DEFAULTS: Final = _struct(
    a={"type": "INT32?", "default": {"i32": 7}},
    b={"type": "STRING", "default": "b"},
    c={**_decimal(1, "BYTES?"), "default": {"decimal": "0.5"}},
    d={"type": "ARRAY", "values": "INT8", "default": [{"i8": 1}]},
)

VALUES: Final[list[tuple[Json, Json]]] = [
    (None, None),
    (None, True),
    (None, 5),
    (None, -(2**63)),
    (None, {"f64": "1.5"}),
    (None, "text ü € 😀"),
    (None, ""),
    (None, {"bytes": "AP8="}),
    (None, {"bytes": ""}),
    (None, []),
    (None, [1, "a", None, [True], {"f64": "0.25"}]),
    (None, {"map": []}),
    (None, {"map": [["k", "v"]]}),
    (None, {"map": [["k", {"map": [["inner", [1, 2]]]}]]}),
    (None, {"map": [[5, "v"]]}),
    (None, {"map": [[True, None]]}),
    (None, {"decimal": "1.50"}),
    (None, {"bigint": "9223372036854775808"}),
    (None, {"date": 86_400_000}),
    (None, {"date": 1_709_212_455_016}),
    ("BOOLEAN", True),
    ("BOOLEAN", False),
    ("BOOLEAN", None),
    ("BOOLEAN?", None),
    ("INT8", {"i8": -128}),
    ("INT8", 300),
    ("INT16", {"i16": 32767}),
    ("INT16?", None),
    ("INT32", {"i32": -(2**31)}),
    ("INT32", 2**31),
    ("INT32", None),
    ("INT32?", None),
    ("INT64", 2**63 - 1),
    ("INT64", {"f64": "1.0"}),
    ("INT64?", None),
    ("FLOAT32", {"f32": "0.1"}),
    ("FLOAT32", {"f32": "NaN"}),
    ("FLOAT32", {"f32": "-Infinity"}),
    ("FLOAT32", {"f32": "1.0E10"}),
    ("FLOAT32?", None),
    ("FLOAT64", {"f64": "0.1"}),
    ("FLOAT64", {"f64": "100.0"}),
    ("FLOAT64", {"f64": "1.0E-5"}),
    ("FLOAT64", {"f64": "1.7976931348623157E308"}),
    ("FLOAT64", {"f64": "NaN"}),
    ("FLOAT64", {"f64": "-0.0"}),
    ("FLOAT64", 5),
    ("FLOAT64?", None),
    ("STRING", 'q"\\\n\t\x1f/ü€😀'),
    ("STRING", 5),
    ("STRING", None),
    ("STRING?", None),
    ("BYTES", {"bytes": "AAECAw=="}),
    ("BYTES", "text"),
    ("BYTES?", None),
    (_decimal(2), {"decimal": "123.45"}),
    (_decimal(2), {"decimal": "-0.01"}),
    (_decimal(0), {"decimal": "123456789012345678901234567890"}),
    (_decimal(-3), {"decimal": "1E+3"}),
    (_decimal(2), {"decimal": "1.5"}),
    (_decimal(2, "BYTES?"), None),
    (_decimal(2), "1.50"),
    (_DATE, {"date": 0}),
    (_DATE, {"date": 1_709_164_800_000}),
    (_DATE, {"date": -86_400_000}),
    (_DATE, "2024-02-29"),
    (_TIME, {"date": 0}),
    (_TIME, {"date": 47_655_016}),
    (_TIME, {"date": 86_399_999}),
    (_TIMESTAMP, {"date": 1_709_212_455_016}),
    (_TIMESTAMP, {"date": 1_709_164_800_000}),
    (_TIMESTAMP, {"date": -1}),
    ({**_TIMESTAMP, "type": "INT64?"}, None),
    ({"type": "ARRAY", "values": "INT8"}, [{"i8": 1}, {"i8": 2}]),
    ({"type": "ARRAY", "values": "STRING?"}, ["a", None, 'b"\\']),
    ({"type": "ARRAY", "values": "STRING"}, ["a", None]),
    ({"type": "ARRAY", "values": "STRING"}, []),
    ({"type": "ARRAY", "values": "INT8"}, "no list"),
    ({"type": "ARRAY?", "values": "FLOAT32"}, None),
    ({"type": "ARRAY", "values": {"type": "ARRAY", "values": "FLOAT32"}}, [[{"f32": "1.1"}], []]),
    ({"type": "MAP", "keys": "STRING", "values": "INT64"}, {"map": [["k", 1]]}),
    ({"type": "MAP", "keys": "STRING?", "values": "INT64?"}, {"map": [["k", None]]}),
    ({"type": "MAP", "keys": "INT32", "values": "STRING"}, {"map": [[{"i32": 1}, "x"]]}),
    ({"type": "MAP", "keys": "INT32", "values": "STRING"}, {"map": []}),
    ({"type": "MAP", "keys": "STRING", "values": "STRING"}, {"map": []}),
    ({"type": "MAP", "keys": "STRING", "values": "STRING"}, ["no map"]),
    (
        {"type": "MAP", "keys": {"type": "ARRAY", "values": "INT8"}, "values": "BYTES"},
        {"map": [[[{"i8": 1}], {"bytes": "AQ=="}]]},
    ),
    ({"type": "MAP", "keys": _DATE, "values": _TIME}, {"map": [[{"date": 0}, {"date": 5}]]}),
    (_struct(), {"struct": {}}),
    (_POINT, {"struct": {"x": {"i32": 1}, "y": "n"}}),
    (_POINT, {"struct": {"x": {"i32": 1}}}),
    (_POINT, {"struct": {}}),
    (_POINT, None),
    (_POINT, "no struct"),
    ({**_POINT, "type": "STRUCT?"}, None),
    (
        _ORDER,
        {
            "struct": {
                "id": 1,
                "price": {"decimal": "2.00"},
                "at": {"date": 1_700_000_000_000},
                "tags": ["a", "b"],
                "more": {"map": [["k", {"i32": 1}]]},
                "where": {"struct": {"x": {"i32": 1}}},
            }
        },
    ),
    (_ORDER, {"struct": {"id": 1, "at": {"date": 0}, "tags": []}}),
    (_WITH_DEFAULTS, {"struct": {}}),
    (_WITH_DEFAULTS, {"struct": {"a": {"i32": 1}, "b": "x", "c": {"decimal": "1.0"}, "d": []}}),
    ({"type": "INT32?", "default": {"i32": 7}}, None),
    ({"type": "INT32?", "default": {"i32": 7}}, {"i32": 8}),
    ({"type": "STRING", "default": "d"}, None),
    (
        {"type": "INT8", "name": "my.Name", "version": 3, "doc": "d", "parameters": {"p": "q"}},
        {"i8": 1},
    ),
]

CELLS: Final[list[Json]] = [
    None,
    "",
    "\0",
    "\1",
    "\2",
    "\0\5",
    {"hex": "7fff"},
    {"hex": "8000"},
    "\0\0\0",
    "\0\0\0\5",
    {"hex": "ffffffff"},
    {"hex": "3dcccccd"},
    {"hex": "7fc00000"},
    {"hex": "ff800000"},
    {"hex": "0000000000000005"},
    {"hex": "8000000000000000"},
    {"hex": "3fb999999999999a"},
    {"hex": "7ff8000000000000"},
    {"hex": "000000000000000000"},
    "text ü €",
    {"hex": "61ff62"},
    {"hex": "eda080"},
]

JSON_BARE: Final = [
    *("true", "false", "null", "0", "-0", "12", "-12", "9223372036854775807"),
    *("9223372036854775808", "18446744073709551621", "1.5", "1e3", "1E400", "1.0", "0.1", "-2.5"),
    *('"a"', '""', '"\\u00fc\\n\\ud83d\\ude00"', '"1.5"', "[]", '[1,"a",null,[true]]', "{}"),
    *('{"a":1}', '{"a":{"b":[1.5]}}', '{"a":1,"a":2}', " 5 ", "5 6", '{"a":1} x', "007", "-01.50"),
    *("", "  ", "{", "[1,]", "nul", "NaN", "1x", "'a'", "{a:1}", "[1 2]", '{"a"}', "\ufeff5"),
]

_JSON_SCHEMAS: Final[list[tuple[str, list[str]]]] = [
    ("null", ["null", "5", '{"a":1}', "[]"]),
    ('{"type":"boolean"}', ["true", "null", '"true"', "1"]),
    ('{"type":"boolean","optional":true}', ["null", "false"]),
    ('{"type":"int8"}', ["5", "300", "-129", "1.9", '"5"', "true", "null", "[]"]),
    ('{"type":"int16"}', ["70000", "1e2", "-1"]),
    ('{"type":"int32"}', ["5", "2147483648", "1.5e3", "null"]),
    ('{"type":"int64"}', ["9223372036854775807", "9223372036854775808", "1e400", '"x"']),
    ('{"type":"float"}', ["0.1", "5", "1e39", '"NaN"', "null"]),
    ('{"type":"double"}', ["0.1", "5", "1e400", '"1"', "{}"]),
    ('{"type":"string"}', ['"a"', "5", "null", "true", "{}"]),
    ('{"type":"string","optional":true}', ["null", "5"]),
    ('{"type":"bytes"}', ['"AP8="', '""', '"AP8"', '"!"', "5", "null", '"AP8=\\n"', '"A-_="']),
    ('{"type":"array","items":{"type":"int8"}}', ["[1,2]", "[]", "[null]", "5", '{"a":1}', '"x"']),
    ('{"type":"array","items":{"type":"string","optional":true}}', ['["a",null]']),
    ('{"type":"array"}', ["[]"]),
    ('{"type":"array","items":null}', ["[1]", "[]"]),
    ('{"type":"array","items":{"type":"nope"}}', ["[]"]),
    (
        '{"type":"map","keys":{"type":"string"},"values":{"type":"int32"}}',
        ['{"a":1}', "{}", '[["a",1]]', "5", '{"a":null}'],
    ),
    (
        '{"type":"map","keys":{"type":"int32"},"values":{"type":"string"}}',
        ['[[1,"a"]]', "[]", '{"a":1}', "[1]", "[[1]]", '[[1,"a",2]]'],
    ),
    ('{"type":"map","values":{"type":"string"}}', ["{}"]),
    ('{"type":"map","keys":{"type":"string"}}', ["{}"]),
    ('{"type":"map","keys":null,"values":null}', ["{}"]),
    ('{"type":"struct","fields":[]}', ["{}", "null", "5", '{"a":1}', "[]"]),
    (
        '{"type":"struct","name":"N","version":1,"doc":"d","fields":['
        '{"type":"int32","field":"a"},{"type":"string","optional":true,"field":"b"}]}',
        [
            '{"a":1,"b":"x"}',
            '{"a":1}',
            '{"b":"x"}',
            '{"a":null,"b":null}',
            '{"b":"x","a":2,"c":3}',
            '{"a":1,"b":5}',
            '{"a":"1"}',
            "[1]",
        ],
    ),
    (
        '{"type":"struct","fields":[{"type":"string","field":"a"}]}',
        ['{"a":5}', '{"a":"x"}', "{}"],
    ),
    (
        '{"type":"struct","fields":[{"type":"int32","optional":true,"default":7,"field":"a"},'
        '{"type":"string","default":"d","field":"b"}]}',
        ["{}", '{"a":null,"b":null}', '{"a":1,"b":"x"}'],
    ),
    ('{"type":"struct"}', ["{}"]),
    ('{"type":"struct","fields":{}}', ["{}"]),
    ('{"type":"struct","fields":[{"type":"int32"}]}', ["{}"]),
    ('{"type":"struct","fields":[{"field":"a"}]}', ["{}"]),
    (
        '{"type":"struct","fields":[{"type":"int8","field":"a"},{"type":"int8","field":"a"}]}',
        ['{"a":1}'],
    ),
    ('{"type":"int32","default":5}', ["null", "6"]),
    ('{"type":"int32","optional":true,"default":5}', ["null"]),
    ('{"type":"int32","default":null}', ["6"]),
    ('{"type":"string","default":5}', ['"a"']),
    ('{"type":"int32","name":"n","version":2,"doc":"d","parameters":{"a":"b"}}', ["5"]),
    ('{"type":"int32","parameters":{"a":1}}', ["5"]),
    ('{"type":"int32","parameters":{}}', ["5"]),
    ('{"type":"int32","version":"2","name":5,"optional":"true"}', ["5", "null"]),
    ('{"type":"int32","version":1.5}', ["5"]),
    ('{"type":"INT32"}', ["5"]),
    ('{"type":5}', ["5"]),
    ("{}", ["5"]),
    ("5", ["5"]),
    ("[]", ["5"]),
    (
        '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":'
        '{"scale":"2"}}',
        ['"AMg="', "2.00", "2", "1e2", '""', '"!"', "true", "null", "123456789012345678901.25"],
    ),
    (
        '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"}',
        ['"AMg="', "2.00"],
    ),
    (
        '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":'
        '{"scale":"x"}}',
        ['"AMg="'],
    ),
    (
        '{"type":"int32","name":"org.apache.kafka.connect.data.Date","version":1}',
        ["0", "19782", "-1", "1.5", '"5"', "null", "2147483648"],
    ),
    (
        '{"type":"int32","name":"org.apache.kafka.connect.data.Time","version":1}',
        ["0", "86399999", "-1", "86400001", '"5"'],
    ),
    (
        '{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp","version":1}',
        ["0", "1709212455016", "-1", "5.0", '"5"'],
    ),
    (
        '{"type":"int64","optional":true,"name":"org.apache.kafka.connect.data.Timestamp",'
        '"default":5}',
        ["null", "7"],
    ),
]

JSON_ENVELOPES: Final = [
    *("5", "null", "{}", "[]", '{"schema":null}', '{"payload":5}', "", "{"),
    '{"schema":null,"payload":1,"more":2}',
    '{"payload":5,"schema":{"type":"int8"}}',
    ' { "schema" : {"type":"int8"} , "payload" : 5 } ',
    '{"schema":{"type":"int8"},"payload":5} {',
    '{"schema":{"type":"int8"},"payload":4,"payload":5}',
    '{"schema":{"type":"int8"},"payload":05}',
    '{"schema":{"x":1,"payload":3,"type":"int8"},"payload":5}',
]

JSON_CONFIGS: Final[list[dict[str, str]]] = [
    {},
    {"schemas.enable": "false"},
    {"schemas.enable": "false", "decimal.format": "NUMERIC"},
    {"replace.null.with.default": "false"},
    {"decimal.format": "numeric", "replace.null.with.default": "false"},
]

_CONTENTS: Final = [
    ('{"type":"int8","optional":true}', ["5", "null", '"x"', '{"schema":null,"payload":1}', ""]),
    (
        '{"type":"struct","fields":[{"type":"string","field":"a"},'
        '{"type":"int32","default":3,"field":"b"}]}',
        ['{"a":"x"}', '{"a":"x","b":4}', "5", "{", "null"],
    ),
    ("null", ["5", '{"a":1}']),
]

TEXTS: Final = [
    *("null", "true", "false", " null ", "true ", "\ttrue", "True", "NULL", "nulls", "true}", "tr"),
    *("0", "1", "-1", "+1", "127", "128", "-128", "-129", "32767", "32768", "-32769", "2147483647"),
    *("2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "007", "-0"),
    *("12345678901234567890", "-99999999999999999999", "1.0", "-1.0", "1.5", "12.5", "0.1", "-.5"),
    *("+.5", "5.", ".5", "1e3", "1E3", "1e+3", "1e-3", "1e30", "1e38", "1e39", "1e308", "1e309"),
    *("1e400", "-1e400", "1e-50", "123456789.0", "99999999999999999999.0", "1e2147483647"),
    *(
        "1e2147483648",
        "1e-2147483648",
        "16777217.5",
        "1.00000005960464477539062500001",
        "1 ",
        " 12",
    ),
    *(
        "-",
        "+",
        "--1",
        "1-",
        "1e",
        "1e1.5",
        "0x1F",
        "1f",
        "1d",
        "1_000",
        "1,5",
        "12,5",
        "1:2",
        "١٢",
    ),
    *("٣", "1٣", "😀", "²", "Infinity", "NaN", "-Infinity", "12 34", "12abc"),
    *(
        "2024-02-29",
        "2023-02-29",
        "2024-13-41",
        "2024-2-9",
        "2024-2-9x9",
        "2024-02-29x",
        "+024-02-29",
    ),
    *("1582-10-15", "1582-10-14", "1582-10-04", "1500-02-29", "0001-01-03", "9999-12-31"),
    *(
        "13:14:15.016Z",
        "13:14:15.016z",
        "00:00:00.000Z",
        "23:59:59.999Z",
        "13:14:15.016",
        "1:2:3.4Zxxxxx",
    ),
    *("13\\:14\\:15.016Z", "13:14:15:016Z", "13:14:15.016Zx", " 13:14:15.016Z", "13:14:15.01Z "),
    *("2024-02-29T13:14:15.016Z", "2024-02-29T13\\:14\\:15.016Z", "2024-02-29T25:61:61.999Z"),
    *("2024-02-29 13:14:15.016Z", "1969-12-31T23:59:59.999Z", "2024-02-29T13:14:15Z"),
    *("[]", "[ ]", "{}", "{ }", " [ ] ", "[1]", "[1,2,3]", "[1, 2, 3]", "[1,300]", "[300,1]"),
    *(
        "[1,70000,5000000000]",
        "[1,2.5]",
        "[2.5,1]",
        "[2.5,1e39]",
        "[5000000000,2.5]",
        "[0.1,1e39,1]",
    ),
    *(
        "[null]",
        "[null,null]",
        "[1,null]",
        "[null,1]",
        "[true,false]",
        "[true,1]",
        '[1,"a"]',
        "[a]",
    ),
    *(
        '["a"]',
        '["a","b"]',
        '[""]',
        '["a b"]',
        '["1"]',
        '["true"]',
        '["null"]',
        '["a\\"b"]',
        "[1,]",
    ),
    *(
        "[1",
        "[1,",
        "[,1]",
        "[1,,2]",
        "[1 2]",
        "1]",
        "]",
        "[1]]",
        "[1]x",
        "[1] ",
        "  [1",
        "x[1]",
        "[[]",
    ),
    *("[[]]", "[[1],[2]]", "[[1],[300]]", '[[1],["a"]]', "[[],[1]]", "[[1],null]", "[[1],2]"),
    *(
        '["2024-02-29"]',
        "[2024-02-29]",
        '["2024-02-29",5]',
        '[5,"2024-02-29"]',
        "[99999,2024-02-29]",
    ),
    *("[2024-02-29,99999]", "[2024-02-29,1.5]", '["13:14:15.016Z",5]', "[13:14:15.016Z,-1]"),
    *('["2024-02-29","13:14:15.016Z"]', "[2024-02-29T13:14:15.016Z,5]", "[12345678901234567890]"),
    *("[12345678901234567890,1]", "[1e400,12345678901234567890]", '[ "a" , "b" ]', '["a]', "['a']"),
    *('{"a":1}', '{"a":1,"b":2}', '{"a":1,"b":"x"}', '{"a":null}', '{"a":null,"b":1}', "{a:1}"),
    *(
        "{1:2}",
        "{1:2,300:4}",
        '{1:"a",2:"b"}',
        '{1:"a","b":2}',
        "{true:1}",
        '{"a":1,}',
        '{"a":1 "b":2}',
    ),
    *(
        '{"a"}',
        '{"a":}',
        "{:1}",
        "{,}",
        "{null:1}",
        '{"a":1',
        '{"a":1}}',
        '{"a":1}x',
        '{"a":1,"a":2}',
    ),
    *(
        '{"a":[1,2]}',
        '{"a":{"b":{"c":[1]}}}',
        '{"a":{}}',
        '{"a":[],"b":[1]}',
        '{"a": 13:14:15.016Z}',
    ),
    *("{2024-02-29:1}", '{"a" : "b" , "c" : "d"}', '{"a":"b,c:d"}', '{"a":"{}"}', '{"a":"\\\\"}'),
    *(
        "",
        " ",
        "\t\n",
        "text",
        " text ",
        "a,b",
        "a:b",
        '"quoted"',
        '"',
        '""',
        "\\",
        "\\\\",
        "a\\,b",
        "\\[",
    ),
    *(
        ",",
        ":",
        "}",
        "[\\]",
        "{\\}",
        "http://host:80/x?a=[1]",
        "00-4bf92f3577b34da6-01",
        "550e8400-e29b",
    ),
]
"""Inputs of `Values.parseString`, except those that Python has no value for."""


def converter_cases() -> Iterator[Case]:
    """The cases of the converters."""
    for of in CONVERTERS:
        if of not in ("JsonConverter", "SimpleHeaderConverter"):
            yield from ({"of": of, "read": cell} for cell in CELLS)
            for schema, value in VALUES:
                if not (of == "StringConverter" and _has_bytes(value)):
                    yield {"of": of, "write": [schema, value]}
    for encoding in ("ISO-8859-1", "UTF-16", "US-ASCII"):
        config = {"converter.encoding": encoding}
        for text in ("", "aü€", "plain"):
            yield {"of": "StringConverter", "config": config, "write": ["STRING", text]}
        for cell in ("plain", {"hex": "61fc"}, {"hex": "feff00e4"}, {"hex": "fffee400"}):
            yield {"of": "StringConverter", "config": config, "read": cell}
    yield from _json_cases()


def _has_bytes(value: Json) -> bool:
    """Whether the text of a value has an identity hash in it, which always differs."""
    return '"bytes"' in json.dumps(value)


def _json_cases() -> Iterator[Case]:
    for text in JSON_ENVELOPES:
        yield {"of": "JsonConverter", "read": text}
    for text in JSON_BARE:
        yield {"of": "JsonConverter", "config": {"schemas.enable": "false"}, "read": text}
    for schema, payloads in _JSON_SCHEMAS:
        for payload in payloads:
            text = f'{{"schema":{schema},"payload":{payload}}}'
            yield {"of": "JsonConverter", "read": text}
            if "default" in schema:
                config = {"replace.null.with.default": "false"}
                yield {"of": "JsonConverter", "config": config, "read": text}
    for content, payloads in _CONTENTS:
        config = {"schema.content": content}
        yield from ({"of": "JsonConverter", "config": config, "read": each} for each in payloads)
    random = Random(20260221)
    generated = [_random_typed(random, 3) for _ in range(40)]
    for schema, value in [*VALUES, *generated]:
        wanted = [JSON_CONFIGS[0], JSON_CONFIGS[1]]
        if _mentions(schema, value, "decimal"):
            wanted += [JSON_CONFIGS[2], JSON_CONFIGS[4]]
        if _mentions(schema, value, "default"):
            wanted += [JSON_CONFIGS[3]]
        for config in wanted:
            yield {
                "of": "JsonConverter",
                **({"config": config} if config else {}),
                "write": [schema, value],
            }


def _mentions(schema: Json, value: Json, word: str) -> bool:
    return f'"{word}"' in json.dumps([schema, value])


def header_cases() -> Iterator[Case]:
    """The cases of `Values` and SimpleHeaderConverter."""
    yield from ({"of": "parse", "read": text} for text in TEXTS)
    for cell in CELLS:
        yield {"of": "SimpleHeaderConverter", "read": cell}
    for schema, value in VALUES:
        yield {"of": "text", "write": [schema, value]}
        yield {"of": "SimpleHeaderConverter", "write": [schema, value]}
    random = Random(20260222)
    for _ in range(60):
        schema, value = _random_typed(random, 3)
        yield {"of": "text", "write": [schema, value]}


_NUMBERS: Final = (
    ("INT8", {"i8": 5}),
    ("INT16", {"i16": -300}),
    ("INT32", {"i32": 16777217}),
    ("INT64", 1234567),
    ("FLOAT32", {"f32": "0.5"}),
    ("FLOAT64", {"f64": "1.0E10"}),
)
_NESTED: Final = {
    **_struct(
        a="INT32", b={"type": "STRING?", "default": "d"}, c={"type": "ARRAY", "values": "INT8"}
    ),
    "name": "N",
}
_NESTED_VALUE: Final = {"struct": {"a": {"i32": 1}, "b": "x", "c": [{"i8": 1}, {"i8": 2}]}}
_NAMED_NESTED: Final = {**_struct(a="INT64"), "name": "N"}

PROJECTIONS: Final[list[tuple[Json, Json, Json]]] = [
    *((source, value, target) for source, value in _NUMBERS for target, _ in _NUMBERS),
    *(
        (source, value, target)
        for source, value in [*_NUMBERS[2:3], ("STRING", "a"), ("BYTES", {"bytes": "AA=="})]
        for target in ("BOOLEAN", "STRING", "BYTES", "INT64", _DATE, _NESTED)
    ),
    ("BOOLEAN", True, "BOOLEAN"),
    ("BOOLEAN", True, "INT8"),
    ("INT8?", {"i8": 1}, "INT8"),
    ("INT8?", None, "INT8"),
    ("INT8?", None, {"type": "INT8", "default": {"i8": 9}}),
    ("INT8?", {"i8": 1}, {"type": "INT16", "default": {"i16": 9}}),
    ("INT8?", None, {"type": "INT16?", "default": {"i16": 9}}),
    ("INT8?", None, "INT32?"),
    ("INT8", {"i8": 1}, "INT8?"),
    ({"type": "INT8", "default": {"i8": 3}}, None, "INT16"),
    ({"type": "INT8?", "default": {"i8": 3}}, None, "INT16?"),
    ({"type": "INT8?", "default": {"i8": 3}}, None, "INT8?"),
    ({"type": "INT8?", "default": {"i8": 3}}, None, {"type": "INT8", "default": {"i8": 4}}),
    ({"type": "INT8", "name": "a"}, {"i8": 1}, {"type": "INT8", "name": "b"}),
    ({"type": "INT8", "name": "a"}, {"i8": 1}, "INT8"),
    ({"type": "INT8", "version": 1, "doc": "x"}, {"i8": 1}, {"type": "INT8", "version": 2}),
    ({"type": "INT8", "parameters": {"p": "1"}}, {"i8": 1}, "INT8"),
    ("INT8", {"i8": 1}, {"type": "INT8", "parameters": {"p": "1", "q": "2"}}),
    (_DATE, {"date": 86_400_000}, _DATE),
    (_DATE, {"date": 86_400_000}, _TIMESTAMP),
    (_DATE, {"date": 0}, {**_DATE, "type": "INT32?"}),
    (_TIME, {"date": 5}, _TIME),
    (_decimal(2), {"decimal": "1.50"}, _decimal(2)),
    (_decimal(2), {"decimal": "1.50"}, _decimal(3)),
    ({"type": "ARRAY", "values": "INT8"}, [{"i8": 1}], {"type": "ARRAY", "values": "FLOAT32"}),
    ({"type": "ARRAY", "values": "INT8"}, [], {"type": "ARRAY", "values": "STRING"}),
    ({"type": "ARRAY", "values": "INT8"}, [{"i8": 1}], {"type": "ARRAY", "values": "STRING"}),
    ({"type": "ARRAY", "values": "INT8?"}, [None], {"type": "ARRAY", "values": "INT8"}),
    (
        {"type": "ARRAY", "values": "INT8?"},
        [None, {"i8": 1}],
        {"type": "ARRAY", "values": {"type": "INT8", "default": {"i8": 7}}},
    ),
    (
        {"type": "MAP", "keys": "INT8", "values": "INT32?"},
        {"map": [[{"i8": 1}, {"i32": 2}]]},
        {"type": "MAP", "keys": "INT16", "values": "FLOAT64?"},
    ),
    (
        {"type": "MAP", "keys": "STRING", "values": "INT32"},
        {"map": [["k", {"i32": 2}]]},
        {"type": "MAP", "keys": "STRING", "values": "STRING"},
    ),
    (
        {"type": "MAP", "keys": "STRING", "values": "INT32"},
        {"map": []},
        {"type": "MAP", "keys": "INT8", "values": "STRING"},
    ),
    (
        {"type": "MAP", "keys": {"type": "ARRAY", "values": "INT8"}, "values": "STRING"},
        {"map": [[[{"i8": 1}], "x"]]},
        {"type": "MAP", "keys": {"type": "ARRAY", "values": "INT16"}, "values": "STRING"},
    ),
    (_NESTED, _NESTED_VALUE, _NESTED),
    (_NESTED, _NESTED_VALUE, _NAMED_NESTED),
    (_NESTED, {"struct": {"a": {"i32": 1}, "c": []}}, {**_struct(b="STRING?"), "name": "N"}),
    (_NESTED, {"struct": {"a": {"i32": 1}, "c": []}}, _NESTED),
    (_NESTED, {"struct": {"a": {"i32": 1}, "c": []}}, {**_struct(b="STRING"), "name": "N"}),
    (
        _NESTED,
        {"struct": {"a": {"i32": 1}, "c": []}},
        {**_struct(b={"type": "STRING", "default": "e"}), "name": "N"},
    ),
    (_NESTED, _NESTED_VALUE, {**_struct(a="INT8"), "name": "N"}),
    (_NESTED, _NESTED_VALUE, {**_struct(z="STRING"), "name": "N"}),
    (_NESTED, _NESTED_VALUE, {**_struct(z="STRING?", a="INT32"), "name": "N"}),
    (
        _NESTED,
        _NESTED_VALUE,
        {**_struct(z={"type": "STRING", "default": "zz"}, c=_NESTED["fields"][2][1]), "name": "N"},
    ),
    (_NESTED, _NESTED_VALUE, {**_struct(z={"type": "STRING?", "default": "zz"}), "name": "N"}),
    (_struct(a="INT8"), {"struct": {"a": {"i8": 1}}}, _struct(z="STRING")),
    (
        {"type": "ARRAY", "values": _struct(a="INT8")},
        [{"struct": {"a": {"i8": 1}}}],
        {"type": "ARRAY", "values": _struct(a="INT16", b="STRING?")},
    ),
    (
        {"type": "ARRAY", "values": _struct(a=_struct(b="INT8"))},
        [{"struct": {"a": {"struct": {"b": {"i8": 1}}}}}],
        {"type": "ARRAY", "values": _struct(a=_struct(b="STRING"))},
    ),
]


def projection_cases() -> Iterator[Case]:
    """The cases of SchemaProjector."""
    for source, value, target in PROJECTIONS:
        yield {"of": "project", "write": [source, value], "to": target}


_NAMES: Final = ("a", "b", "long_name", "Ünï", "with space", 'q"uote')
_FLOATS: Final = ("0.0", "0.5", "-1.25", "1.0E10", "123456.5", "0.1", "-3.75", "1.0E-5")
_STRINGS: Final = ("", "a", "ü€😀", 'q"b\\s', "line\nbreak", "12", "null", "{}", "\x00\x1f")
_LEAVES: Final = ("BOOLEAN", "INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "STRING")


def _random_typed(random: Random, depth: int) -> tuple[Json, Json]:
    """A schema and a value of it."""
    schema = _random_schema(random, depth)
    return schema, _random_value(random, schema)


def _random_schema(random: Random, depth: int) -> Json:
    optional = random.choice(("", "", "?"))
    roll = random.random()
    if depth and roll < 0.25:
        fields = [
            [name, _random_schema(random, depth - 1)]
            for name in random.sample(_NAMES, random.randint(1, 4))
        ]
        return {"type": f"STRUCT{optional}", "fields": fields} | _random_more(random)
    if depth and roll < 0.35:
        return {"type": f"ARRAY{optional}", "values": _random_schema(random, depth - 1)}
    if depth and roll < 0.45:
        keys = random.choice(("STRING", "STRING", "INT32", "BOOLEAN", _DATE))
        inner = _random_schema(random, depth - 1)
        return {"type": f"MAP{optional}", "keys": keys, "values": inner}
    if roll < 0.6:
        logical = random.choice((_DATE, _TIME, _TIMESTAMP, _decimal(random.randint(-2, 5))))
        return {**logical, "type": logical["type"] + optional}
    leaf = random.choice((*_LEAVES, "BYTES"))
    if random.random() < 0.2:
        node = {"type": leaf + optional} | _random_more(random)
        return node | {"default": _random_value(random, leaf)}
    return leaf + optional


def _random_more(random: Random) -> dict[str, Json]:
    more: dict[str, Json] = {}
    if random.random() < 0.3:
        more["name"] = random.choice(("Name", "a.b.C"))
    if random.random() < 0.3:
        more["version"] = random.randint(1, 9)
    if random.random() < 0.2:
        more["doc"] = random.choice(_STRINGS[1:4])
    if random.random() < 0.2:
        more["parameters"] = {"p": random.choice(_STRINGS)}
    return more


def _random_value(random: Random, schema: Json) -> Json:
    node = {"type": schema} if isinstance(schema, str) else schema
    kind = node["type"]
    if kind.endswith("?") and random.random() < 0.25:
        return None
    kind = kind.removesuffix("?")
    name = node.get("name", "").rpartition(".")[2]
    if name == "Decimal":
        scale = int(node["parameters"]["scale"])
        digits = str(random.choice((0, 1, 5, 12345, 10**20 + 1)))
        if scale <= 0:
            return {"decimal": digits if scale == 0 else f"{digits}E+{-scale}"}
        whole = digits.rjust(scale + 1, "0")
        sign = random.choice(("", "-")) if digits != "0" else ""
        return {"decimal": f"{sign}{whole[:-scale]}.{whole[-scale:]}"}
    if name == "Date":
        return {"date": random.randint(-20_000, 40_000) * 86_400_000}
    if name == "Time":
        return {"date": random.randint(0, 86_399_999)}
    if name == "Timestamp":
        return {"date": random.randint(-(10**12), 4 * 10**12)}
    match kind:
        case "STRUCT":
            values = {each: _random_value(random, of) for each, of in node["fields"]}
            return {"struct": {each: of for each, of in values.items() if of is not None}}
        case "ARRAY":
            return [_random_value(random, node["values"]) for _ in range(random.randint(0, 3))]
        case "MAP":
            key = _random_value(random, node["keys"])
            return {"map": [[key, _random_value(random, node["values"])]]}
        case "BOOLEAN":
            return random.random() < 0.5
        case "INT8" | "INT16" | "INT32":
            half = 1 << int(kind[3:]) - 1
            number = random.choice((-half, half - 1, 0, random.randint(-half, half - 1)))
            return {f"i{kind[3:]}": number}
        case "INT64":
            return random.choice((-(2**63), 2**63 - 1, 0, random.randint(-(2**40), 2**40)))
        case "FLOAT32" | "FLOAT64":
            return {f"f{kind[5:]}": random.choice(_FLOATS)}
        case "BYTES":
            return {"bytes": random.choice(("", "AA==", "AP8=", "aGVsbG8="))}
        case _:
            return random.choice(_STRINGS)

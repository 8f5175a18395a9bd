"""Cases for Kafka Connect's transformations and predicates: configurations, and the records that
each is applied to. The answers are in tests/golden/transforms.jsonl.gz."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .typed import Json

Config = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Case:
    """A plugin (its class inside the package of the transforms), a configuration of it, and the
    names of the records."""

    plugin: str
    config: Config
    records: tuple[str, ...]


def struct(*fields: tuple[str, Json], **more: Json) -> Json:
    kind = "STRUCT?" if more.pop("optional", False) else "STRUCT"
    return {"type": kind, **more, "fields": [list(field) for field in fields]}


def logical(kind: str, name: str, **more: Json) -> Json:
    return {"type": kind, "name": f"org.apache.kafka.connect.data.{name}", "version": 1, **more}


TIMESTAMP: Final = logical("INT64", "Timestamp")
OPTIONAL_TIMESTAMP: Final = logical("INT64?", "Timestamp")
DATE: Final = logical("INT32", "Date")
TIME: Final = logical("INT32", "Time")
DECIMAL: Final = logical("BYTES?", "Decimal", parameters={"scale": "2"})

INNER: Final = struct(
    ("x", "INT32"),
    ("y", {"type": "STRING?", "default": "why"}),
    ("deep", struct(("z", "FLOAT64"), optional=True)),
    name="Inner",
)
ORDER: Final = struct(
    ("id", "INT64"),
    ("name", "STRING?"),
    ("price", "FLOAT64"),
    ("qty", "INT32"),
    ("flag", "BOOLEAN"),
    ("small", "INT8"),
    ("short", "INT16?"),
    ("ratio", "FLOAT32"),
    ("data", "BYTES?"),
    ("amount", DECIMAL),
    ("day", DATE),
    ("at", TIMESTAMP),
    ("tod", TIME),
    ("tags", {"type": "ARRAY", "values": "STRING"}),
    ("inner", INNER),
    ("note", {"type": "STRING?", "default": "none", "doc": "a note"}),
    ("seven", {"type": "INT32", "default": {"i32": 7}}),
    ("half", {"type": "FLOAT64?", "default": {"f64": "0.5"}, "parameters": {"p": "q"}}),
    name="Order",
    version=3,
    doc="An order",
    parameters={"a": "b"},
)
FULL: Final = {
    "id": 5_000_000_000,
    "name": "Ada",
    "price": {"f64": "12.75"},
    "qty": {"i32": 300},
    "flag": True,
    "small": {"i8": -7},
    "short": {"i16": 1234},
    "ratio": {"f32": "0.1"},
    "data": {"bytes": "AP8="},
    "amount": {"decimal": "123.45"},
    "day": {"date": 1_709_164_800_000},
    "at": {"date": 1_709_210_096_789},
    "tod": {"date": 3_723_004},
    "tags": ["a", "b"],
    "inner": {"struct": {"x": {"i32": 1}, "y": "z", "deep": {"struct": {"z": {"f64": "2.5"}}}}},
    "note": "noted",
    "seven": {"i32": 8},
    "half": {"f64": "0.25"},
}
SPARSE: Final = {
    name: value
    for name, value in FULL.items()
    if name not in ("name", "short", "data", "amount", "note", "seven", "half")
} | {"inner": {"struct": {"x": {"i32": 1}}}}
PAIR: Final = struct(("a", "INT32"), ("b", "STRING?"))
PAIR_VALUE: Final = {"struct": {"a": {"i32": 1}, "b": "one"}}
WITH_MAP: Final = struct(
    ("a", "INT32"),
    ("attrs", {"type": "MAP", "keys": "STRING", "values": "INT32"}),
    ("list", {"type": "ARRAY?", "values": "INT32"}),
)
OUTER_DEFAULT: Final = struct(
    ("a", {"type": "INT32", "default": {"i32": 4}}),
    ("in", struct(("b", "STRING"), ("c", {"type": "INT64?"}), optional=True,
                  default={"struct": {"b": "deep default", "c": 9}})),
    optional=True,
    name="Outer",
    default={"struct": {"a": {"i32": 2}, "in": {"struct": {"b": "from outside"}}}},
)  # fmt: skip
TIMED_DEFAULT: Final = struct(
    ("n", {"type": "INT64", "default": 86_400_000}),
    ("b", "STRING?"),
    optional=True,
    default={"struct": {"n": 1_709_210_096_789, "b": "d"}},
)
NUMBERS: Final = struct(
    *((f"n{at}", "INT64?") for at in range(4)),
    *((f"f{at}", "FLOAT64?") for at in range(6)),
    *((f"g{at}", "FLOAT32?") for at in range(4)),
    *((f"t{at}", "STRING?") for at in range(8)),
    ("dec", DECIMAL),
    ("bool", "BOOLEAN"),
)
NUMBER_VALUES: Final = {
    "n0": -(2**63), "n1": 2**63 - 1, "n2": 2**31 + 5, "n3": 0,
    "f0": {"f64": "NaN"}, "f1": {"f64": "Infinity"}, "f2": {"f64": "-1.0E30"},
    "f3": {"f64": "-0.0"}, "f4": {"f64": "130.9"}, "f5": {"f64": "3.0E9"},
    "g0": {"f32": "16777216"}, "g1": {"f32": "3.4028235E38"}, "g2": {"f32": "1.0E-45"},
    "g3": {"f32": "-2.5"},
    "t0": "127", "t1": "+5", "t2": "-128", "t3": "0", "t4": "٣", "t5": "99", "t6": "TRUE",
    "t7": "yes",
    "dec": {"decimal": "-300.99"}, "bool": False,
}  # fmt: skip

HEADERS: Final = [["h", "STRING", "one"], ["h", "INT32", {"i32": 2}], ["k", None, None]]
SINK: Final = {"topic": "orders", "partition": 3, "offset": 42, "timestamp": 1_709_210_096_789}

MAP_ENTRIES: Final = [
    ["id", 5],
    ["name", "Ada"],
    ["price", {"f64": "12.75"}],
    ["flag", True],
    ["none", None],
    ["tags", ["a", 1]],
    [
        "inner",
        {"map": [["x", 1], ["y", None], ["deep", {"map": [["z", "q"]]}], ["e", {"map": []}]]},
    ],
    ["a.b", "dotted"],
]

RECORDS: Final[dict[str, Json]] = {
    "full": {**SINK, "key": ["STRING", "k"], "value": [ORDER, {"struct": FULL}],
             "headers": HEADERS},
    "sparse": {**SINK, "value": [ORDER, {"struct": SPARSE}]},
    "pair": {**SINK, "key": ["INT32", {"i32": 9}], "value": [PAIR, PAIR_VALUE]},
    "pair without b": {**SINK, "value": [PAIR, {"struct": {"a": {"i32": 1}}}]},
    "pair without a": {**SINK, "value": [PAIR, {"struct": {"b": "one"}}]},
    "source pair": {"topic": "orders", "value": [PAIR, PAIR_VALUE]},
    "source map": {"topic": "orders", "value": [None, {"map": [["a", 1]]}]},
    "source map placed": {"topic": "orders", "partition": 1, "timestamp": 5,
                          "value": [None, {"map": [["a", 1]]}]},
    "with map": {**SINK, "value": [WITH_MAP, {"struct": {
        "a": {"i32": 1}, "attrs": {"map": [["k", {"i32": 2}]]}, "list": [{"i32": 3}]}}]},
    "defaults": {**SINK, "value": [OUTER_DEFAULT, {"struct": {}}]},
    "defaults inside": {**SINK, "value": [OUTER_DEFAULT, {"struct": {
        "in": {"struct": {"b": "given"}}}}]},
    "timed default": {**SINK, "value": [TIMED_DEFAULT, {"struct": {}}]},
    "timed default, given": {**SINK, "value": [TIMED_DEFAULT, {"struct": {"n": 7, "b": "x"}}]},
    "null struct": {**SINK, "value": [{**ORDER, "type": "STRUCT?"}, None]},
    "null default struct": {**SINK, "value": [OUTER_DEFAULT, None]},
    "null struct, required": {**SINK, "value": [PAIR, None]},
    "numbers": {**SINK, "value": [NUMBERS, {"struct": NUMBER_VALUES}]},
    "map": {**SINK, "key": [None, "k"], "value": [None, {"map": MAP_ENTRIES}], "headers": HEADERS},
    "map of times": {**SINK, "value": [None, {"map": [
        ["at", {"date": 1_709_210_096_789}], ["day", {"date": 86_400_000}],
        ["n", 1_709_210_096_789],
        ["t", "2024-02-29 12:34:56"], ["bad", "not a time"], ["f", {"f64": "1.5"}]]}]},
    "map of odd classes": {**SINK, "value": [None, {"map": [
        ["dec", {"decimal": "1.50"}], ["big", {"bigint": "123456789012345678901"}],
        ["bytes", {"bytes": "AP8="}], ["date", {"date": 1_709_210_096_789}]]}]},
    "map of numbers": {**SINK, "value": [None, {"map": [
        ["n", 5_000_000_300], ["f", {"f64": "-7.9"}], ["t", "0.1"], ["u", "12"], ["b", False],
        ["big", {"f64": "1.0E300"}], ["nan", {"f64": "NaN"}], ["third",
        {"f64": "0.3333333333"}]]}]},
    **{f"odd {name}": {**SINK, "value": [None, {"map": [["odd", value], ["a", 1]]}]}
       for name, value in (("decimal", {"decimal": "1.50"}), ("bytes", {"bytes": "AP8="}),
                           ("integer", {"bigint": "123456789012345678901"}),
                           ("date", {"date": 1_709_210_096_789}))},
    "empty map": {**SINK, "value": [None, {"map": []}]},
    "text": {**SINK, "value": [None, "text"]},
    "number": {**SINK, "value": [None, 12]},
    "float": {**SINK, "value": [None, {"f64": "1.5"}]},
    "list": {**SINK, "value": [None, ["a", 1]]},
    "bytes": {**SINK, "value": [None, {"bytes": "AP8="}]},
    "date": {**SINK, "value": [None, {"date": 1_709_210_096_789}]},
    "tombstone": {**SINK, "key": ["STRING", "k"]},
    "null text": {**SINK, "value": ["STRING?", None]},
    "null number": {**SINK, "value": [{"type": "INT32?", "default": {"i32": 3}}, None]},
    "typed text": {**SINK, "value": [{"type": "STRING", "name": "Word", "version": 2}, "77"]},
    "typed int": {**SINK, "value": ["INT32", {"i32": 300}]},
    "typed int8": {**SINK, "value": ["INT8?", {"i8": 3}]},
    "typed bool": {**SINK, "value": ["BOOLEAN", True]},
    "typed float": {**SINK, "value": [{"type": "FLOAT32", "default": {"f32": "1.5"}},
                                      {"f32": "0.1"}]},
    "typed bytes": {**SINK, "value": ["BYTES", {"bytes": "AP8="}]},
    "typed decimal": {**SINK, "value": [{**DECIMAL, "type": "BYTES"}, {"decimal": "-1234.50"}]},
    "typed date": {**SINK, "value": [DATE, {"date": 1_709_164_800_000}]},
    "typed time": {**SINK, "value": [TIME, {"date": 3_723_004}]},
    "typed timestamp": {**SINK, "value": [OPTIONAL_TIMESTAMP, {"date": 1_709_210_096_789}]},
    "typed old timestamp": {**SINK, "value": [TIMESTAMP, {"date": -1_709_210_096_789}]},
    "typed long": {**SINK, "value": ["INT64?", 1_709_210_096_789]},
    "typed negative long": {**SINK, "value": ["INT64", -1]},
    "typed huge long": {**SINK, "value": ["INT64", 9_223_372_036_854_775_807]},
    "typed array": {**SINK, "value": [{"type": "ARRAY", "values": "STRING"}, ["a"]]},
    "typed map": {**SINK, "value": [{"type": "MAP", "keys": "STRING", "values": "INT32"},
                                    {"map": [["k", {"i32": 1}]]}]},
    "no timestamp": {"topic": "orders", "partition": 0, "offset": 7,
                     "key": [None, {"map": [["k", 1]]}], "value": ["STRING", "v"],
                     "headers": HEADERS},
    "source no timestamp": {"topic": "orders", "value": [PAIR, PAIR_VALUE]},
    "old": {**SINK, "timestamp": -12_219_292_800_001, "value": [None, "v"]},
    "other topic": {**SINK, "topic": "aaa-b.c_2", "value": [None, "v"]},
}  # fmt: skip

TIME_TEXTS: Final = {
    "yyyy-MM-dd HH:mm:ss": ("2024-02-29 12:34:56", "2024-2-29 1:2:3", "2024-13-41 25:61:61",
                            "2024-02-29 12:34:56 and more", " 2024-02-29 12:34:56", "2024-02-29",
                            "1500-02-29 00:00:00", "0001-01-01 00:00:00", "12024-01-01 00:00:00",
                            "", "x", "-5-01-01 00:00:00", "2024-02-29T12:34:56"),
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX": ("2024-02-29T12:34:56.789Z", "2024-02-29T12:34:56.789+05:30",
                                     "2024-02-29T12:34:56.7Z", "2024-02-29T12:34:56.789+0530",
                                     "2024-02-29T12:34:56.789"),
    "yyyy-MM-dd'T'HH:mm:ss'Z'": ("2024-02-29T12:34:56Z", "2024-02-29T12:34:56+01"),
    "yyyyMMddHHmmssSSS": ("20240229123456789", "2024022912345678", "2024022912345"),
    "dd/MM/yyyy": ("29/02/2024", "1/1/2024", "32/01/2024", "29/02/24", "29/02/2024x"),
    "EEE, d MMM yyyy HH:mm:ss Z": ("Thu, 29 Feb 2024 12:34:56 +0100",
                                   "thu, 29 february 2024 0:0:0 GMT",
                                   "Thursday, 29 Feb 2024 12:34:56 PST",
                                   "Don, 29 Feb 2024 0:0:0 Z"),
    "h:mm a": ("12:05 AM", "12:05 PM", "1:05 pm", "13:05 AM"),
    "yyyy D": ("2024 60", "2024 366"),
    "YYYY-'W'ww-u": ("2024-W09-4", "2024-W01-7"),
    "yyyy.MM.dd G": ("0044.03.15 BC", "2024.02.29 AD"),
}  # fmt: skip
for _pattern, _texts in TIME_TEXTS.items():
    for _text in _texts:
        RECORDS[f"time {_pattern} {_text}"] = {
            **SINK,
            "value": [struct(("t", "STRING?"), ("b", "INT8?")), {"struct": {"t": _text}}],
        }

MAPS: Final = ("map", "empty map", "source map", "tombstone", "text", "number", "list")
STRUCTS: Final = ("full", "sparse", "pair", "pair without b", "pair without a", "defaults",
                  "defaults inside", "null struct", "null default struct", "typed int",
                  "typed map", "null text")  # fmt: skip
BOTH: Final = (*MAPS, *STRUCTS)
TYPED: Final = tuple(name for name in RECORDS if name.startswith("typed "))
BARE: Final = ("text", "number", "float", "list", "bytes", "date", "tombstone", "null text",
               "null number", "map")  # fmt: skip
ODD: Final = tuple(name for name in RECORDS if name.startswith("odd "))
NO_DEFAULTS: Final = {"replace.null.with.default": "false"}


def _cast() -> Iterable[Case]:
    types = "int8 int16 int32 int64 float32 float64 boolean string".split()
    for type in types:
        yield Case("Cast$Value", {"spec": type}, (*TYPED, *BARE, "pair"))
        names = ",".join(f"{name}:{type}" for name in "id price qty flag small short ratio".split())
        yield Case("Cast$Value", {"spec": names}, ("full", "sparse", "map", "pair", "tombstone"))
        numbers = ",".join(f"{name}:{type}" for name in ("n0", "n1", "n2", "n3", "dec", "bool"))
        yield Case("Cast$Value", {"spec": numbers}, ("numbers",))
        yield Case("Cast$Value", {"spec": f"n:{type},f:{type},b:{type}"}, ("map of numbers",))
        for name in ("f0", "f1", "f2", "f3", "f4", "f5", "g0", "g1", "g2", "g3"):
            yield Case("Cast$Value", {"spec": f"{name}:{type}"}, ("numbers",))
        for name in ("t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"):
            yield Case("Cast$Value", {"spec": f"{name}:{type}"}, ("numbers",))
        for name in ("t", "u", "big", "nan", "third"):
            yield Case("Cast$Value", {"spec": f"{name}:{type}"}, ("map of numbers",))
        for name in ("day", "at", "tod", "amount", "data", "note", "seven", "half"):
            yield Case("Cast$Value", {"spec": f"{name}:{type}"}, ("full", "sparse"))
        for name in ("dec", "big", "bytes", "date"):
            yield Case("Cast$Value", {"spec": f"{name}:{type}"}, ("map of odd classes",))
    yield Case("Cast$Value", {"spec": "tags:string"}, ("full", "map"))
    yield Case("Cast$Value", {"spec": "inner:string"}, ("full", "map"))
    yield Case("Cast$Value", {"spec": "a:string,in:string"}, STRUCTS)
    yield Case("Cast$Value", {"spec": "a:STRING,b:Boolean"}, BOTH)
    yield Case("Cast$Value", {"spec": "a:float64", **NO_DEFAULTS}, STRUCTS)
    yield Case(
        "Cast$Value", {"spec": "seven:string,note:boolean", **NO_DEFAULTS}, ("full", "sparse")
    )
    yield Case("Cast$Value", {"spec": " a : int8 , b :string"}, ("pair",))
    yield Case("Cast$Key", {"spec": "string"}, ("full", "pair", "tombstone", "map"))
    for spec in ("", "a:b:c", "a:nope", "nope", "a:bytes", "bytes", "int8,a:int8", "a:int8:", "a:",
                 ":int8", "a:array", "int8,int8", "a:int8,a:int16", ",a:int8"):  # fmt: skip
        yield Case("Cast$Value", {"spec": spec}, ("pair",))
    yield Case("Cast$Value", {}, ("pair",))


def _fields() -> Iterable[Case]:
    for path, version in (
        ("a", "V1"), ("missing", "V1"), ("a.b", "V1"), ("inner", "V1"), ("inner.x", "V1"),
        ("inner.x", "V2"), ("inner.deep.z", "v2"), ("inner.y", "V2"), ("`a.b`", "V2"), ("a", "V2"),
        ("inner.nope", "V2"), ("id.x", "V2"), ("name", "V1"), ("note", "V1"), ("seven", "V2"),
        ("tags", "V1"), ("in.b", "V2"), ("in", "V1"), ("inner.deep", "V2"), ("none", "V1"),
        ("none.x", "V2"), ("b", "V1"), ("a`b", "V2"), ("inner.`x`", "V2"), ("`inner`.x", "V2"),
        ("inner.", "V2"), (".x", "V2"), ("``", "V2"), ("`a`b`", "V2"), ("a..b", "V2"),
        ("inner.`x", "V2"), ("`a\\`.b`", "V2"), ("x", "V3"), ("", "V1"), ("", "V2"),
    ):  # fmt: skip
        config: Config = {"field": path, "field.syntax.version": version}
        yield Case("ExtractField$Value", config, BOTH)
        if path in ("note", "seven", "in", "in.b", "inner.y", "a"):
            yield Case("ExtractField$Value", {**config, **NO_DEFAULTS}, STRUCTS)
    yield Case("ExtractField$Key", {"field": "k"}, ("no timestamp", "full", "tombstone", "map"))
    yield Case("ExtractField$Value", {}, ())
    yield Case("HoistField$Value", {"field": "whole"}, (*BOTH, *TYPED, "null struct, required"))
    yield Case("HoistField$Key", {"field": "k"}, ("full", "map", "pair", "sparse"))
    yield Case("HoistField$Value", {"field": ""}, ("pair", "map"))
    yield Case("HoistField$Value", {}, ())
    for delimiter in (".", "_", ""):
        config = {"delimiter": delimiter}
        yield Case("Flatten$Value", config, (*BOTH, "with map", *ODD))
    yield Case("Flatten$Value", {}, (*BOTH, "map of times", "null struct, required"))
    yield Case("Flatten$Key", {}, ("no timestamp", "full", "tombstone"))


def _insert() -> Iterable[Case]:
    names = ("topic", "partition", "offset", "timestamp")
    for suffix in ("", "!", "?", "!!"):
        every: Config = {f"{name}.field": f"_{name}{suffix}" for name in names}
        static = {"static.field": f"_s{suffix}", "static.value": "constant"}
        yield Case("InsertField$Value", {**every, **static},
                   (*BOTH, "source pair", "source map placed", "no timestamp"))  # fmt: skip
    for name in names:
        yield Case("InsertField$Value", {f"{name}.field": "new"},
                   ("pair", "map", "source pair", "source map", "source map placed",
                    "no timestamp"))  # fmt: skip
    yield Case("InsertField$Value", {"static.field": "s", "static.value": "x"}, BOTH)
    yield Case("InsertField$Value", {"static.field": "s", "static.value": "x", **NO_DEFAULTS}, BOTH)
    yield Case("InsertField$Value", {"static.field": "a", "static.value": "x"}, BOTH)
    yield Case("InsertField$Value", {"topic.field": "x", "static.field": "x", "static.value": "y"},
               ("pair", "map"))  # fmt: skip
    yield Case("InsertField$Value", {}, ("pair",))
    yield Case("InsertField$Value", {"static.field": "a"}, ("pair",))
    yield Case("InsertField$Value", {"static.value": "a"}, ("pair",))
    yield Case("InsertField$Value", {"static.field": "s", "static.value": ""}, ("pair", "map"))
    yield Case("InsertField$Value", {"topic.field": ""}, ("pair", "map"))
    yield Case("InsertField$Key", {"topic.field": "t"}, ("no timestamp", "full", "sparse"))


def _mask() -> Iterable[Case]:
    names = (
        "id name price qty flag small short ratio day at tod tags note seven half amount".split()
    )
    yield Case("MaskField$Value", {"fields": ",".join(names)}, (*BOTH, "source map"))
    yield Case("MaskField$Value", {"fields": "note,seven", **NO_DEFAULTS}, STRUCTS)
    for name in (*names, "data", "inner", "missing", "none"):
        yield Case("MaskField$Value", {"fields": name}, ("full", "sparse", "map"))
        for text in ("7", "300", "x", "1.5", "-0", "1e3"):
            config: Config = {"fields": name, "replacement": text}
            yield Case("MaskField$Value", config, ("full", "map"))
    yield Case("MaskField$Value", {"fields": "attrs"}, ("with map",))
    for name in ("dec", "big", "bytes", "date"):
        yield Case("MaskField$Value", {"fields": name}, ("map of odd classes",))
        yield Case(
            "MaskField$Value", {"fields": name, "replacement": "12"}, ("map of odd classes",)
        )
    yield Case("MaskField$Value", {"fields": "odd,a"}, ODD)
    for config in ({"fields": ""}, {}, {"fields": "a", "replacement": ""}, {"fields": "a,a"},
                   {"fields": "a,"}, {"fields": " a , b "}):  # fmt: skip
        yield Case("MaskField$Value", {**config}, ("pair", "source map"))
    yield Case("MaskField$Key", {"fields": "k"}, ("no timestamp", "full"))


def _replace() -> Iterable[Case]:
    for config in (
        {}, {"exclude": "a"}, {"include": "a"}, {"renames": "a:b2"}, {"exclude": "a",
        "include": "a,b"},
        {"renames": "a:x,b:y", "exclude": "b"}, {"include": "id,name,inner", "renames": "id:key"},
        {"exclude": "id,tags,inner,missing"}, {"include": "missing"}, {"renames": "a:b"},
        {"renames": "id:name"}, {"include": "note,seven,half"}, {"renames": "a:b:c"},
        {"renames": "a"},
        {"renames": ""}, {"exclude": "a,a"}, {"renames": "a:b,a:c"}, {"renames": "a:"},
        {"renames": ":b"},
        {"exclude": ""}, {"include": "a,,b"},
    ):  # fmt: skip
        yield Case("ReplaceField$Value", {**config}, BOTH)
    yield Case("ReplaceField$Value", {"include": "note,seven,half,a", **NO_DEFAULTS}, STRUCTS)
    yield Case("ReplaceField$Key", {"exclude": "k"}, ("no timestamp", "full", "tombstone"))
    for config in (
        {"schema.name": "New"}, {"schema.version": "9"}, {"schema.name": "New",
        "schema.version": "0"},
        {"schema.name": ""}, {}, {"schema.version": "x"},
        {"schema.name": "org.apache.kafka.connect.data.Timestamp"},
    ):  # fmt: skip
        yield Case("SetSchemaMetadata$Value", {**config}, (*BOTH, *TYPED, "null number"))
    yield Case("SetSchemaMetadata$Value", {"schema.name": "N", **NO_DEFAULTS}, STRUCTS)
    yield Case(
        "SetSchemaMetadata$Key", {"schema.name": "N"}, ("full", "tombstone", "map", "sparse")
    )
    for config in ({"fields": "a"}, {"fields": "a,b"}, {"fields": "id,note,seven,inner"},
                   {"fields": "missing"}, {"fields": ""}, {}, {"fields": "a,a"}):  # fmt: skip
        yield Case("ValueToKey", {**config}, BOTH)
    yield Case("ValueToKey", {"fields": "note,half", **NO_DEFAULTS}, ("full", "sparse"))
    yield Case("ValueToKey", {"fields": "seven", **NO_DEFAULTS}, ("full", "sparse"))
    for fields, version in (
        ("inner.x", "V1"), ("inner.x", "V2"), ("inner.deep.z,inner.x,id", "v2"), ("a", "V2"),
        ("inner.y", "V2"), ("`a.b`", "V2"), ("inner.nope", "V2"), ("id.x", "V2"), ("in.b", "V2"),
        ("none.x", "V2"), ("inner.deep", "V2"), ("inner.`x`", "V2"), ("inner.", "V2"),
        (".x", "V2"), ("``", "V2"), ("a..b", "V2"), ("inner.`x", "V2"), ("inner.x,inner.x", "V2"),
        ("inner.x,`inner`.x", "V2"), ("seven,note", "V2"), ("x", "V3"), ("a,,b", "V2"),
        ("tags.x", "V2"), ("in.b,missing.x", "V2"), ("", "V2"),
    ):  # fmt: skip
        config: Config = {"fields": fields, "field.syntax.version": version}
        yield Case("ValueToKey", config, BOTH)
        if fields in ("inner.y", "in.b", "inner.deep", "seven,note"):
            yield Case("ValueToKey", {**config, **NO_DEFAULTS}, STRUCTS)


def _headers() -> Iterable[Case]:
    for operation in ("copy", "move"):
        for fields, headers in (("a", "ha"), ("a,b", "h,h"), ("id,name,inner,note", "1,2,3,4"),
                                ("note,seven,half", "n,s,f"), ("missing", "m"), ("a,a", "x,y"),
                                ("tags,day,at,amount", "t,d,a,m")):  # fmt: skip
            config: Config = {"fields": fields, "headers": headers, "operation": operation}
            yield Case("HeaderFrom$Value", config, BOTH)
        config = {"fields": "note,seven", "headers": "n,s", "operation": operation, **NO_DEFAULTS}
        yield Case("HeaderFrom$Value", config, ("full", "sparse"))
        config = {"fields": "k", "headers": "n", "operation": operation}
        yield Case("HeaderFrom$Key", config, ("no timestamp", "full", "tombstone"))
    for config in (
        {"fields": "a", "headers": "b,c", "operation": "copy"},
        {"fields": "", "headers": "", "operation": "copy"},
        {"fields": "a", "headers": "b", "operation": "Copy"},
        {"fields": "a", "headers": "b"},
    ):
        yield Case("HeaderFrom$Value", {**config}, ("pair",))
    for names in ("h", "k", "h,k", "nope", "", "h,h"):
        yield Case("DropHeaders", {"headers": names}, ("full", "pair", "map"))
    yield Case("DropHeaders", {}, ("full",))
    for literal in ("text", "12", "1.5", "true", "null", "[1,2]", '{"a":1}', "", "2024-02-29",
                    " padded ", "99999999999", "1e400"):  # fmt: skip
        yield Case("InsertHeader", {"header": "h", "value.literal": literal}, ("full", "pair"))
    for config in (
        {},
        {"header": "h"},
        {"value.literal": "v"},
        {"header": "", "value.literal": "v"},
    ):
        yield Case("InsertHeader", {**config}, ("pair",))


def _routes() -> Iterable[Case]:
    records = ("pair", "other topic", "source pair")
    for regex, replacement in (
        ("orders", "x"), ("(o)(r).*", "$2$1"), ("(.*)", "p-$1-s"), ("(?<n>o.*)", "${n}!"),
        ("order", "x"), (".*?", "x"), ("a*.*", "y"), ("(.*)-(.*)", "$2-$1"), ("(o)rders", "$10"),
        ("(o)rders", "$2"), ("orders", "$"), ("orders", "\\"), ("orders", "\\$1"), ("orders", "$a"),
        ("(?<n>o).*", "${m}"), ("(?<n>o).*", "${n"), ("orders", "${}"), ("orders", "${1}"),
        ("orders", ""), ("(x)?orders", "[$1]"), ("orders", "a\\b"), ("(", "x"), ("", "x"), ("[",
        "x"),
        ("o|orders", "z"), ("(?<n>o).*", "${n1}"), ("(?<n>o).*", "${n-}"), ("(o)rders", "$0$0"),
    ):  # fmt: skip
        yield Case("RegexRouter", {"regex": regex, "replacement": replacement}, records)
    yield Case("RegexRouter", {"regex": "orders"}, ("pair",))
    yield Case("RegexRouter", {"replacement": "orders"}, ("pair",))
    for topic, time in (
        (None, None), ("${topic}_${timestamp}", "yyyy-MM-dd"), ("${timestamp}",
        "yyyyMMddHHmmssSSS"),
        ("fixed", "yyyy"), ("${topic}${topic}$", "yyyy"), ("t-${timestamp}-${timestamp}",
        "EEE D w W F"),
        ("${timestamp}", "G yy MMM MMMM k K h a z Z X u YYYY"), ("${timestamp}", "b"),
        ("${timestamp}", "'open"), ("${timestamp}", ""), ("", "yyyy"), ("${nope}", "yyyy"),
        ("${timestamp}", "XXXX"),
    ):  # fmt: skip
        config = {"topic.format": topic, "timestamp.format": time}
        yield Case("TimestampRouter", {k: v for k, v in config.items() if v is not None},
                   ("pair", "old", "other topic", "no timestamp", "source no timestamp",
                    "source map placed"))  # fmt: skip
    yield Case("Filter", {}, ("pair", "tombstone", "map"))
    for pattern in ("orders", "order", ".*", "aaa.*|orders", "(", ""):
        yield Case("predicates.TopicNameMatches", {"pattern": pattern}, records)
    yield Case("predicates.TopicNameMatches", {}, records)
    for name in ("h", "k", "nope", "H", ""):
        yield Case("predicates.HasHeaderKey", {"name": name}, ("full", "pair", "map"))
    yield Case("predicates.HasHeaderKey", {}, ("pair",))
    yield Case("predicates.RecordIsTombstone", {}, BOTH)


def _times() -> Iterable[Case]:
    targets = ("string", "unix", "Date", "Time", "Timestamp")
    pattern = "yyyy-MM-dd HH:mm:ss"
    for target in targets:
        config: Config = {"target.type": target, "format": pattern}
        yield Case("TimestampConverter$Value", config, (*TYPED, *BARE, "pair"))
        for name in ("day", "at", "tod", "id", "name", "qty", "note", "missing"):
            yield Case("TimestampConverter$Value", {**config, "field": name},
                       ("full", "sparse", "map"))  # fmt: skip
        for name in ("at", "day", "n", "t", "bad", "f", "missing"):
            yield Case("TimestampConverter$Value", {**config, "field": name}, ("map of times",))
        yield Case("TimestampConverter$Value", {**config, "field": "a"}, BOTH)
        yield Case("TimestampConverter$Value", {**config, "field": "n"},
                   ("timed default", "timed default, given"))  # fmt: skip
        yield Case("TimestampConverter$Value", {**config, "field": "n", **NO_DEFAULTS},
                   ("timed default", "timed default, given"))  # fmt: skip
        for unit in ("seconds", "microseconds", "nanoseconds"):
            yield Case("TimestampConverter$Value", {**config, "unix.precision": unit},
                       ("typed long", "typed negative long", "typed huge long", "typed timestamp",
                        "typed old timestamp", "number"))  # fmt: skip
        for known, texts in TIME_TEXTS.items():
            config = {"target.type": target, "format": known, "field": "t"}
            names = tuple(f"time {known} {text}" for text in texts)
            yield Case("TimestampConverter$Value", config, names)
    for format in (*TIME_TEXTS, "yy", "EEEE MMMM d", "h 'o''clock' a, zzzz", "SSSSSS", "'%' yyyy",
                   "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "HH:mm", "LLLL d", "Y w W u F k K"):  # fmt: skip
        config = {"target.type": "string", "format": format}
        yield Case("TimestampConverter$Value", config,
                   ("typed timestamp", "typed old timestamp", "typed date", "typed time",
                    "typed long", "typed negative long", "date", "number"))  # fmt: skip
    for config in (
        {"target.type": "string"}, {"target.type": "text"}, {"target.type": "unix", "format": "b"},
        {"target.type": "string", "format": "  "}, {"target.type": "unix",
        "unix.precision": "days"},
        {}, {"target.type": "string", "format": "'x"}, {"target.type": "unix"},
    ):  # fmt: skip
        yield Case(
            "TimestampConverter$Value", {**config}, ("typed timestamp", "typed text", "text")
        )
    yield Case("TimestampConverter$Value",
               {"target.type": "Timestamp", "field": "note", "format": "'none'", **NO_DEFAULTS},
               ("full", "sparse"))  # fmt: skip
    yield Case(
        "TimestampConverter$Key", {"target.type": "string", "format": "yyyy"}, ("full", "map")
    )


CASES: Final = [
    case
    for cases in (_cast, _fields, _insert, _mask, _replace, _headers, _routes, _times)
    for case in cases()
]

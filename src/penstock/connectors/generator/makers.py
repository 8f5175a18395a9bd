"""Values of an Avro schema, as its annotations want them.

The annotations (`arg.properties`) are those of Confluent's generator:

| annotation | of | values |
|---|---|---|
| `options` | every type | one of a list, or of a JSON file: `{"file": …, "encoding": "json"}` |
| `range` | numbers | from `min` up to, but without, `max` |
| `iteration` | numbers, booleans, strings | `start`, and `step` (1) more with each record; `restart`: back to `start` there; `initial`: begins there |
| `odds` | booleans | the probability of true |
| `length` | strings, bytes, arrays, maps | a number, or from `min` up to, but without, `max`; 8 to 15 by default |
| `regex` | strings | texts that match it |
| `prefix`, `suffix` | strings | around the text |
| `keys` | maps | annotations of the keys |
"""  # noqa: E501

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np

from penstock.api import DataError
from penstock.api.schema import Value, days_to_date, float32, ms_to_time, ms_to_timestamp
from penstock.connectors.generator.patterns import texts_of

Make = Callable[[np.random.Generator, int, int], list[Value]]
"""Takes a source of randomness, the number of the first record, and how many."""
Node = Any
"""A part of an Avro schema: parsed JSON."""

ANNOTATIONS: Final = "arg.properties"
_LENGTH: Final = (8, 16)
_LETTERS: Final = string.ascii_letters + string.digits
_INTS: Final = {"int": (-(2**31), 2**31), "long": (-(2**63), 2**63)}
_KNOWN: Final = {
    *("options", "range", "iteration", "odds", "length", "regex", "prefix", "suffix", "keys")
}
_MOMENTS: Final[Mapping[tuple[str, str], Callable[[int], Value]]] = {
    ("int", "date"): days_to_date,
    ("int", "time-millis"): ms_to_time,
    ("long", "timestamp-millis"): ms_to_timestamp,
    ("long", "timestamp-micros"): lambda micros: ms_to_timestamp(micros // 1000),
}


def maker(node: Node) -> Make:
    """What makes values of a schema. Raises DataError for annotations that are not understood, and
    for schemas that Connect has no value of."""
    return _Reader().of(node, "the schema")


@dataclass(slots=True)
class _Reader:
    named: dict[str, Make] = field(default_factory=dict)

    def of(self, node: Node, where: str) -> Make:
        if isinstance(node, list):
            return self._union(node, where)
        if isinstance(node, str):
            if node in self.named:
                return self.named[node]
            node = {"type": node}
        if isinstance(node["type"], dict | list):
            return self.of(node["type"], where)
        given = node.get(ANNOTATIONS, {})
        if not isinstance(given, dict) or (unknown := sorted(set(given) - _KNOWN)):
            raise DataError(f"{ANNOTATIONS} of {where} are not understood: {unknown or given}")
        make = self._typed(node, given, where)
        if "name" in node:
            self.named[node["name"]] = make
            if "namespace" in node:
                self.named[f"{node['namespace']}.{node['name']}"] = make
        return make

    def _union(self, nodes: Sequence[Node], where: str) -> Make:
        branches = [each for each in nodes if each != "null"]
        if len(branches) != 1:
            raise DataError(f"{where} is a union of several types, which cannot be generated")
        make = self.of(branches[0], where)
        if len(nodes) == 1:
            return make

        def maybe(rng: np.random.Generator, first: int, count: int) -> list[Value]:
            there = rng.integers(2, size=count)
            return [
                value if is_there else None
                for value, is_there in zip(make(rng, first, count), there, strict=True)
            ]

        return maybe

    def _typed(self, node: Node, given: Mapping[str, Any], where: str) -> Make:
        kind = node["type"]
        read = _value_of(node)
        if "options" in given:
            return _one_of([read(each) for each in _options(given["options"], where)], where)
        match kind:
            case "null":
                return lambda rng, first, count: [None] * count
            case "boolean":
                return _boolean(given)
            case "int" | "long":
                return _through(_number(kind, given, where), read)
            case "float" | "double":
                return _through(_fraction(given, where), float32 if kind == "float" else read)
            case "bytes" | "fixed" if node.get("logicalType") == "decimal":
                return _through(_fraction(given, where), read)
            case "bytes":
                return _bytes(*_length(given, where))
            case "fixed":
                return _bytes(node["size"], node["size"] + 1)
            case "string":
                return _string(given, where)
            case "enum":
                return _one_of(list(node["symbols"]), where)
            case "record":
                return self._record(node, where)
            case "array":
                items = self.of(node["items"], f"the items of {where}")
                return _array(items, *_length(given, where))
            case "map":
                keys = _string(given.get("keys", {}), f"the keys of {where}")
                if "options" in given.get("keys", {}):
                    keys = _one_of(_options(given["keys"]["options"], where), where)
                values = self.of(node["values"], f"the values of {where}")
                return _map(keys, values, *_length(given, where))
        raise DataError(f"{where} has the type '{kind}', which cannot be generated")

    def _record(self, node: Node, where: str) -> Make:
        names = [each["name"] for each in node["fields"]]
        makes = [self.of(each["type"], f"field '{each['name']}'") for each in node["fields"]]
        if not makes:
            return lambda rng, first, count: [{} for _ in range(count)]

        def make(rng: np.random.Generator, first: int, count: int) -> list[Value]:
            columns = [each(rng, first, count) for each in makes]
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

        return make


def _value_of(node: Node) -> Callable[[Any], Value]:
    """Turns what an annotation says into a value of the schema."""
    kind, logical = node["type"], str(node.get("logicalType", ""))
    if moment := _MOMENTS.get((kind, logical)):
        return moment
    match kind:
        case "int" | "long":
            return int
        case "double":
            return float
        case "float":
            return float32
        case "bytes" | "fixed" if logical == "decimal":
            unit = Decimal(1).scaleb(-int(node.get("scale", 0)))
            return lambda number: Decimal(str(number)).quantize(unit)
        case "bytes":
            return base64.b64decode
        case "fixed":
            return lambda text: bytes(text, "latin-1")
        case "record":
            reads = {each["name"]: _value_of(_whole(each["type"])) for each in node["fields"]}
            return lambda row: {name: read(row[name]) for name, read in reads.items()}
        case "array":
            read_item = _value_of(_whole(node["items"]))
            return lambda items: [read_item(each) for each in items]
        case "map":
            read_value = _value_of(_whole(node["values"]))
            return lambda row: {name: read_value(each) for name, each in row.items()}
    return lambda value: value


def _whole(node: Node) -> Node:
    if isinstance(node, list):
        node = next((each for each in node if each != "null"), "null")
    return node if isinstance(node, dict) else {"type": node}


def _options(given: Any, where: str) -> list[Any]:
    if isinstance(given, dict):
        if given.get("encoding") != "json":
            raise DataError(f"The options of {where} are in a file whose encoding is not 'json'")
        try:
            given = json.loads(Path(given["file"]).read_text())
        except (OSError, KeyError, ValueError) as error:
            raise DataError(f"The file with the options of {where} cannot be read: {error}") from (
                error
            )
    if not isinstance(given, list) or not given:
        raise DataError(f"The options of {where} are no list with something in it")
    return given


def _one_of(options: list[Value], where: str) -> Make:
    if not options:
        raise DataError(f"There is nothing to choose from for {where}")
    return lambda rng, first, count: [
        options[each] for each in rng.integers(len(options), size=count)
    ]


def _through(make: Make, change: Callable[[Any], Value]) -> Make:
    if change in (int, float):
        return make
    return lambda rng, first, count: [change(each) for each in make(rng, first, count)]


def _bounds(given: Mapping[str, Any], low: float, high: float, where: str) -> tuple[Any, Any]:
    low, high = given.get("min", low), given.get("max", high)
    if not low < high:
        raise DataError(f"The range of {where}, from {low} to {high}, is empty")
    return low, high


def _number(kind: str, given: Mapping[str, Any], where: str) -> Make:
    if "iteration" in given:
        return _iterated(given["iteration"], where)
    low, high = _bounds(given.get("range", {}), *_INTS[kind], where)
    return lambda rng, first, count: rng.integers(int(low), int(high), size=count).tolist()


def _fraction(given: Mapping[str, Any], where: str) -> Make:
    if "iteration" in given:
        iterated = _iterated(given["iteration"], where)
        return lambda rng, first, count: [float(each) for each in iterated(rng, first, count)]
    low, high = _bounds(given.get("range", {}), 0.0, 1.0, where)
    return lambda rng, first, count: rng.uniform(low, high, size=count).tolist()


def _boolean(given: Mapping[str, Any]) -> Make:
    if "iteration" in given:
        start = int(bool(given["iteration"].get("start")))
        return lambda rng, first, count: [
            (start + each) % 2 == 1 for each in range(first, first + count)
        ]
    odds = float(given.get("odds", 0.5))
    return lambda rng, first, count: (rng.random(count) < odds).tolist()


def _iterated(given: Mapping[str, Any], where: str) -> Make:
    if "start" not in given:
        raise DataError(f"The iteration of {where} has no 'start'")
    start, restart = given["start"], given.get("restart")
    step = given.get("step", 1 if restart is None or restart > start else -1)
    begin = given.get("initial", start) - start
    if restart is None:
        return lambda rng, first, count: [
            start + begin + step * each for each in range(first, first + count)
        ]
    if restart == start or not step:
        raise DataError(f"The iteration of {where} does not move")
    span = restart - start
    return lambda rng, first, count: [
        start + (begin + step * each) % span for each in range(first, first + count)
    ]


def _length(given: Mapping[str, Any], where: str) -> tuple[int, int]:
    length = given.get("length", {})
    if isinstance(length, int):
        return length, length + 1
    low, high = _bounds(length, 0 if "max" in length else _LENGTH[0], _LENGTH[1], where)
    return int(low), int(high)


def _string(given: Mapping[str, Any], where: str) -> Make:
    prefix, suffix = str(given.get("prefix", "")), str(given.get("suffix", ""))
    if "iteration" in given:
        iterated = _iterated(given["iteration"], where)
        return _through(iterated, lambda number: f"{prefix}{number}{suffix}")
    if "regex" in given:
        texts = texts_of(str(given["regex"]))
    else:
        low, high = _length(given, where)
        texts = texts_of(f"[{_LETTERS}]{{{low},{high - 1}}}")
    if not prefix and not suffix:
        return lambda rng, first, count: list(texts(rng, count))
    return lambda rng, first, count: [f"{prefix}{each}{suffix}" for each in texts(rng, count)]


def _bytes(low: int, high: int) -> Make:
    return lambda rng, first, count: [
        rng.bytes(length) for length in rng.integers(low, high, size=count).tolist()
    ]


def _array(items: Make, low: int, high: int) -> Make:
    def make(rng: np.random.Generator, first: int, count: int) -> list[Value]:
        lengths = rng.integers(low, high, size=count).tolist()
        made = iter(items(rng, first, sum(lengths)))
        return [[next(made) for _ in range(length)] for length in lengths]

    return make


def _map(keys: Make, values: Make, low: int, high: int) -> Make:
    def make(rng: np.random.Generator, first: int, count: int) -> list[Value]:
        lengths = rng.integers(low, high, size=count).tolist()
        total = sum(lengths)
        made = iter(zip(keys(rng, first, total), values(rng, first, total), strict=True))
        return [dict(next(made) for _ in range(length)) for length in lengths]

    return make

"""Makes values of an Avro schema according to its annotations.

The annotations (`arg.properties`) are those of Confluent's generator:

| annotation | of | values |
|---|---|---|
| `options` | every type | one of a list, or of a JSON file: `{"file": …, "encoding": "json"}` |
| `range` | numbers | from `min` up to, not including, `max` |
| `iteration` | numbers, booleans, strings | `start`, and `step` (1) more with each record; `restart`: back to `start` there; `initial`: begins there |
| `odds` | booleans | the probability of true |
| `length` | strings, bytes, arrays, maps | a number, or from `min` up to, not including, `max`; 8 to 15 by default |
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
"""Makes values from a random generator, the number of the first record, and a count."""
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
    """Returns a maker of values of a schema. Raises DataError for unknown annotations, and for
    schemas that Connect cannot represent."""
    return _Reader().of(node, "the schema")


@dataclass(slots=True)
class _Reader:
    named: dict[str, Make] = field(default_factory=dict)

    def of(self, node: Node, label: str) -> Make:
        if isinstance(node, list):
            return self._union(node, label)
        if isinstance(node, str):
            if node in self.named:
                return self.named[node]
            node = {"type": node}
        if isinstance(node["type"], dict | list):
            return self.of(node["type"], label)
        annotations = node.get(ANNOTATIONS, {})
        if not isinstance(annotations, dict):
            raise DataError(f"{ANNOTATIONS} of {label} must be an object: {annotations}")
        if unknown := sorted(set(annotations) - _KNOWN):
            raise DataError(f"{ANNOTATIONS} of {label} has unknown entries: {unknown}")
        make = self._typed(node, annotations, label)
        if "name" in node:
            self.named[node["name"]] = make
            if "namespace" in node:
                self.named[f"{node['namespace']}.{node['name']}"] = make
        return make

    def _union(self, nodes: Sequence[Node], label: str) -> Make:
        branches = [branch for branch in nodes if branch != "null"]
        if len(branches) != 1:
            raise DataError(f"{label} is a union of several types, which is not supported")
        make = self.of(branches[0], label)
        if len(nodes) == 1:
            return make

        def maybe(rng: np.random.Generator, first: int, count: int) -> list[Value]:
            presence = rng.integers(2, size=count)
            return [
                value if is_present else None
                for value, is_present in zip(make(rng, first, count), presence, strict=True)
            ]

        return maybe

    def _typed(self, node: Node, annotations: Mapping[str, Any], label: str) -> Make:
        kind = node["type"]
        read = _value_of(node)
        if "options" in annotations:
            return _one_of(
                [read(option) for option in _options(annotations["options"], label)], label
            )
        match kind:
            case "null":
                return lambda rng, first, count: [None] * count
            case "boolean":
                return _boolean(annotations)
            case "int" | "long":
                return _through(_number(kind, annotations, label), read)
            case "float" | "double":
                return _through(_fraction(annotations, label), float32 if kind == "float" else read)
            case "bytes" | "fixed" if node.get("logicalType") == "decimal":
                return _through(_fraction(annotations, label), read)
            case "bytes":
                return _bytes(*_length(annotations, label))
            case "fixed":
                return _bytes(node["size"], node["size"] + 1)
            case "string":
                return _string(annotations, label)
            case "enum":
                return _one_of(list(node["symbols"]), label)
            case "record":
                return self._record(node)
            case "array":
                items = self.of(node["items"], f"the items of {label}")
                return _array(items, *_length(annotations, label))
            case "map":
                keys = _string(annotations.get("keys", {}), f"the keys of {label}")
                if "options" in annotations.get("keys", {}):
                    keys = _one_of(_options(annotations["keys"]["options"], label), label)
                values = self.of(node["values"], f"the values of {label}")
                return _map(keys, values, *_length(annotations, label))
        raise DataError(f"{label} has the type '{kind}', which is not supported")

    def _record(self, node: Node) -> Make:
        names = [field["name"] for field in node["fields"]]
        makes = [self.of(field["type"], f"field '{field['name']}'") for field in node["fields"]]
        if not makes:
            return lambda rng, first, count: [{} for _ in range(count)]

        def make(rng: np.random.Generator, first: int, count: int) -> list[Value]:
            columns = [make_column(rng, first, count) for make_column in makes]
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

        return make


def _value_of(node: Node) -> Callable[[Any], Value]:
    """Returns a function from JSON values of an annotation to values of the schema."""
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
            reads = {field["name"]: _value_of(_simple(field["type"])) for field in node["fields"]}
            return lambda row: {name: read(row[name]) for name, read in reads.items()}
        case "array":
            read_item = _value_of(_simple(node["items"]))
            return lambda items: [read_item(item) for item in items]
        case "map":
            read_value = _value_of(_simple(node["values"]))
            return lambda row: {name: read_value(value) for name, value in row.items()}
    return lambda value: value


def _simple(node: Node) -> Node:
    if isinstance(node, list):
        node = next((branch for branch in node if branch != "null"), "null")
    return node if isinstance(node, dict) else {"type": node}


def _options(options: Any, label: str) -> list[Any]:
    if isinstance(options, dict):
        if options.get("encoding") != "json":
            raise DataError(f"The options of {label} are in a file whose encoding is not 'json'")
        try:
            options = json.loads(Path(options["file"]).read_text())
        except (OSError, KeyError, ValueError) as error:
            raise DataError(f"The file with the options of {label} cannot be read: {error}") from (
                error
            )
    if not isinstance(options, list) or not options:
        raise DataError(f"The options of {label} must be a non-empty list")
    return options


def _one_of(options: list[Value], label: str) -> Make:
    if not options:
        raise DataError(f"There are no options for {label}")
    return lambda rng, first, count: [
        options[choice] for choice in rng.integers(len(options), size=count)
    ]


def _through(make: Make, change: Callable[[Any], Value]) -> Make:
    if change in (int, float):
        return make
    return lambda rng, first, count: [change(value) for value in make(rng, first, count)]


def _bounds(bounds: Mapping[str, Any], low: float, high: float, label: str) -> tuple[Any, Any]:
    low, high = bounds.get("min", low), bounds.get("max", high)
    if not low < high:
        raise DataError(f"The range of {label}, from {low} to {high}, is empty")
    return low, high


def _number(kind: str, annotations: Mapping[str, Any], label: str) -> Make:
    if "iteration" in annotations:
        return _iterated(annotations["iteration"], label)
    low, high = _bounds(annotations.get("range", {}), *_INTS[kind], label)
    return lambda rng, first, count: rng.integers(int(low), int(high), size=count).tolist()


def _fraction(annotations: Mapping[str, Any], label: str) -> Make:
    if "iteration" in annotations:
        iterated = _iterated(annotations["iteration"], label)
        return lambda rng, first, count: [float(number) for number in iterated(rng, first, count)]
    low, high = _bounds(annotations.get("range", {}), 0.0, 1.0, label)
    return lambda rng, first, count: rng.uniform(low, high, size=count).tolist()


def _boolean(annotations: Mapping[str, Any]) -> Make:
    if "iteration" in annotations:
        start = int(bool(annotations["iteration"].get("start")))
        return lambda rng, first, count: [
            (start + number) % 2 == 1 for number in range(first, first + count)
        ]
    odds = float(annotations.get("odds", 0.5))
    return lambda rng, first, count: (rng.random(count) < odds).tolist()


def _iterated(iteration: Mapping[str, Any], label: str) -> Make:
    if "start" not in iteration:
        raise DataError(f"The iteration of {label} has no 'start'")
    start, restart = iteration["start"], iteration.get("restart")
    step = iteration.get("step", 1 if restart is None or restart > start else -1)
    begin = iteration.get("initial", start) - start
    if restart is None:
        return lambda rng, first, count: [
            start + begin + step * number for number in range(first, first + count)
        ]
    if restart == start or not step:
        raise DataError(f"The iteration of {label} never advances")
    span = restart - start
    return lambda rng, first, count: [
        start + (begin + step * number) % span for number in range(first, first + count)
    ]


def _length(annotations: Mapping[str, Any], label: str) -> tuple[int, int]:
    length = annotations.get("length", {})
    if isinstance(length, int):
        return length, length + 1
    low, high = _bounds(length, 0 if "max" in length else _LENGTH[0], _LENGTH[1], label)
    return int(low), int(high)


def _string(annotations: Mapping[str, Any], label: str) -> Make:
    prefix, suffix = str(annotations.get("prefix", "")), str(annotations.get("suffix", ""))
    if "iteration" in annotations:
        iterated = _iterated(annotations["iteration"], label)
        return _through(iterated, lambda number: f"{prefix}{number}{suffix}")
    if "regex" in annotations:
        texts = texts_of(str(annotations["regex"]))
    else:
        low, high = _length(annotations, label)
        texts = texts_of(f"[{_LETTERS}]{{{low},{high - 1}}}")
    if not prefix and not suffix:
        return lambda rng, first, count: list(texts(rng, count))
    return lambda rng, first, count: [f"{prefix}{text}{suffix}" for text in texts(rng, count)]


def _bytes(low: int, high: int) -> Make:
    return lambda rng, first, count: [
        rng.bytes(length) for length in rng.integers(low, high, size=count).tolist()
    ]


def _array(items: Make, low: int, high: int) -> Make:
    def make(rng: np.random.Generator, first: int, count: int) -> list[Value]:
        lengths = rng.integers(low, high, size=count).tolist()
        values = iter(items(rng, first, sum(lengths)))
        return [[next(values) for _ in range(length)] for length in lengths]

    return make


def _map(keys: Make, values: Make, low: int, high: int) -> Make:
    def make(rng: np.random.Generator, first: int, count: int) -> list[Value]:
        lengths = rng.integers(low, high, size=count).tolist()
        total = sum(lengths)
        entries = iter(zip(keys(rng, first, total), values(rng, first, total), strict=True))
        return [dict(next(entries) for _ in range(length)) for length in lengths]

    return make

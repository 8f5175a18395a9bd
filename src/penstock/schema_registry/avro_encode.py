"""Compiles an Avro schema into one Python function that encodes prepared values.

The counterpart of `data.avro.decode`, for values that `avro_write` has checked and converted:

    primitive     its value; a date, time or timestamp the number, a decimal the bytes
    enum          the symbol
    array, map    a list, a dict with keys of text
    record        a dict with an entry for every field
    union         None for null; `(index of the branch, value)`; and in a union of null and one
                  simple type just the value
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from struct import Struct
from typing import Any, Final

from penstock.data.avro import schema as names
from penstock.data.avro.schema import Node, Nodes, kind_of, resolved
from penstock.data.avro.source import ArrayItem, MapKey, Source, path_of
from penstock.data.paths import Misfit, joined

Encode = Callable[[Any], bytes]


def is_direct(union: list[Node], named: Nodes) -> bool:
    """Whether values of a union are given without a branch: it is of null and one simple type."""
    return (
        len(union) == 2
        and "null" in union
        and all(kind_of(branch, named) not in ("record", "array", "map") for branch in union)
    )


def encoder(node: Node, named: Nodes) -> Encode:
    """The function that encodes prepared values as data of `node`."""
    return _Compiler(named).function(node)


def _number(value: int) -> bytes:
    """A number as Avro encodes it: the sign in the lowest bit, seven bits per byte."""
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


_HALF: Final = 4096
_NUMBERS: Final = [_number(value) for value in (*range(_HALF), *range(-_HALF, 0))]
"""The bytes of small numbers, by the number; negative ones index the list from its end."""


class _Compiler:
    def __init__(self, named: Nodes) -> None:
        self._named = named
        self._source = Source(
            named,
            {
                "number": _number,
                "numbers": _NUMBERS,
                "float32": Struct("<f").pack,
                "float64": Struct("<d").pack,
                "false": b"\0",
                "true": b"\1",
            },
        )
        self._new, self._constant = self._source.new, self._source.constant
        self._line, self._under = self._source.line, self._source.under

    def function(self, node: Node) -> Encode:
        name = self._define(resolved(node, self._named))
        fill: Callable[[Any, Callable[[bytes], None]], None] = self._source.globals[name]

        def encode(datum: Any) -> bytes:
            parts: list[bytes] = []
            try:
                fill(datum, parts.append)
            except OverflowError as cause:  # a FLOAT32 whose value needs a double
                path = joined(path_of(cause))
                if not path:
                    raise
                raise Misfit(path, str(cause)) from cause
            return b"".join(parts)

        return encode

    def _define(self, node: Node, name: str | None = None) -> str:
        """Generates a function that appends the parts of a value. Returns its name."""
        name = name or self._new("f")
        with self._source.function(name, "d, add"):
            if isinstance(node, dict) and node["type"] == "record":
                self._record(node, "d")
            else:
                self._value(node, "d")
            self._line("return")
        return name

    def _value(self, node: Node, value: str) -> None:
        """Generates the lines that append the variable `value`."""
        if isinstance(node, list):
            self._union(node, value)
            return
        node = resolved(node, self._named)
        kind = kind_of(node, self._named)
        if kind == "record":
            function, unwritten = self._source.shared(node)
            if function is None and not self._source.deep:
                self._record(node, value)
                return
            if function is None or unwritten:
                function = self._define(node, function)
            self._line(f"{function}({value}, add)")
        elif self._source.deep and kind in ("array", "map"):
            self._line(f"{self._define(node)}({value}, add)")
        elif kind in ("array", "map"):
            self._elements(kind, node, value)
        else:
            self._simple(kind, node, value)

    def _record(self, node: Node, value: str) -> None:
        if not node["fields"]:
            self._line("pass")
        # The value of `Anything` contains only fields that are set.
        get = f"{value}.get" if node["name"] == names.ANYTHING else ""
        for field in node["fields"]:
            inner = self._new("x")
            name = field["name"]
            self._line(f"{inner} = {get}({name!r})" if get else f"{inner} = {value}[{name!r}]")
            with nullcontext() if get else self._source.at(name):
                self._value(field["type"], inner)

    def _union(self, node: list[Node], value: str) -> None:
        indices = [self._constant(_number(index)) for index in range(len(node))]
        if "null" in node:
            with self._under(f"if {value} is None:"):
                self._line(f"add({indices[node.index('null')]})")
            branch = "else"
        else:
            branch = "if True"
        with self._under(f"{branch}:"):
            living = [index for index, type in enumerate(node) if type != "null"]
            if is_direct(node, self._named):
                for index in living:
                    self._line(f"add({indices[index]})")
                    self._value(node[index], value)
                return
            choice, inner = self._new("i"), self._new("x")
            self._line(f"{choice}, {inner} = {value}")
            for place, index in enumerate(living):
                with self._under(f"{'elif' if place else 'if'} {choice} == {index}:"):
                    self._line(f"add({indices[index]})")
                    self._value(node[index], inner)

    def _elements(self, kind: str, node: Node, value: str) -> None:
        with self._under(f"if {value}:"):
            self._add_number(f"len({value})")
            if kind == "array":
                inner = self._new("x")
                with (
                    self._under(f"for {inner} in {value}:"),
                    self._source.at(ArrayItem(value, inner)),
                ):
                    self._value(node["items"], inner)
            else:
                key, inner = self._new("x"), self._new("x")
                with self._under(f"for {key}, {inner} in {value}.items():"):
                    self._simple("string", "string", key)
                    with self._source.at(MapKey(key)):
                        self._value(node["values"], inner)
        self._line("add(false)")

    def _add_number(self, value: str) -> None:
        self._line(f"add(numbers[{value}] if -{_HALF} <= {value} < {_HALF} else number({value}))")

    def _simple(self, kind: str, node: Node, value: str) -> None:
        match kind:
            case "null":
                self._line("pass")
            case "boolean":
                self._line(f"add(true if {value} else false)")
            case "int" | "long":
                self._add_number(value)
            case "float" | "double":
                self._line(f"add(float{32 if kind == 'float' else 64}({value}))")
            case "string":
                # As in Java, a lone surrogate is a question mark.
                text, size = self._new("x"), self._new("x")
                self._line(f"{text} = {value}.encode('utf-8', 'replace'); {size} = len({text})")
                self._add_number(size)
                self._line(f"add({text})")
            case "bytes":
                size = self._new("x")
                self._line(f"{size} = len({value})")
                self._add_number(size)
                self._line(f"add({value})")
            case "fixed":
                self._line(f"add({value})")
            case "enum":
                numbers = {symbol: _number(index) for index, symbol in enumerate(node["symbols"])}
                self._line(f"add({self._constant(numbers)}[{value}])")
            case _:
                raise ValueError(f"{kind} is not a type of Avro")

"""Avro schemas as trees of JSON with full names, and Connect's names in them.

primitive       its name
named, again    its full name
everything else an object with `type`: record, enum, fixed, array, map, or a primitive that has
                properties of its own; no `namespace`: `name` is full
union           a list
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from penstock.data.json_text import compact
from penstock.errors import DataError

Node = Any
Nodes = Mapping[str, Node]
"""Named types by their full names."""

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = f"{NAMESPACE}.ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
MAP_ENTRY_NAME: Final = f"{NAMESPACE}.{MAP_ENTRY}"
ANYTHING: Final = f"{NAMESPACE}.Anything"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
SHARED_UNION: Final = "org.apache.kafka.connect.data.Union"
SHARED_ENUM: Final = "org.apache.kafka.connect.data.Enum"
SHARED_UNION_PREFIX: Final = "connect_union_"
SHARED_UNION_FIELD: Final = f"{SHARED_UNION_PREFIX}field_"

RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"

NAME_PROP: Final = "connect.name"
DOC_PROP: Final = "connect.doc"
VERSION_PROP: Final = "connect.version"
DEFAULT_PROP: Final = "connect.default"
PARAMETERS_PROP: Final = "connect.parameters"
TYPE_PROP: Final = "connect.type"
INTERNAL_TYPE_PROP: Final = "connect.internal.type"
OLD_RECORD_DOC: Final = "connect.record.doc"
OLD_ENUM_DOC: Final = "connect.enum.doc"
FIXED_SIZE: Final = "connect.fixed.size"
PRECISION: Final = "connect.decimal.precision"
DEFAULT_PRECISION: Final = 64

NAMED: Final = frozenset(("record", "error", "enum", "fixed"))
PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)

ANYTHING_NODE: Final[Node] = {
    "type": "record",
    "name": ANYTHING,
    "fields": [
        *(
            {"name": kind, "type": ["null", kind], "default": None}
            for kind in ("boolean", "bytes", "double", "float", "int", "long", "string")
        ),
        {"name": "array", "type": ["null", {"type": "array", "items": ANYTHING}], "default": None},
        {
            "name": "map",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": MAP_ENTRY_NAME,
                        "fields": [
                            {"name": "key", "type": ANYTHING},
                            {"name": "value", "type": ANYTHING},
                        ],
                    },
                },
            ],
            "default": None,
        },
    ],
}
"""The schema of data without a Connect schema: a record with a field for each kind of value."""


def parse(text: str, built_on: Mapping[str, str] | None = None) -> tuple[Node, dict[str, Node]]:
    """The tree of a schema, and the named types in it and in the schemas it refers to.

    `built_on` has the texts of referenced schemas, each after those it refers to. Raises DataError.
    """
    names: dict[str, Node] = {}
    try:
        for dependency in (built_on or {}).values():
            spell_out(json.loads(dependency), names)
        return spell_out(json.loads(text), names), names
    except (ValueError, KeyError, TypeError, RecursionError) as cause:
        raise DataError(f"Invalid schema {text} ({cause})") from cause


def spell_out(node: Node, names: dict[str, Node], namespace: str = "") -> Node:
    """The tree of a schema as `json` reads it; named types are added to `names`."""
    if isinstance(node, str):
        if node in PRIMITIVES:
            return node
        name = _full(node, namespace)
        # Java resolves a simple name in the surrounding namespace only; others also without one.
        if name not in names and node in names:
            name = node
        if name not in names:
            raise ValueError(f"{node!r} is not a defined name")
        return name
    if isinstance(node, list):
        return [spell_out(branch, names, namespace) for branch in node]
    kind = node["type"]
    if not isinstance(kind, str):
        return spell_out(kind, names, namespace)
    out = {name: member for name, member in node.items() if name != "namespace"}
    if kind in NAMED:
        name = _full(node["name"], node.get("namespace", namespace))
        if name in names:
            raise ValueError(f"Can't redefine: {name}")
        names[name] = out
        out["name"] = name
        namespace = name.rpartition(".")[0]
    if kind in ("record", "error"):
        out["type"] = "record"
        out["fields"] = [
            {**field, "type": spell_out(field["type"], names, namespace)}
            for field in node["fields"]
        ]
    elif kind == "array":
        out["items"] = spell_out(node["items"], names, namespace)
    elif kind == "map":
        out["values"] = spell_out(node["values"], names, namespace)
    elif kind not in NAMED and len(out) == 1:
        return spell_out(kind, names, namespace)  # a primitive in braces, or a name
    elif kind not in NAMED and kind not in PRIMITIVES:
        return spell_out(kind, names, namespace)  # a name: properties beside it are ignored
    return out


def _full(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def text_of(node: Node) -> str:
    """The schema's text as Java prints it: compact, with names as short as possible.

    A named type that occurs again is a reference. A name without a namespace, as a reference within
    a namespace, means a type of that namespace; so a type with such a reference is printed with
    Confluent's namespace, in which readers find it. Raises DataError if different types share a
    name.
    """
    moved: set[str] = set()
    while True:
        printer = _Printer(moved)
        try:
            shortened = printer.shortened(node, "")
        except ValueError as cause:
            raise DataError(str(cause)) from cause
        if not printer.unreachable:
            return compact(shortened)
        moved |= printer.unreachable


def is_called(node: Node, name: str) -> bool:
    """Whether a named type has the full name `name`, as it is or as `text_of` prints it."""
    own = node["name"]
    return bool(own == name or ("." not in name and own == f"{NAMESPACE}.{name}"))


class _Printer:
    """Prints a schema once; `moved` are the names without a namespace that get Confluent's."""

    def __init__(self, moved: set[str]) -> None:
        self._moved = moved
        self._defined: dict[str, Node] = {}
        self.unreachable: set[str] = set()
        """Other names without a namespace that a namespace refers to."""

    def shortened(self, node: Node, namespace: str) -> Node:
        if isinstance(node, str):
            return node if node in PRIMITIVES else self._reference(node, namespace)
        if isinstance(node, list):
            return [self.shortened(branch, namespace) for branch in node]
        out = dict(node)
        if node["type"] in NAMED:
            name = node["name"]
            if name in self._defined:
                if self._defined[name] is not node and self._defined[name] != node:
                    raise ValueError(f"Can't redefine: {name}")
                return self._reference(name, namespace)
            self._defined[name] = node
            space, simple = self._printed(name)
            head = {"type": node["type"], "name": simple}
            if space != namespace:
                head["namespace"] = space
            out = {
                **head,
                **{key: member for key, member in node.items() if key not in ("type", "name")},
            }
            namespace = space
        if node["type"] == "record":
            out["fields"] = [
                {**field, "type": self.shortened(field["type"], namespace)}
                for field in node["fields"]
            ]
        for key in ("items", "values"):
            if key in out and node["type"] in ("array", "map"):
                out[key] = self.shortened(out[key], namespace)
        return out

    def _reference(self, name: str, namespace: str) -> str:
        space, simple = self._printed(name)
        if not space and namespace:
            self.unreachable.add(name)
        return simple if space == namespace else f"{space}.{simple}"

    def _printed(self, name: str) -> tuple[str, str]:
        return (NAMESPACE, name) if name in self._moved else split_name(name)


def kind_of(node: Node, names: Nodes) -> str:
    """The type of a node: a primitive, record, enum, fixed, array, map or union."""
    if isinstance(node, list):
        return "union"
    if isinstance(node, str):
        return node if node in PRIMITIVES else str(names[node]["type"])
    return str(node["type"])


def resolved(node: Node, names: Nodes) -> Node:
    """The node, or the named type it refers to."""
    return names[node] if isinstance(node, str) and node not in PRIMITIVES else node


def is_map_entry(node: Node, named: Nodes) -> bool:
    """Whether an array of these is a map."""
    node = resolved(node, named)
    return (
        isinstance(node, dict)
        and node["type"] == "record"
        and (node["name"] == MAP_ENTRY_NAME or node.get(INTERNAL_TYPE_PROP) == MAP_ENTRY)
    )


def split_name(name: str) -> tuple[str, str]:
    """Namespace (may be empty) and simple name."""
    space, _, simple = name.rpartition(".")
    return space, simple


_VALID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INVALID: Final = re.compile(r"[^A-Za-z0-9_]")


def scrub(name: str) -> str:
    """A valid Avro name: URL-encoded, with underscores for all other characters.

    >>> scrub("order-id"), scrub("1st"), scrub("ü b"), scrub("fine_1")
    ('order_id', 'x1st', '_C3_BC_b', 'fine_1')
    """
    if not name or _VALID.fullmatch(name):
        return name
    # Unlike Python, Java's URLEncoder keeps `*` and encodes `~`.
    encoded = quote_plus(name, safe="*", encoding="utf-8", errors="replace").replace("~", "%7E")
    if encoded[0].isdecimal():
        encoded = "x" + encoded
    return _INVALID.sub("_", encoded)


def scrub_full(name: str) -> str:
    """`scrub` for a name with a namespace, part by part."""
    return ".".join(scrub(part) for part in name.split("."))

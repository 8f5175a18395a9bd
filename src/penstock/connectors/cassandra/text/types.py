"""The driver's types, as CQL has them."""

from __future__ import annotations

from typing import Any


def is_vector(kind: Any) -> bool:
    """Whether a type has so many elements."""
    return hasattr(kind, "vector_size")


def is_user_type(kind: Any) -> bool:
    """Whether a type is one of the keyspace's own."""
    return getattr(kind, "fieldnames", None) is not None


def inner_types(kind: Any) -> list[Any]:
    """The types that a type is made of."""
    return [kind.subtype] if is_vector(kind) else [*getattr(kind, "subtypes", ())]


def type_name(kind: Any) -> str:
    """A type by its name."""
    if is_vector(kind):
        return f"vector<{type_name(kind.subtype)}, {kind.vector_size}>"
    if is_user_type(kind):
        return str(kind.typename)
    inner = ", ".join(type_name(each) for each in inner_types(kind))
    return f"{kind.typename}<{inner}>" if inner else str(kind.typename)


def is_exact(kind: Any) -> bool:
    """Whether a type holds numbers that JSON's have to be read for digit by digit."""
    return kind.typename in ("decimal", "varint") or any(map(is_exact, inner_types(kind)))

"""Properties and CQL names of the driver's types."""

from __future__ import annotations

from typing import Any


def is_vector(kind: Any) -> bool:
    """Whether a type is a vector, with a fixed number of elements."""
    return hasattr(kind, "vector_size")


def is_user_type(kind: Any) -> bool:
    """Whether a type is user-defined."""
    return getattr(kind, "fieldnames", None) is not None


def inner_types(kind: Any) -> list[Any]:
    """The types of a type's elements."""
    return [kind.subtype] if is_vector(kind) else [*getattr(kind, "subtypes", ())]


def type_name(kind: Any) -> str:
    """The name of a type in CQL."""
    if is_vector(kind):
        return f"vector<{type_name(kind.subtype)}, {kind.vector_size}>"
    if is_user_type(kind):
        return str(kind.typename)
    inner = ", ".join(type_name(inner_type) for inner_type in inner_types(kind))
    return f"{kind.typename}<{inner}>" if inner else str(kind.typename)


def is_exact(kind: Any) -> bool:
    """Whether a type holds exact numbers, so that JSON must be parsed without floats."""
    return kind.typename in ("decimal", "varint") or any(map(is_exact, inner_types(kind)))

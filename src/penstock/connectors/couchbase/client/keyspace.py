"""Bucket, scope and collection of documents, as configurations and SQL++ name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT: Final = "_default"


@dataclass(frozen=True, slots=True, order=True)
class Keyspace:
    """One collection."""

    bucket: str
    scope: str = DEFAULT
    collection: str = DEFAULT

    @property
    def qualified(self) -> str:
        """`scope.collection`."""
        return f"{self.scope}.{self.collection}"

    def __str__(self) -> str:
        return f"{self.bucket}.{self.qualified}"

    @property
    def quoted(self) -> str:
        """Its name in a statement. The default collection has its bucket's name, which servers
        before 7.0 know, too.

        >>> Keyspace("travel", "inventory", "hotel").quoted
        '`travel`.`inventory`.`hotel`'
        >>> Keyspace("travel").quoted
        '`travel`'
        """
        if self.scope == DEFAULT and self.collection == DEFAULT:
            return quoted(self.bucket)
        return ".".join(quoted(name) for name in (self.bucket, self.scope, self.collection))


def quoted(name: str) -> str:
    """A name in a statement.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def parse_keyspace(text: str, bucket: str | None) -> Keyspace:
    """`scope.collection` or `bucket.scope.collection`; backticks enclose names with dots. Raises
    ValueError.

    >>> parse_keyspace("`my.bucket`.s.c", None)
    Keyspace(bucket='my.bucket', scope='s', collection='c')
    >>> parse_keyspace("s.c", "b")
    Keyspace(bucket='b', scope='s', collection='c')
    """
    parts = _parts(text)
    if any(not part.strip() for part in parts):
        raise ValueError(f"Failed to parse keyspace: {text}: a component is blank")
    if len(parts) == 2:
        parts.insert(0, bucket or "")
    if len(parts) != 3:
        raise ValueError(
            f"Failed to parse keyspace: {text}: Expected 2 or 3 components, but got {len(parts)} ; "
            "if the bucket name contains a dot, escape it by enclosing it in backticks, like: "
            "`my.bucket`.scope.collection"
        )
    return Keyspace(*parts)


def parse_collection(text: str) -> tuple[str, str]:
    """`scope.collection`. Raises ValueError.

    >>> parse_collection("inventory.hotel")
    ('inventory', 'hotel')
    """
    keyspace = parse_keyspace(text, None)
    if keyspace.bucket:
        raise ValueError(
            "Expected a qualified collection name (scope.collection) with no bucket component, but "
            f"got: {text}"
        )
    return keyspace.scope, keyspace.collection


def _parts(text: str) -> list[str]:
    parts, escaped = [""], False
    for char in text:
        if char == "`":
            escaped = not escaped
        elif char == "." and not escaped:
            parts.append("")
        else:
            parts[-1] += char
    if escaped:
        raise ValueError(f"Failed to parse keyspace: {text}: Unbalanced backticks")
    return parts

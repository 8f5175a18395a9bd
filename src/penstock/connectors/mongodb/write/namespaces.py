"""The database and collection of a record (`namespace.mapper`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from penstock.api import DataError
from penstock.api.settings import Config
from penstock.connectors.mongodb.settings import sink as k
from penstock.connectors.mongodb.settings.names import NamespaceMapper, named
from penstock.connectors.mongodb.write.entry import Entry

_FORBIDDEN: Final = frozenset('\0/\\ ."')


class Namespace(NamedTuple):
    """A collection by its names."""

    database: str
    collection: str

    def __str__(self) -> str:
        return f"{self.database}.{self.collection}"


MapNamespace = Callable[[Entry], Namespace]


def namespaces_of(config: Config, topic: str) -> MapNamespace:
    """Maps the records of a topic; it raises DataError."""
    default = checked(Namespace(config[k.DATABASE], config[k.COLLECTION] or topic))
    if named(NamespaceMapper, config[k.NAMESPACE_MAPPER]) is NamespaceMapper.DEFAULT:
        return lambda entry: default
    strict = config[k.MAPPER_ERROR]
    database = (config[k.KEY_DATABASE_FIELD], config[k.VALUE_DATABASE_FIELD])
    collection = (config[k.KEY_COLLECTION_FIELD], config[k.VALUE_COLLECTION_FIELD])

    def of(entry: Entry) -> Namespace:
        return checked(
            Namespace(
                _looked_up(entry, *database, default.database, strict),
                _looked_up(entry, *collection, default.collection, strict),
            )
        )

    return of


def checked(namespace: Namespace) -> Namespace:
    """The namespace; raises DataError for names that MongoDB does not allow."""
    database, collection = namespace
    if not database or _FORBIDDEN & set(database):
        raise DataError(f"'{database}' is not a valid database name")
    if not collection or "\0" in collection or "$" in collection or ".." in f".{collection}.":
        raise DataError(f"'{collection}' is not a valid collection name")
    return namespace


def _looked_up(entry: Entry, in_key: str, in_value: str, default: str, strict: bool) -> str:
    path = in_key or in_value
    if not path:
        return default
    document = entry.key if in_key else entry.value
    part = "key" if in_key else "value"
    if document is None:
        if strict:
            raise DataError(f"Invalid {part} document: there is none")
        return default
    exists, value = lookup(document, path)
    if not exists:
        if strict:
            raise DataError(f"Missing document path '{path}'")
        return default
    if isinstance(value, str):
        return value
    if strict:
        raise DataError(f"Invalid type for field path '{path}', expected a String: {value!r}")
    return default


def lookup(document: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Whether a path has a member, and its value. A member whose name has dots comes first."""
    if path in document:
        return True, document[path]
    first, dot, rest = path.partition(".")
    inner = document.get(first)
    if dot and rest and isinstance(inner, dict):
        return lookup(inner, rest)
    return False, None

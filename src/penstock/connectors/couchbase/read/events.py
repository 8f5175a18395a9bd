"""Documents as records, as the vendor's source handlers make them (connectors.md §11).

Fields that only the change protocol has get substitutes: `bySeqno` is the CAS, which gives the same
order; `revSeqno` and `lockTime` are 0, and `vBucketUuid` and `expiration` are null.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import orjson

from penstock.api import Column, DataError, Header, Records
from penstock.api.schema import (
    INT16,
    INT32,
    INT64,
    OPTIONAL_BYTES,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Type,
    Value,
    check,
    float32,
    struct,
)
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.client.store import Stored
from penstock.connectors.couchbase.settings.source import SourceHandler, SourcePlan
from penstock.connectors.keyed.documents import dump

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Row:
    """A document of a page, and its current content; None: it no longer exists."""

    id: str
    mark: Any
    stored: Stored | None


DCP_MESSAGE: Final = struct(
    {
        "event": STRING,
        "partition": INT16,
        "key": STRING,
        "cas": INT64,
        "bySeqno": INT64,
        "revSeqno": INT64,
        "expiration": OPTIONAL_INT32,
        "flags": OPTIONAL_INT32,
        "lockTime": OPTIONAL_INT32,
        "content": OPTIONAL_BYTES,
        "bucket": OPTIONAL_STRING,
        "vBucketUuid": OPTIONAL_INT64,
    },
    name="com.couchbase.DcpMessage",
)
_PARTITIONS: Final = 1_024


def vbucket(id: str) -> int:
    """The partition of a document's id, in a bucket with 1,024 of them.

    >>> vbucket("airline_10")
    361
    """
    return (crc32(id.encode()) >> 16) & 0x7FFF & (_PARTITIONS - 1)


class Converting:
    """Converts a collection's rows into records."""

    def __init__(self, plan: SourcePlan, keyspace: Keyspace) -> None:
        self._plan = plan
        self._keyspace = keyspace
        self._topic = plan.topic(keyspace)
        self._schema = self._schema_of()

    def record(self, row: Row) -> tuple[Value, int] | None:
        """The value of a row and its approximate size in bytes; None for skipped documents."""
        stored = row.stored
        if stored is None or (self._plan.skips_system and row.id.startswith("_txn:")):
            return None
        content = stored.content
        if not self._plan.without_value:
            try:
                parsed = orjson.loads(content)
            except orjson.JSONDecodeError:
                log.warning("Skipping document '%s', which is not JSON", self._name(row.id))
                return None
        size = len(content) + len(row.id)
        match self._plan.handler:
            case SourceHandler.RAW:
                return (None if self._plan.without_value else content), size
            case SourceHandler.RAW_WITH_METADATA:
                metadata = dump(self._metadata(row.id, stored))
                if not self._plan.without_value:
                    metadata = metadata[:-1] + b',"content":' + content + b"}"
                return metadata, size + 200
            case SourceHandler.DEFAULT_SCHEMA:
                included = None if self._plan.without_value else content
                return {**self._metadata(row.id, stored), "content": included}, size + 200
            case SourceHandler.CONFIGURABLE_SCHEMA:
                try:
                    return self._structured(parsed), size
                except DataError as error:
                    log.warning("Skipping document '%s': %s", self._name(row.id), error)
                    return None

    def records(self, rows: Sequence[Row], values: Sequence[Value]) -> Records:
        """The records of rows with their values."""
        count = len(rows)
        return Records(
            topics=[self._topic] * count,
            partitions=[None] * count,
            timestamps=[None] * count,
            keys=Column.of([row.id for row in rows], STRING),
            values=Column.of(list(values), self._schema),
            headers=[self._headers(row) for row in rows] if self._plan.headers else [],
        )

    def _schema_of(self) -> Schema | None:
        match self._plan.handler:
            case SourceHandler.DEFAULT_SCHEMA:
                return DCP_MESSAGE
            case SourceHandler.CONFIGURABLE_SCHEMA:
                schema = self._plan.schemas.of(self._keyspace.qualified)
                if schema is None:
                    raise DataError(
                        f"{self._keyspace} has no schema: set couchbase.value.schema"
                        f"[{self._keyspace.qualified}]"
                    )
                return schema
        return None

    def _metadata(self, id: str, stored: Stored) -> dict[str, Any]:
        return {
            "event": "mutation",
            "bucket": self._keyspace.bucket,
            "partition": vbucket(id),
            "vBucketUuid": None,
            "key": id,
            "cas": stored.cas,
            "bySeqno": stored.cas,
            "revSeqno": 0,
            "expiration": None,
            "flags": _int32(stored.flags),
            "lockTime": 0,
        }

    def _structured(self, content: Any) -> Value:
        assert self._schema is not None
        if not isinstance(content, dict):
            raise DataError("it is not a JSON object")
        value = of_schema(self._schema, content)
        check(self._schema, value)
        return value

    def _headers(self, row: Row) -> list[Header]:
        return [
            Header(self._plan.header_prefix + name, *_HEADERS[name](self._keyspace, row))
            for name in self._plan.headers
        ]

    def _name(self, id: str) -> str:
        return f"<ud>{id}</ud>" if self._plan.redacts else id


def of_schema(schema: Schema, value: Any) -> Value:
    """A JSON value as a value of a schema. Raises DataError.

    >>> of_schema(struct({"n": INT32}), {"n": 1})
    {'n': 1}
    """
    if value is None:
        return None
    try:
        match schema.type:
            case Type.STRUCT:
                names = {field.name: field.schema for field in schema.fields}
                unknown = value.keys() - names.keys()
                if unknown:
                    raise DataError(f"the schema has no field {', '.join(sorted(unknown))}")
                return {name: of_schema(names[name], member) for name, member in value.items()}
            case Type.ARRAY:
                assert schema.value_schema is not None
                return [of_schema(schema.value_schema, item) for item in value]
            case Type.MAP:
                assert schema.value_schema is not None
                return {key: of_schema(schema.value_schema, item) for key, item in value.items()}
            case Type.BYTES:
                return b64decode(value)
            case Type.FLOAT32:
                return float32(float(value))
            case Type.FLOAT64:
                return float(value)
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"the value does not match {schema.type.name}: {error}") from error
    return value


def _int32(number: int) -> int:
    """A 32-bit number with Java's sign."""
    return (number + 2**31) % 2**32 - 2**31


_HEADERS: Final[Mapping[str, Callable[[Keyspace, Row], tuple[Value, Schema | None]]]] = {
    "bucket": lambda keyspace, row: (keyspace.bucket, STRING),
    "scope": lambda keyspace, row: (keyspace.scope, STRING),
    "collection": lambda keyspace, row: (keyspace.collection, STRING),
    "key": lambda keyspace, row: (row.id, STRING),
    "qualifiedKey": lambda keyspace, row: (f"{keyspace.qualified}.{row.id}", STRING),
    "cas": lambda keyspace, row: (row.stored.cas if row.stored else row.mark, INT64),
    "partition": lambda keyspace, row: (vbucket(row.id), INT32),
}

"""How documents are written, or deleted (`writemodel.strategy`, `delete.writemodel.strategy`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from penstock.api import DataError
from penstock.api.settings import Config
from penstock.connectors.mongodb.settings import sink as k
from penstock.connectors.mongodb.settings.names import IdStrategy, WriteStrategy, named
from penstock.connectors.mongodb.write.documents import Document
from penstock.connectors.mongodb.write.entry import Entry, Kind, Write
from penstock.connectors.mongodb.write.ids import ID, MakeId, maker_of, strategy_of

MakeWrite = Callable[[Entry], Write]
"""The write of a record; raises DataError."""

Now = Callable[[], int]
"""Milliseconds since the epoch."""

_MODIFIED: Final = "_modifiedTS"
_INSERTED: Final = "_insertedTS"


def writes_of(config: Config, now_ms: Now) -> MakeWrite:
    """Makes the writes of a topic's records; those without a value become deletes."""
    with_value = _strategy(named(WriteStrategy, config[k.WRITE_STRATEGY]), config, now_ms)
    without_value: MakeWrite | None = None
    if config[k.DELETE_ON_NULL]:
        kind = named(WriteStrategy, config[k.DELETE_STRATEGY])
        without_value = (
            _delete(maker_of(config))
            if kind is WriteStrategy.DELETE_ONE
            else _strategy(kind, config, now_ms)
        )

    def make(entry: Entry) -> Write:
        if entry.value is not None:
            return with_value(entry)
        if not entry.has_key:
            raise DataError("Invalid Sink Record neither key doc nor value doc were present")
        if without_value is None:
            raise DataError(
                f"the record has no value: set {k.DELETE_ON_NULL.name}=true to delete the document"
            )
        return without_value(entry)

    return make


def _strategy(kind: WriteStrategy, config: Config, now_ms: Now) -> MakeWrite:
    ids = strategy_of(config)
    partial = ids in (IdStrategy.PARTIAL_KEY, IdStrategy.PARTIAL_VALUE)

    def moment() -> datetime:
        return datetime.fromtimestamp(now_ms() / 1000, UTC)

    match kind:
        case WriteStrategy.DEFAULT:
            return _insert if config[k.TIME_FIELD].strip() else _replace
        case WriteStrategy.INSERT_ONE:
            return _insert
        case WriteStrategy.REPLACE_ONE:
            return _replace
        case WriteStrategy.REPLACE_ONE_BUSINESS_KEY:
            return lambda entry: _replace_business(entry, partial)
        case WriteStrategy.UPDATE_ONE:
            return _update
        case WriteStrategy.UPDATE_ONE_TIMESTAMPS:
            return lambda entry: _update_timestamps(entry, moment())
        case WriteStrategy.UPDATE_ONE_BUSINESS_KEY_TIMESTAMP:
            return lambda entry: _update_business(entry, partial, moment())
        case WriteStrategy.DELETE_ONE:
            return _delete(None)
        case WriteStrategy.DELETE_ONE_BUSINESS_KEY:
            return lambda entry: Write(Kind.DELETE, _business_key(_value(entry), partial))
        case WriteStrategy.DELETE_ONE_TOMBSTONE_BUSINESS_KEY:
            make_id = maker_of(config)
            return lambda entry: Write(Kind.DELETE, flat(make_id(_keyed(entry))))


def _value(entry: Entry) -> Document:
    if entry.value is None:
        raise DataError("Could not build the WriteModel, the value document was missing")
    return entry.value


def _keyed(entry: Entry) -> Entry:
    if entry.key is None:
        raise DataError("Could not build the WriteModel, the key document was missing")
    return entry


def _id(value: Document) -> Any:
    if ID not in value:
        raise DataError("Could not build the WriteModel, the `_id` field was missing unexpectedly")
    return value[ID]


def _business_key(value: Document, partial: bool) -> Document:
    """Removes `_id` and returns its fields; those of a partial id by their paths."""
    key = value.get(ID)
    if not isinstance(key, dict):
        raise DataError(
            "Could not build the WriteModel, the value document does not contain an _id field of "
            "type BsonDocument which holds the business key fields. If there is an `_id` already, "
            f"set {k.ID_OVERWRITE.name}=true"
        )
    del value[ID]
    return flat(key) if partial else key


def flat(document: Mapping[str, Any]) -> Document:
    """Nested members by their paths.

    >>> flat({"a": 1, "b": {"c": 2, "d": {}}})
    {'a': 1, 'b.c': 2}
    """
    return dict(_flat("", document))


def _flat(prefix: str, document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def _insert(entry: Entry) -> Write:
    return Write(Kind.INSERT, {}, _value(entry))


def _replace(entry: Entry) -> Write:
    value = _value(entry)
    return Write(Kind.REPLACE, {ID: _id(value)}, value, upsert=True)


def _replace_business(entry: Entry, partial: bool) -> Write:
    value = _value(entry)
    return Write(Kind.REPLACE, _business_key(value, partial), value, upsert=True)


def _update(entry: Entry) -> Write:
    value = _value(entry)
    key = _id(value)
    del value[ID]
    return Write(Kind.UPDATE, {ID: key}, {"$set": value}, upsert=True)


def _update_timestamps(entry: Entry, now: datetime) -> Write:
    value = _value(entry)
    key = _id(value)
    value[_MODIFIED] = now
    changes = {"$set": value, "$setOnInsert": {_INSERTED: now}}
    return Write(Kind.UPDATE, {ID: key}, changes, upsert=True)


def _update_business(entry: Entry, partial: bool, now: datetime) -> Write:
    value = _value(entry)
    key = _business_key(value, partial)
    value[_MODIFIED] = now
    changes = {"$set": value, "$setOnInsert": {_INSERTED: now}}
    return Write(Kind.UPDATE, key, changes, upsert=True)


def _delete(make_id: MakeId | None) -> MakeWrite:
    """Deletes by the strategy's id, or by the key: its `_id`, or all of it as `_id`."""

    def delete(entry: Entry) -> Write:
        key = _keyed(entry).key or {}
        if make_id is not None:
            return Write(Kind.DELETE, {ID: make_id(entry)})
        return Write(Kind.DELETE, key if ID in key else {ID: key})

    return delete

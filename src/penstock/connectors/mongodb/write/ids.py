"""The origin of `_id` (`document.id.strategy`)."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from bson import Binary, ObjectId
from bson.binary import UUID_SUBTYPE

from penstock.api import DataError
from penstock.api.settings import Config, Key
from penstock.connectors.mongodb.settings import sink as k
from penstock.connectors.mongodb.settings.names import IdStrategy, named
from penstock.connectors.mongodb.write.documents import in_java_order
from penstock.connectors.mongodb.write.entry import Entry
from penstock.connectors.mongodb.write.projection import Project, allowing, blocking

ID: Final = "_id"

MakeId = Callable[[Entry], Any]
"""The `_id` of a record; raises DataError."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def strategy_of(config: Config) -> IdStrategy:
    """The strategy of a topic."""
    return named(IdStrategy, config[k.ID_STRATEGY])


def maker_of(config: Config) -> MakeId:
    """Makes the ids of a topic's documents."""
    match strategy_of(config):
        case IdStrategy.BSON_OID:
            return lambda entry: ObjectId()
        case IdStrategy.FULL_KEY:
            return lambda entry: {} if entry.key is None else entry.key
        case IdStrategy.KAFKA_META_DATA:
            return lambda entry: f"{entry.topic}#{entry.partition}#{entry.offset}"
        case IdStrategy.PARTIAL_KEY:
            return _partial_key(
                projection(
                    config,
                    k.ID_KEY_TYPE,
                    k.ID_KEY_LIST,
                    k.KEY_PROJECTION_TYPE,
                    k.KEY_PROJECTION_LIST,
                )
            )
        case IdStrategy.PARTIAL_VALUE:
            return _partial_value(
                projection(
                    config,
                    k.ID_VALUE_TYPE,
                    k.ID_VALUE_LIST,
                    k.VALUE_PROJECTION_TYPE,
                    k.VALUE_PROJECTION_LIST,
                )
            )
        case IdStrategy.PROVIDED_IN_KEY:
            return lambda entry: _provided(entry.key)
        case IdStrategy.PROVIDED_IN_VALUE:
            return lambda entry: _provided(entry.value)
        case IdStrategy.UUID:
            if config[k.UUID_FORMAT].lower() == "string":
                return lambda entry: str(uuid.uuid4())
            return lambda entry: Binary.from_uuid(uuid.uuid4())
        case IdStrategy.UUID_PROVIDED_IN_KEY:
            return lambda entry: _uuid(_provided(entry.key))
        case IdStrategy.UUID_PROVIDED_IN_VALUE:
            return lambda entry: _uuid(_provided(entry.value))


def projection(
    config: Config, kind: Key[str], fields: Key[str], common_kind: Key[str], common: Key[str]
) -> Project:
    """The projection of a partial id: its own settings, or else those of the topic."""
    projection_type = (config[kind] or config[common_kind]).lower()
    listed = config[fields] or config[common]
    return blocking(listed) if projection_type in ("blocklist", "blacklist") else allowing(listed)


def _partial_key(project: Project) -> MakeId:
    def make(entry: Entry) -> Any:
        document = copy.deepcopy(entry.key) or {}
        project(document)
        return document

    return make


def _partial_value(project: Project) -> MakeId:
    def make(entry: Entry) -> Any:
        document = copy.deepcopy(entry.value) or {}
        if entry.java_order:
            document = in_java_order(document)
        project(document)
        return document

    return make


def _provided(document: Mapping[str, Any] | None) -> Any:
    provided = None if document is None else document.get(ID)
    if provided is None:
        if document is not None and ID in document:
            raise DataError("_id is null, but document.id.strategy needs it")
        raise DataError("_id is missing, but document.id.strategy needs it")
    return provided


def _uuid(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return Binary.from_uuid(value)
    if isinstance(value, Binary) and value.subtype in (3, UUID_SUBTYPE):
        return value
    if isinstance(value, str) and _UUID.fullmatch(value):
        return Binary.from_uuid(uuid.UUID(value))
    raise DataError(f"UUID cannot be constructed from provided value: `{value}`")

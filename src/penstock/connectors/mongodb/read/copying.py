"""Existing documents as insert events (`startup.mode=copy_existing`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from penstock.api.settings import Config, compile_java
from penstock.connectors.mongodb.client.codec import OPTIONS
from penstock.connectors.mongodb.settings import source as k
from penstock.connectors.mongodb.text.shell import parse_documents

_HIDDEN: Final = ("admin", "config", "local")


def namespaces(config: Config, client: Any) -> list[tuple[str, str]]:
    """The collections to copy, by database and name."""
    database, collection = config[k.DATABASE], config[k.COLLECTION]
    databases = [database] if database else _databases(client)
    candidates = [
        (database_name, name)
        for database_name in databases
        for name in ([collection] if collection else _collections(client[database_name]))
    ]
    pattern = k.copy_setting(config, "namespace.regex")
    if not pattern:
        return candidates
    compiled = compile_java(pattern)
    return [namespace for namespace in candidates if compiled.search(".".join(namespace))]


def _databases(client: Any) -> list[str]:
    names = client.list_database_names()
    return sorted(name for name in names if not name.startswith(_HIDDEN))


def _collections(database: Any) -> list[str]:
    names = database.list_collection_names()
    return sorted(name for name in names if not name.startswith("system."))


def part_of(namespace: tuple[str, str]) -> str:
    """A collection as a part of a poll."""
    return orjson.dumps(namespace).decode()


def events(config: Config, client: Any, part: str) -> Iterator[Mapping[str, Any]]:
    """The documents of a part as insert events that have passed the pipelines of the copy and the
    stream."""
    name, collection = orjson.loads(part)
    copy_stages = parse_documents(k.copy_setting(config, "pipeline"))
    stream_stages = parse_documents(config[k.PIPELINE])
    source = client[name].get_collection(collection, codec_options=OPTIONS)
    stages = [
        *copy_stages,
        *([_as_event(name, collection), *stream_stages] if stream_stages else []),
    ]
    options: dict[str, Any] = {"allowDiskUse": k.copy_setting(config, "allow.disk.use")}
    with source.aggregate(stages, **options) if stages else source.find({}) as cursor:
        for document in cursor:
            yield document if stream_stages else _event(name, collection, document)


def _event(database: str, collection: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    key = document.get("_id")
    return {
        "_id": {"_id": key, "copyingData": True},
        "operationType": "insert",
        "documentKey": {"_id": key},
        "fullDocument": document,
        "ns": {"db": database, "coll": collection},
    }


def _as_event(database: str, collection: str) -> dict[str, Any]:
    """The stage that turns a document into an event, for the stages after it."""
    event = {
        "_id": {"_id": "$_id", "copyingData": {"$literal": True}},
        "operationType": {"$literal": "insert"},
        "documentKey": {"_id": "$_id"},
        "fullDocument": "$$ROOT",
        "ns": {"db": {"$literal": database}, "coll": {"$literal": collection}},
    }
    return {"$replaceRoot": {"newRoot": event}}

"""The steps that change documents before they are written (`post.processor.chain`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bson import Int64
from bson.datetime_ms import DatetimeMS

from penstock.api.settings import Config
from penstock.connectors.mongodb.settings import sink as k
from penstock.connectors.mongodb.settings.names import Processor, named
from penstock.connectors.mongodb.text.shell import parse_documents
from penstock.connectors.mongodb.write.entry import Entry
from penstock.connectors.mongodb.write.ids import ID, MakeId
from penstock.connectors.mongodb.write.projection import Project, allowing, blocking
from penstock.connectors.mongodb.write.renaming import (
    Rename,
    by_mapping,
    by_patterns,
    rename_document,
)

log = logging.getLogger(__name__)

Step = Callable[[Entry], None]


def steps_of(config: Config, make_id: MakeId) -> list[Step]:
    """The steps of a topic, in order."""
    chain = [named(Processor, processor) for processor in config[k.PROCESSORS]]
    if Processor.DOCUMENT_ID_ADDER not in chain:
        chain.insert(0, Processor.DOCUMENT_ID_ADDER)
    steps = [step for processor in chain if (step := _step(processor, config, make_id)) is not None]
    if config[k.TIME_FIELD].strip() and config[k.TIME_CONVERT]:
        steps.append(partial(_convert_time, config[k.TIME_FIELD]))
    return steps


def _step(kind: Processor, config: Config, make_id: MakeId) -> Step | None:
    match kind:
        case Processor.DOCUMENT_ID_ADDER:
            return _id_adder(make_id, config[k.ID_OVERWRITE])
        case Processor.KAFKA_META_ADDER:
            return _add_kafka_metadata
        case Processor.ALLOW_LIST_KEY | Processor.WHITELIST_KEY:
            return partial(_project_key, allowing(config[k.KEY_PROJECTION_LIST]))
        case Processor.ALLOW_LIST_VALUE | Processor.WHITELIST_VALUE:
            return partial(_project_value, allowing(config[k.VALUE_PROJECTION_LIST]))
        case Processor.BLOCK_LIST_KEY | Processor.BLACKLIST_KEY:
            return partial(_project_key, blocking(config[k.KEY_PROJECTION_LIST]))
        case Processor.BLOCK_LIST_VALUE | Processor.BLACKLIST_VALUE:
            return partial(_project_value, blocking(config[k.VALUE_PROJECTION_LIST]))
        case Processor.RENAME_BY_MAPPING:
            return _renamer(by_mapping(parse_documents(config[k.RENAMER_MAPPING])))
        case Processor.RENAME_BY_REG_EXP:
            return _renamer(by_patterns(parse_documents(config[k.RENAMER_REGEXP])))
        case Processor.NULL_FIELD_VALUE_REMOVER:
            return _remove_null_fields


def _id_adder(make_id: MakeId, overwrite: bool) -> Step:
    def add(entry: Entry) -> None:
        value = entry.value
        if value is not None and (overwrite or ID not in value):
            value[ID] = make_id(entry)

    return add


def _add_kafka_metadata(entry: Entry) -> None:
    """KafkaMetaAdder. Records lack the type of their timestamp: it counts as CREATE_TIME."""
    if entry.value is None:
        return
    entry.value["topic-partition-offset"] = f"{entry.topic}-{entry.partition}-{entry.offset}"
    if entry.timestamp is not None:
        entry.value["CREATE_TIME"] = Int64(entry.timestamp)


def _project_key(project: Project, entry: Entry) -> None:
    if entry.key is not None:
        project(entry.key)


def _project_value(project: Project, entry: Entry) -> None:
    if entry.value is not None:
        project(entry.value)


def _renamer(rename: Rename | None) -> Step | None:
    if rename is None:
        return None

    def step(entry: Entry) -> None:
        if entry.key is not None:
            rename_document(entry.key, "key", rename)
        if entry.value is not None:
            rename_document(entry.value, "value", rename)

    return step


def _remove_null_fields(entry: Entry) -> None:
    if entry.value is not None:
        remove_nulls(entry.value)


def remove_nulls(document: dict[str, Any]) -> None:
    """Drops members that are null, also of nested documents and of those in arrays."""
    for name in list(document):
        value = document[name]
        if value is None:
            del document[name]
        elif isinstance(value, dict):
            remove_nulls(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    remove_nulls(item)


def _convert_time(field: str, entry: Entry) -> None:
    """Converts numbers as milliseconds, texts as ISO 8601; anything else stays."""
    value = None if entry.value is None else entry.value.get(field)
    if entry.value is None or value is None or isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        entry.value[field] = DatetimeMS(int(value))
    elif isinstance(value, str):
        try:
            entry.value[field] = moment_of(value)
        except ValueError as error:
            log.info("'%s' is left unchanged, because it is not a date: %s", field, error)


def moment_of(text: str) -> datetime:
    """The moment of a text in ISO 8601, in UTC unless it has a zone or offset; a zone may be in
    brackets. Raises ValueError."""
    from zoneinfo import ZoneInfo

    zone = None
    stripped = text
    if text.endswith("]") and "[" in text:
        stripped, _, name = text[:-1].partition("[")
        zone = ZoneInfo(name)
    elif (name := text.rpartition(" ")[2]) and name[:1].isalpha() and name != "Z":
        stripped, zone = text.rpartition(" ")[0], ZoneInfo(name)
    head, _, last = stripped.strip().rpartition(" ")
    if last[:1] in "+-Z" and head:
        stripped = head + last
    moment = datetime.fromisoformat(stripped.strip())
    if zone is not None:
        moment = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment

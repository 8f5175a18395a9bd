"""Change events as records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.api import Column, DataError, Records
from penstock.api.schema import OPTIONAL_BYTES, STRING, Schema
from penstock.api.settings import Config, Key
from penstock.connectors.mongodb.read.json import MODES, Mode, text_of
from penstock.connectors.mongodb.read.values import (
    Make,
    bson_maker,
    inferring_maker,
    json_maker,
    struct_maker,
)
from penstock.connectors.mongodb.settings import source as k
from penstock.connectors.mongodb.settings.avro import schema_of
from penstock.connectors.mongodb.settings.names import JsonFormatter, named
from penstock.connectors.mongodb.settings.topics import TopicMapper

log = logging.getLogger(__name__)

_ID: Final = "_id"
_FULL: Final = "fullDocument"
_KEY: Final = "documentKey"

Event = Mapping[str, Any]
Cell = tuple[Schema | None, Any]


class EventRefused(DataError):
    """An event that can be neither converted nor skipped."""


@dataclass(frozen=True, slots=True)
class Converted:
    """The records of events, the event of each record, and the first refused event's error, with
    the events from it on, which are not converted."""

    records: Records
    sources: Sequence[Event]
    refusal: EventRefused | None
    left: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Converting:
    """The conversion of a source's events into records."""

    topics: TopicMapper
    key: Make
    value: Make
    whole_as_key: bool  # the key's struct is built from the event
    document_key: bool
    full_document_only: bool
    tombstones: bool
    tolerates: bool
    logs: bool
    dead_letters: str

    def convert(self, events: Sequence[Event]) -> Converted:
        """Converts events, in order, up to the first that is refused; an event may yield no
        record."""
        topics: list[str] = []
        keys: list[Cell] = []
        values: list[Cell] = []
        sources: list[Event] = []
        refusal: EventRefused | None = None
        left: Sequence[Event] = ()
        for at, event in enumerate(events):
            topic = self.topics.topic(event)
            if not topic:
                log.warning("There is no topic for an event without a namespace")
                continue
            document, tombstone = self._document(event)
            if document is None and not tombstone:
                continue
            key_document = self._key(event)
            try:
                key: Cell = self.key(key_document)
                value: Cell = (None, None) if document is None else self.value(document)
            except (DataError, ValueError, ArithmeticError, TypeError) as error:
                try:
                    dead_letter = self._refused(key_document, document or {}, error)
                except EventRefused as refused:
                    refusal, left = refused, events[at:]
                    break
                if dead_letter is None:
                    continue
                topic, key, value = self.dead_letters, *dead_letter
            topics.append(topic)
            keys.append(key)
            values.append(value)
            sources.append(event)
        return Converted(records_of(topics, keys, values), sources, refusal, left)

    def _document(self, event: Event) -> tuple[Event | None, bool]:
        """The document of the value, or whether the record is a tombstone instead."""
        if not self.full_document_only:
            return event, False
        document = event.get(_FULL)
        if isinstance(document, Mapping):
            return document, False
        return None, self.tombstones and _FULL not in event

    def _key(self, event: Event) -> Event:
        if self.whole_as_key:
            return event
        if self.document_key and isinstance(event.get(_KEY), Mapping):
            return event[_KEY]  # type: ignore[no-any-return]
        return {_ID: event.get(_ID)}

    def _refused(self, key: Event, document: Event, error: Exception) -> tuple[Cell, Cell] | None:
        """The dead letter of an event, or None if it is dropped."""
        texts = [_text(key), _text(document)]
        message = f"{error} : Exception creating Source record for: Key={texts[0]} Value={texts[1]}"
        if not self.tolerates:
            raise EventRefused(message) from error
        if self.logs:
            log.error("%s", message)
        if not self.dead_letters:
            return None
        return (STRING, texts[0]), (STRING, texts[1])


def _text(document: Event) -> str:
    try:
        return text_of({**document}, Mode.RELAXED)
    except DataError:
        return repr(document)


def records_of(topics: list[str], keys: list[Cell], values: list[Cell]) -> Records:
    """Records from cells, each with its schema."""

    def column(cells: list[Cell]) -> Column:
        return Column.gather([cell[1] for cell in cells], [cell[0] for cell in cells])

    nulls: list[int | None] = [None] * len(topics)
    return Records(topics, nulls, [*nulls], column(keys), column(values))


def heartbeat(topic: str, token: str) -> Records:
    """The record that stores a resume token while there are no events."""
    return records_of([topic], [(STRING, token)], [(OPTIONAL_BYTES, None)])


def converting_of(config: Config) -> Converting:
    """The conversion according to a configuration."""
    props = config.props
    mode = MODES[named(JsonFormatter, config[k.JSON_FORMATTER])]
    key_format, value_format = config[k.KEY_FORMAT].lower(), config[k.VALUE_FORMAT].lower()
    tolerance = (
        config[k.TOLERANCE] if k.TOLERANCE in config else props.get("errors.tolerance", "none")
    )
    framework_logs = props.get("errors.log.enable", "").strip().lower() == "true"
    own_log, own_letters = k.LOG_ERRORS in config, k.DEAD_LETTERS in config
    framework_letters = props.get("errors.deadletterqueue.topic.name", "").strip()
    return Converting(
        topics=TopicMapper.of(
            config[k.TOPIC_PREFIX],
            config[k.TOPIC_SUFFIX],
            config[k.TOPIC_SEPARATOR],
            config[k.TOPIC_MAP],
        ),
        key=_maker(key_format, mode, lambda: struct_maker(_schema(config, k.KEY_SCHEMA), mode)),
        value=_maker(
            value_format,
            mode,
            lambda: (
                inferring_maker(mode)
                if config[k.INFER]
                else struct_maker(_schema(config, k.VALUE_SCHEMA), mode)
            ),
        ),
        whole_as_key=key_format == "schema",
        document_key=config[k.KEY_AS_KEY],
        full_document_only=config[k.FULL_DOCUMENT_ONLY],
        tombstones=config[k.FULL_DOCUMENT_ONLY] and config[k.TOMBSTONES],
        tolerates=tolerance.lower() == "all",
        logs=config[k.LOG_ERRORS] if own_log else framework_logs,
        dead_letters=config[k.DEAD_LETTERS].strip() if own_letters else framework_letters,
    )


def _schema(config: Config, key: Key[str]) -> Schema:
    return schema_of(config[key])


def _maker(name: str, mode: Mode, struct: Callable[[], Make]) -> Make:
    match name:
        case "json":
            return json_maker(mode)
        case "bson":
            return bson_maker()
    return struct()

"""Change events of a source, as writes that replay them (`change.data.capture.handler`)."""

from __future__ import annotations

from collections.abc import Callable

from penstock.api.settings import Config
from penstock.connectors.mongodb.settings import sink as k
from penstock.connectors.mongodb.settings.names import CdcHandler, named
from penstock.connectors.mongodb.write.cdc import change_streams, debezium, qlik
from penstock.connectors.mongodb.write.entry import Entry, Kind, Write
from penstock.connectors.mongodb.write.processors import remove_nulls

MakeChange = Callable[[Entry], Write | None]
"""The write of a change event; None for one that changes nothing. Raises DataError."""


def changes_of(config: Config) -> MakeChange | None:
    """Makes the writes of a topic's change events; None if its records are not change events."""
    if not config[k.CDC_HANDLER].strip():
        return None
    handler = _handler(named(CdcHandler, config[k.CDC_HANDLER]))
    if not config[k.CDC_REMOVE_NULLS]:
        return handler

    def without_nulls(entry: Entry) -> Write | None:
        write = handler(entry)
        return None if write is None else _without_nulls(write)

    return without_nulls


def _handler(kind: CdcHandler) -> MakeChange:
    match kind:
        case CdcHandler.DEBEZIUM_MONGODB:
            return debezium.of_oplog
        case CdcHandler.DEBEZIUM_CHANGE_STREAM:
            return debezium.of_change_stream
        case CdcHandler.DEBEZIUM_RDBMS | CdcHandler.DEBEZIUM_MYSQL | CdcHandler.DEBEZIUM_POSTGRES:
            return debezium.of_row
        case CdcHandler.CHANGE_STREAM:
            return change_streams.of_event
        case CdcHandler.QLIK_RDBMS:
            return qlik.of_row


def _without_nulls(write: Write) -> Write | None:
    document = write.document
    if document is None:
        return write
    if write.kind is Kind.REPLACE:
        remove_nulls(document)
    elif isinstance(document.get("$set"), dict):
        remove_nulls(document["$set"])
        if not document["$set"]:
            del document["$set"]
    return write if document else None

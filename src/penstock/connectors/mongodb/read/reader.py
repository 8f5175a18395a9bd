"""Reads change streams (connectors.md §6.1).

A reader starts after its stored resume token, or else where `startup.mode` says. If the server no
longer has the token, the task fails, unless errors are tolerated: then the reader continues with
the newest event, and logs that it skips changes.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Timestamp
from pymongo.collation import Collation
from pymongo.errors import OperationFailure, PyMongoError

from penstock.api import (
    Offsets,
    PenstockError,
    Polled,
    Records,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.api.settings import Config
from penstock.connectors.mongodb.client.access import Access
from penstock.connectors.mongodb.client.codec import OPTIONS
from penstock.connectors.mongodb.client.errors import MongoRefused, error_of
from penstock.connectors.mongodb.read import copying
from penstock.connectors.mongodb.read.events import converting_of, heartbeat
from penstock.connectors.mongodb.read.offsets import offset_of, partition_of, token_of
from penstock.connectors.mongodb.settings import source as k
from penstock.connectors.mongodb.text.shell import parse_document, parse_documents

if TYPE_CHECKING:
    from pymongo import MongoClient

log = logging.getLogger(__name__)

_NO_NAMESPACE: Final = 26
_ILLEGAL: Final = 20
_UNKNOWN_FIELD: Final = 40415
_INVALIDATED: Final = 260
_LOST: Final = frozenset({_INVALIDATED, 280, 286, 10334})
"""Codes of a stream that cannot resume at a token: invalid, fatal, history lost, too large."""

_LOST_WORDS: Final = (
    "not found", "does not exist", "invalid resume token", "no longer be in the oplog",
)  # fmt: skip
_COPY_ROWS: Final = 1000
_RETRY_S: Final = 5.0
_SLICE_MS: Final = 500  # how often a wait checks whether the task stops


class TokenLost(PenstockError):
    """The server cannot resume at the stored resume token."""


class MongoReader(SourceReader):
    """Reads one change stream, and before it the existing documents."""

    idle_ms = 100

    def __init__(self, access: Access, config: Config, context: SourceContext) -> None:
        self._access = access
        self._config = config
        self._context = context
        self._partition = partition_of(config)
        self._converting = converting_of(config)
        self._client: MongoClient[dict[str, Any]] | None = None
        self._stream: Any = None
        self._token = token_of(context.stored_offset(self._partition))
        self._copies = self._token is None and k.startup_mode(config) == k.COPY_EXISTING
        self._not_before = 0.0
        self._beat_at = 0.0
        self._beat_token = ""
        self._held: Sequence[Mapping[str, Any]] = ()  # events after those of the last poll

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if time.monotonic() < self._not_before:
            return None
        if self._copies:
            return self._copy()
        if not self._open():
            return None
        try:
            events = self._held or self._events(max_bytes, wait_ms)
        except OperationFailure as error:
            self._close_stream()
            if not _is_lost(error):
                raise error_of(error, "Cannot read the change stream") from error
            self._drop_token(error)
            return None
        except PyMongoError as error:
            self._close_stream()
            raise error_of(error, "Cannot read the change stream") from error
        if not events:
            return self._heartbeat()
        converted = self._converting.convert(events)
        sources, self._held = converted.sources, converted.left
        if converted.refusal is not None:
            # The records before it are sent first; the next poll starts with it.
            if not sources:
                raise converted.refusal
            events = sources
            self._context.request_commit()
        self._token = dict(events[-1]["_id"])
        return Polled(
            converted.records,
            self._offsets(self._token),
            offsets_before=lambda count: self._offsets(sources[count - 1]["_id"]),
        )

    def _offsets(self, token: Mapping[str, Any]) -> Offsets:
        return [SourceOffset(self._partition, offset_of(token))]

    def read(self, part: str) -> Iterator[Records]:
        try:
            events = copying.events(self._config, self._connected(), part)
            while page := list(itertools.islice(events, _COPY_ROWS)):
                converted = self._converting.convert(page)
                yield converted.records
                if converted.refusal is not None:
                    raise converted.refusal
        except PyMongoError as error:
            raise error_of(error, f"Cannot copy {part}") from error

    def close(self) -> None:
        self._close_stream()
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> MongoClient[dict[str, Any]]:
        if self._client is None:
            self._client = self._access.client()
        return self._client

    def _copy(self) -> Polled | None:
        """The collections as parts. The offset that follows them is a token from before the copy,
        so that no change during it is missed."""
        if not self._open():
            return None
        try:
            namespaces = copying.namespaces(self._config, self._connected())
        except PyMongoError as error:
            raise error_of(error, "Cannot list the collections") from error
        self._copies = False
        token = self._stream.resume_token
        offsets = []
        if token is not None:
            self._token = dict(token)
            offsets = [SourceOffset(self._partition, offset_of(self._token))]
        return Polled(
            offsets=offsets, parts=[copying.part_of(namespace) for namespace in namespaces]
        )

    def _events(self, max_bytes: int, wait_ms: int) -> list[Mapping[str, Any]]:
        limit, size = self._config[k.POLL_MAX], 0
        events: list[Mapping[str, Any]] = []
        deadline = time.monotonic() + wait_ms / 1000
        while len(events) < limit and size < max_bytes and self._stream.alive:
            self._await(min(_SLICE_MS, int((deadline - time.monotonic()) * 1000)))
            event = self._stream.try_next()
            if event is None:
                if time.monotonic() < deadline and self._context.is_running:
                    continue
                break
            events.append(event)
            size += len(bson.encode(event, codec_options=OPTIONS))
            if not _has_more(self._stream):
                break
        if not events and not self._stream.alive:
            # The collection was dropped or renamed: a new stream starts after it.
            self._token = dict(self._stream.resume_token or {}) or self._token
            self._close_stream()
        return events

    def _await(self, ms: int) -> None:
        """Sets how long the server may wait for an event with the next request."""
        wait_ms = max(1, min(ms, self._config[k.POLL_AWAIT]))
        cursor = getattr(self._stream, "_cursor", None)
        if cursor is not None and hasattr(cursor, "_max_await_time_ms"):
            cursor._max_await_time_ms = wait_ms

    def _heartbeat(self) -> Polled | None:
        interval = self._config[k.HEARTBEAT_MS]
        now = time.monotonic()
        if not interval or self._stream is None or (now - self._beat_at) * 1000 <= interval:
            return None
        self._beat_at = now
        token = self._stream.resume_token
        if token is None:
            return None
        offset = offset_of(token, heartbeat=True)
        text = str(offset["_id"])
        if text == self._beat_token:
            return None
        self._beat_token, self._token = text, dict(token)
        records = heartbeat(self._config[k.HEARTBEAT_TOPIC], text)
        return Polled(records, [SourceOffset(self._partition, offset)])

    def _open(self) -> bool:
        """Opens the stream unless it is open; False to retry later."""
        while self._stream is None:
            try:
                self._stream = self._watch()
            except OperationFailure as error:
                if not self._drops_lost_token(error):
                    return False
            except PyMongoError as error:
                raise error_of(error, "Cannot open the change stream") from error
        return True

    def _drops_lost_token(self, error: OperationFailure) -> bool:
        """Whether to open the stream immediately, without the token that the server has lost;
        False: later. Raises the error if neither helps."""
        details = error.details or {}
        text = details.get("errmsg", str(error))
        if error.code == _NO_NAMESPACE:
            log.info("Namespace not found, retrying: %s", text)
            self._not_before = time.monotonic() + _RETRY_S
            return False
        if self._token is not None and _is_lost(error):
            self._drop_token(error)
            return True
        if error.code == _ILLEGAL:
            raise MongoRefused(
                f"Illegal $changeStream operation: {text}. Change streams need a replica set, and "
                "support only some stages in `pipeline`"
            ) from error
        if error.code == _UNKNOWN_FIELD:
            raise MongoRefused(
                f"Invalid operation: {text}. This version of MongoDB may not support it"
            ) from error
        raise error_of(error, "Cannot open the change stream") from error

    def _drop_token(self, error: OperationFailure) -> None:
        """Drops a resume token that the server has lost, or raises TokenLost."""
        text = (error.details or {}).get("errmsg", str(error))
        if not self._converting.tolerates and error.code != _INVALIDATED:
            raise TokenLost(
                f"The server cannot resume the change stream: {text}. Later events may be lost. To "
                "start over, set mongo.errors.tolerance=all or a new offset.partition.name "
                "(startup.mode=copy_existing reads all documents again), or reset the connector's "
                "offsets"
            ) from error
        log.warning(
            "The server cannot resume the change stream: %s. The source continues at the newest "
            "event, skipping changes before it (mongo.errors.tolerance)",
            text,
        )
        self._token = None

    def _watch(self) -> Any:
        config = self._config
        options: dict[str, Any] = {"max_await_time_ms": config[k.POLL_AWAIT]}
        full = "updateLookup" if config[k.FULL_DOCUMENT_ONLY] else config[k.FULL_DOCUMENT]
        if full:
            options["full_document"] = _word(full, ("default", "updateLookup", "whenAvailable",
                                                    "required"))  # fmt: skip
        if before := config[k.FULL_DOCUMENT_BEFORE]:
            options["full_document_before_change"] = _word(
                before, ("default", "off", "whenAvailable", "required")
            )
            if options["full_document_before_change"] == "default":
                del options["full_document_before_change"]
        if config[k.BATCH_SIZE]:
            options["batch_size"] = config[k.BATCH_SIZE]
        if config[k.EXPANDED_EVENTS]:
            options["show_expanded_events"] = True
        if config[k.COLLATION]:
            options["collation"] = Collation(**parse_document(config[k.COLLATION]))
        if self._token is not None:
            options["start_after"] = self._token
        elif k.startup_mode(config) == k.TIMESTAMP:
            at = k.moment_of(config[k.START_AT])
            if at is not None:
                options["start_at_operation_time"] = Timestamp(*at)
        return self._target().watch(parse_documents(config[k.PIPELINE]), **options)

    def _target(self) -> Any:
        """The collection, database or deployment to watch."""
        client: Any = self._connected()
        database, collection = self._config[k.DATABASE], self._config[k.COLLECTION]
        if not database:
            return client
        target = client.get_database(database, codec_options=OPTIONS)
        return target.get_collection(collection) if collection else target

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            try:
                stream.close()
            except PyMongoError as error:
                log.debug("Failed to close a change stream: %s", error)


def _has_more(stream: Any) -> bool:
    """Whether the next event has arrived already; True if unknown."""
    data = getattr(getattr(stream, "_cursor", None), "_data", None)
    return data is None or len(data) > 0


def _word(text: str, words: tuple[str, ...]) -> str:
    return next(word for word in words if word.lower() == text.lower())


def _is_lost(error: OperationFailure) -> bool:
    text = str((error.details or {}).get("errmsg", error)).lower()
    about = "resume token" in text or "resume point" in text
    return error.code in _LOST or (about and any(words in text for words in _LOST_WORDS))

"""Bulk requests: retried actions, and refused ones."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from penstock.api import Backoff, Jitter, Records, TopicPartition
from penstock.connectors.search.client.access import Client, has_errors, outcomes
from penstock.connectors.search.client.errors import Answered, Unreachable
from penstock.connectors.search.write.actions import Action

CONFLICT: Final = "version_conflict_engine_exception"
MALFORMED: Final = frozenset(
    {
        "strict_dynamic_mapping_exception",
        "mapper_parsing_exception",
        "illegal_argument_exception",
        "action_request_validation_exception",
        "document_parsing_exception",
        # Values that are not JSON objects, and oversized requests.
        "not_x_content_exception",
        "parse_exception",
        "x_content_parse_exception",
        "request_entity_too_large",
    }
)
"""Types of errors that a document causes (connectors.md §15)."""

_BUSY: Final = (429, 502, 503, 504)
_BUSY_TYPES: Final = frozenset(
    {
        "es_rejected_execution_exception",
        "rejected_execution_exception",
        "circuit_breaking_exception",
        "unavailable_shards_exception",
        "cluster_block_exception",  # such as full disks: transient
    }
)
_LONGEST_WAIT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that the cluster refuses permanently. `index`: the concrete one, if there is a
    conflict."""

    action: Action
    type: str
    reason: str
    status: int
    index: str = ""

    @property
    def is_conflict(self) -> bool:
        """Whether the document exists in a later version."""
        return self.type == CONFLICT

    @property
    def is_malformed(self) -> bool:
        """Whether the document is the cause."""
        return self.type in MALFORMED


class Coming(Enum):
    """Whether the record at an offset has been written."""

    LATER = auto()
    SEEN = auto()
    NEVER = auto()  # records after it have been


class Later:
    """What this and the later requests of a task write."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self.last_ones: dict[str | None, Action] = {}
        """By id, the last action."""
        self.reached: dict[TopicPartition, int] = {}
        self.places: set[tuple[TopicPartition, int]] = set()
        seen: set[int] = set()
        for request in requests:
            self.last_ones |= {action.id: action for action in request.actions}
            records = request.records
            if id(records) in seen:  # they are in several requests
                continue
            seen.add(id(records))
            for row, offset in enumerate(records.offsets):
                partition = records.original(row)
                self.places.add((partition, offset))
                self.reached[partition] = max(offset, self.reached.get(partition, -1))


@dataclass(slots=True, eq=False)
class Request:
    """Actions that are sent together. `after`: requests that must be done first. `refusals` are
    those that have not been dealt with yet. `later`: what this and later requests write, once a
    conflict needs it."""

    records: Records
    actions: Sequence[Action]
    after: Sequence[Request] = ()
    done: threading.Event = field(default_factory=threading.Event)
    refusals: list[Refusal] = field(default_factory=list)
    error: Exception | None = None
    later: Later | None = None

    def run(self, send: Callable[[Sequence[Action]], list[Refusal]]) -> None:
        """Sends the actions, and keeps the outcome."""
        try:
            for earlier in self.after:
                earlier.done.wait()
                if earlier.error is not None:
                    raise Unreachable(str(earlier.error)) from earlier.error
            self.refusals = send(self.actions)
        except Exception as error:
            self.error = error
        finally:
            self.done.set()

    def is_superseded(self, action: Action, later: Iterable[Request]) -> bool:
        """Whether this request or one of the `later` ones has another write of the document."""
        if not action.is_versioned:
            return False
        if self.later is None:
            self.later = Later((self, *later))
        return self.later.last_ones[action.id] is not action

    def coming(self, partition: TopicPartition, offset: int) -> Coming:
        """Whether the record at an offset is in this or a later request; after `is_superseded`."""
        assert self.later is not None
        if (partition, offset) in self.later.places:
            return Coming.SEEN
        return Coming.NEVER if offset < self.later.reached.get(partition, -1) else Coming.LATER

    def reset(self) -> None:
        """Forgets a failure."""
        self.error = None
        self.done = threading.Event()


class Sender:
    """Sends actions until the cluster has accepted or refused each, or is unavailable."""

    def __init__(
        self, client: Client, retries: int, backoff_ms: int, stopped: threading.Event
    ) -> None:
        self._client = client
        self._retries = retries
        self._backoff = Backoff(backoff_ms, _LONGEST_WAIT_MS, jitter=Jitter.HALF)
        self._stopped = stopped

    def send(self, actions: Sequence[Action]) -> list[Refusal]:
        """The refused actions. Raises Unreachable if the cluster is busy or unavailable more than
        `retries` times, and Answered if it refuses the whole request."""
        refusals: list[Refusal] = []
        attempt = 0
        while actions:
            try:
                answer = self._client.bulk(b"".join([action.lines for action in actions]))
            except Unreachable as error:
                self._wait(attempt, error)
            except Answered as error:
                return refusals + self._divided(actions, error)
            else:
                if not has_errors(answer):
                    return refusals
                busy, busy_reason = _sorted(actions, outcomes(answer), refusals)
                if not busy:
                    return refusals
                actions = busy
                self._wait(attempt, Unreachable(f"The cluster is busy: {busy_reason}"))
            attempt += 1
        return refusals

    def _divided(self, actions: Sequence[Action], error: Answered) -> list[Refusal]:
        """Finds the action for which a whole request is refused."""
        if error.http_status not in (400, 413):
            raise error
        if len(actions) == 1:
            type = "request_entity_too_large" if error.http_status == 413 else error.type
            return [Refusal(actions[0], type, str(error), error.http_status)]
        middle = len(actions) // 2
        return self.send(actions[:middle]) + self.send(actions[middle:])

    def _wait(self, attempt: int, error: Unreachable) -> None:
        """Waits before the next attempt, twice as long each time, minus up to half."""
        if attempt >= self._retries or self._stopped.is_set():
            raise error
        if self._stopped.wait(self._backoff.delay_ms(attempt + 1, random) / 1000):
            raise error


def _sorted(
    actions: Sequence[Action], results: Sequence[Mapping[str, Any]], refusals: list[Refusal]
) -> tuple[list[Action], str]:
    """The actions to retry, with a reason; adds the refused ones to `refusals`.

    If an ordered action is retried, so are later ones of the same id, which keeps their order.
    """
    busy: list[Action] = []
    ids: set[str] = set()
    busy_reason = ""
    for action, result in zip(actions, results, strict=True):
        error = result.get("error")
        if error is None:
            if action.id in ids:
                busy.append(action)
            continue
        type, status = str(error.get("type")), int(result.get("status", 0))
        reason = _reason(error)
        if (
            status in _BUSY
            or type in _BUSY_TYPES
            or (action.is_ordered and type == CONFLICT)
            or (action.is_ordered and action.id in ids)
        ):
            busy.append(action)
            busy_reason = f"{type}: {reason}"
            if action.is_ordered and action.id is not None:
                ids.add(action.id)
        else:
            index = str(error.get("index", ""))
            refusals.append(Refusal(action, type, f"{type}: {reason}", status, index))
    return busy, busy_reason


def _reason(error: Mapping[str, Any]) -> str:
    text = str(error.get("reason"))
    cause = error.get("caused_by")
    while isinstance(cause, Mapping):
        text += f"; {cause.get('type')}: {cause.get('reason')}"
        cause = cause.get("caused_by")
    return text


def cut(actions: Sequence[Action], most: int, most_bytes: int) -> list[Sequence[Action]]:
    """The actions of each request: at most `most`, and `most_bytes` unless it is a single one. -1
    bytes: no limit."""
    cuts: list[Sequence[Action]] = []
    start = size = 0
    for row, action in enumerate(actions):
        added_bytes = len(action.lines)
        if row > start and (row - start >= most or (0 <= most_bytes < size + added_bytes)):
            cuts.append(actions[start:row])
            start, size = row, 0
        size += added_bytes
    if start < len(actions):
        cuts.append(actions[start:])
    return cuts

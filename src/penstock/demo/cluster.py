"""The demo's requests to the worker (over REST) and to Kafka (topic and the sink's group)."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import httpx
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    TopicPartition,
)

from penstock.demo.folder import OFFSET_TOPIC, SINK, SOURCE, TOPIC
from penstock.demo.progress import ShownInstance, instances_of
from penstock.errors import PenstockError, Unavailable
from penstock.kafka.broker import free_port

_ASK_S: Final = 5.0
_LOOK_S: Final = 2.0
_REST_PORT: Final = 8083
"""Kafka Connect's default, and that of the command `penstock`."""

_PORTS: Final = 100
_BUSY: Final = frozenset({409, 500, 503})
"""Answers that mean "not yet" from a cluster that is still starting."""


def near_port(first: int = _REST_PORT) -> int:
    """The first free loopback port from `first` on; any free one if the next 100 are taken."""
    for port in range(first, first + _PORTS):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    return free_port()


class DemoRefused(PenstockError):
    """The worker refuses a request of the demo."""


class Rest:
    """The REST interface of the demo's worker."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=_ASK_S, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def answers(self) -> bool:
        """Whether a server answers `GET /` at the URL."""
        try:
            return self._client.get("/").status_code == 200
        except httpx.HTTPError:
            return False

    def create(self, name: str, config: Mapping[str, str]) -> str | None:
        """Creates a connector. Returns None if it was created, otherwise why it is not yet.

        Raises DemoRefused if a retry would not help.
        """
        try:
            answer = self._client.post("/connectors", json={"name": name, "config": dict(config)})
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        if answer.status_code == 201 or (answer.status_code == 409 and self._has(name)):
            return None
        message = _message(answer)
        if answer.status_code in _BUSY:
            return message
        raise DemoRefused(
            f"The worker did not create the connector '{name}': {answer.status_code} {message}"
        )

    def parts(self, name: str) -> tuple[ShownInstance, ...] | None:
        """The connector and its tasks; empty before it has a status, None without a response."""
        try:
            answer = self._client.get(f"/connectors/{name}/status")
            if answer.status_code == 404:
                return ()
            return instances_of(name, answer.raise_for_status().json())
        except (httpx.HTTPError, ValueError):
            return None

    def _has(self, name: str) -> bool:
        """If a response was lost, a conflict may be with the connector that we created."""
        with contextlib.suppress(httpx.HTTPError):
            return self._client.get(f"/connectors/{name}").status_code == 200
        return False


class DemoWatch:
    """Looks at the topic, the sink's group and the source's offsets without disturbing them."""

    def __init__(self, bootstrap: str) -> None:
        quiet: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "enable.auto.commit": False,
            "error_cb": lambda error: None,
        }
        # It asks about the group and never subscribes, so it does not become a member.
        self._group = Consumer({**quiet, "group.id": f"connect-{SINK}"})
        self._offsets = Consumer({**quiet, "group.id": "demo-view"})
        self._offsets.assign([TopicPartition(OFFSET_TOPIC, 0, OFFSET_BEGINNING)])
        self._position: int | None = None

    def close(self) -> None:
        self._group.close()
        self._offsets.close()

    def records_in(self) -> int | None:
        """The end offset of the topic, or None if it is unavailable."""
        try:
            ends = self._group.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=_LOOK_S)
        except KafkaException:
            return None
        return ends[1] if ends else None

    def records_out(self) -> int | None:
        """The offset that the sink has committed, or None if it is not known."""
        try:
            [committed] = self._group.committed([TopicPartition(TOPIC, 0)], timeout=_LOOK_S)
        except KafkaException:
            return None
        return committed.offset if committed.error is None and committed.offset >= 0 else None

    def position(self) -> int | None:
        """The position in the file that the source has committed, None before the first commit."""
        for key, value in self._new_offsets():
            position = source_position(key, value)
            if position is not None:
                self._position = position
        return self._position

    def _new_offsets(self) -> Iterator[tuple[bytes, bytes]]:
        with contextlib.suppress(KafkaException):
            for message in self._offsets.consume(100, timeout=0):
                key, value = message.key(), message.value()
                if message.error() is None and key and value:
                    yield _bytes(key), _bytes(value)


def source_position(key: bytes, value: bytes) -> int | None:
    """The position in a record of the offset topic, if it is about the demo's source.

    >>> source_position(b'["demo-source",{"filename":"/a"}]', b'{"position":42}')
    42
    """
    try:
        about, offset = json.loads(key), json.loads(value)
    except ValueError:
        return None
    if not (isinstance(about, list) and about[:1] == [SOURCE] and isinstance(offset, dict)):
        return None
    position = offset.get("position")
    return position if isinstance(position, int) else None


def until(
    ready: Callable[[], bool], *, tick: Callable[[], None], timeout_ms: int, now: Callable[[], int]
) -> bool:
    """Polls until the condition holds; False at the time-out. `tick` waits, and may raise."""
    deadline = now() + timeout_ms
    while not ready():
        if now() > deadline:
            return False
        tick()
    return True


def create(
    rest: Rest,
    name: str,
    config: Mapping[str, str],
    *,
    tick: Callable[[], None],
    timeout_ms: int,
    now: Callable[[], int],
) -> None:
    """Creates a connector when the cluster is ready; raises Unavailable at the time-out."""
    reason: str | None = None

    def created() -> bool:
        nonlocal reason
        reason = rest.create(name, config)
        return reason is None

    if not until(created, tick=tick, timeout_ms=timeout_ms, now=now):
        raise Unavailable(
            f"The worker at {rest.url} did not create the connector '{name}' within "
            f"{timeout_ms // 1000} s. Its last answer: {reason}"
        )


def _message(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        return answer.text[:500]
    return str(body.get("message", body)) if isinstance(body, dict) else str(body)


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data

"""A worker's ports: requests to the leader, its group, and the replacement of Kafka in standalone
mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.kafka.group import Callbacks, ClientMetric
from penstock.offsets.store import Log, OffsetStore, Receive


class Leader(Protocol):
    """Requests of this worker to the leader at a URL. Raises when a request fails: an error with an
    `http_status` if the leader refused it."""

    def put_tasks(
        self, url: str, connector: str, configs: Sequence[Mapping[str, str | None]]
    ) -> None:
        """Submits a connector's task set."""

    def fence(self, url: str, connector: str) -> None:
        """Requests zombie fencing for a connector."""


class GroupPort(Protocol):
    """A worker's membership of its group; see `WorkerGroup`."""

    def join(self) -> None: ...

    def step_out(self) -> None: ...

    def leave(self, timeout_s: float) -> None: ...

    def figures(self) -> Sequence[ClientMetric]: ...


class Alone(Protocol):
    """Replaces topics and group in standalone mode; see `standalone`."""

    def open(self, config: Receive, status: Receive, offsets: OffsetStore) -> tuple[Log, Log]:
        """Creates the config log, status log and the offset store's log. Raises StartupFailed."""

    def group(self, callbacks: Callbacks) -> GroupPort:
        """A group of one."""

"""The worker's membership of its group: the group's requests become events, which the herder
answers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from penstock.cluster import events as e
from penstock.cluster import protocol
from penstock.config import worker_keys as keys
from penstock.config.define import Config
from penstock.kafka import clients
from penstock.kafka.group import Callbacks, ClientMetric, WorkerGroup
from penstock.runtime.inbox import EventInbox
from penstock.runtime.metrics import Metrics
from penstock.runtime.ports import Alone, GroupPort


class GroupMembership:
    """A member of the workers' group, from the first `join` until `leave`."""

    def __init__(
        self,
        config: Config,
        worker_id: str,
        inbox: EventInbox,
        metrics: Metrics,
        alone: Alone | None,
    ) -> None:
        self._protocol = config[keys.CONNECT_PROTOCOL].lower()
        self._inbox = inbox
        self._metrics = metrics
        self._grace_s = config[keys.TASK_SHUTDOWN_TIMEOUT] / 1000
        self._session_end: float | None = None  # known while the group is unreachable
        self._group = self._make_group(config, worker_id, alone)

    def join(self) -> None:
        """Requests a rebalance. Returns at once."""
        self._group.join()

    def step_out(self) -> None:
        """Leaves the group until the next `join`."""
        self._group.step_out()

    def leave(self, timeout_s: float) -> None:
        """Leaves the group for good."""
        self._group.leave(timeout_s)

    def figures(self) -> Sequence[ClientMetric]:
        """The metrics of the group's client."""
        return self._group.figures()

    def grace_s(self) -> float:
        """How many seconds a task may take to stop. While the group coordinator is unreachable, no
        longer than the session: after that the task may be reassigned, and offsets that this worker
        stores when it reaches Kafka again would overwrite the new owner's."""
        end = self._session_end
        if end is None:
            return self._grace_s
        return max(0.0, min(self._grace_s, end - time.monotonic()))

    def _make_group(self, config: Config, worker_id: str, alone: Alone | None) -> GroupPort:
        callbacks = Callbacks(
            offers=self._offers,
            perform_assignment=self._perform_assignment,
            joined=self._on_joined,
            lost=self._on_lost,
        )
        if alone is not None:
            return alone.group(callbacks)
        return WorkerGroup(
            clients.member(config.props).arguments(),
            group_id=config[keys.GROUP_ID],
            client_id=config[keys.CLIENT_ID] or f"connect-{worker_id}",
            session_timeout_ms=config[keys.SESSION_TIMEOUT],
            heartbeat_interval_ms=config[keys.HEARTBEAT_INTERVAL],
            rebalance_timeout_ms=config[keys.REBALANCE_TIMEOUT],
            callbacks=callbacks,
        )

    def _offers(self) -> list[tuple[str, bytes]]:
        self._metrics.round_begins()
        reply: Future[protocol.MemberMetadata] = Future()
        self._inbox.post(e.MetadataRequested(reply))
        metadata = self._inbox.wait(reply)
        return [
            (name, protocol.encode_metadata(metadata, protocol.VERSIONS[name]))
            for name in protocol.offered(self._protocol)
        ]

    def _perform_assignment(
        self, member: str, name: str, generation: int, members: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        reply: Future[Mapping[str, bytes]] = Future()
        self._inbox.post(e.AssignmentRequested(reply, member, name, generation, members))
        return self._inbox.wait(reply)

    def _on_joined(self, generation: int, member: str, name: str, assignment: bytes) -> None:
        self._session_end = None
        self._metrics.round_ends()
        self._inbox.post(e.Joined(generation, member, name, assignment))

    def _on_lost(self, session_end: float) -> None:
        self._session_end = session_end
        self._inbox.post(e.CoordinatorLost())

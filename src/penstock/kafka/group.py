"""Membership of the worker group: protocol type `connect`, on kafka-python's group coordinator.

`cluster/` decides; this keeps the member in the group. Callbacks run in the group's thread and must
return soon: heartbeats wait for them.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka.coordinator.base import BaseCoordinator
from kafka.errors import KafkaError
from kafka.metrics import MetricConfig, Metrics
from kafka.net.compat import KafkaNetClient

log = logging.getLogger(__name__)

_POLL_S: Final = 0.05
_JOIN_MS: Final = 1_000
_RETRY_S: Final = 0.2
_GROUPS: Final = frozenset({"connect-metrics", "connect-coordinator-metrics"})


@dataclass(frozen=True, slots=True)
class Callbacks:
    """`offers` returns (protocol, metadata bytes), preferred first. `perform_assignment` computes
    the assignment bytes of every member, on the leader only. `lost` is called when the coordinator
    is unreachable, with the deadline (monotonic clock) until which this member's assignment stays
    reserved."""

    offers: Callable[[], Sequence[tuple[str, bytes]]]
    perform_assignment: Callable[[str, str, int, Mapping[str, bytes]], Mapping[str, bytes]]
    joined: Callable[[int, str, str, bytes], None]
    lost: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ClientMetric:
    """One metric of a Kafka client."""

    group: str
    name: str
    value: float


class WorkerGroup:
    """A member from the first `join` until `leave`."""

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        group_id: str,
        client_id: str,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        rebalance_timeout_ms: int,
        callbacks: Callbacks,
    ) -> None:
        self._measured = Metrics(MetricConfig(samples=2, time_window_ms=30_000))
        measured = {"metrics": self._measured, "metric_group_prefix": "connect"}
        self._client = KafkaNetClient(client_id=client_id, **measured, **client)
        self._heartbeat_s = heartbeat_interval_ms / 1000
        self._session_s = session_timeout_ms / 1000
        self._callbacks = callbacks
        self._coordinator = _Coordinator(
            self._client,
            replace(callbacks, offers=self._offers),
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=rebalance_timeout_ms,
            api_version=(2, 5),
            **measured,
        )
        self._wake = threading.Event()
        self._join_requested = threading.Event()
        self._out = threading.Event()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group", daemon=True)

    def join(self) -> None:
        """Joins the group, or rejoins it with fresh metadata. Returns at once.

        During a rebalance that already has this member's metadata, it leads to another rebalance.
        """
        self._out.clear()
        self._join_requested.set()
        self._wake.set()
        if not self._thread.is_alive() and not self._leaving.is_set():
            self._client._manager._net.start()
            self._thread.start()

    def step_out(self) -> None:
        """Leaves the group until `join` is called again. Returns at once."""
        self._out.set()
        self._wake.set()

    def figures(self) -> list[ClientMetric]:
        """The client's metrics: Kafka Connect's groups `connect-metrics` and
        `connect-coordinator-metrics`, as far as kafka-python has them (kafka-connect.md §14)."""
        return [
            ClientMetric(name.group, name.name, float(metric.value()))
            for name, metric in list(self._measured.metrics.items())
            if name.group in _GROUPS
        ]

    def leave(self, timeout_s: float) -> None:
        """Leaves the group and ends the connection."""
        self._leaving.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._client._manager.bootstrap(30_000)
        except KafkaError as error:
            log.warning("no broker answers yet, retrying: %s", error)
        unreachable_since: float | None = None
        while not self._leaving.is_set():
            if self._out.is_set():
                with contextlib.suppress(KafkaError):  # otherwise the session times out
                    self._coordinator.maybe_leave_group("could not read the config topic", _JOIN_MS)
                self._wake.wait(_RETRY_S)
                self._wake.clear()
                continue
            try:
                if self._join_requested.is_set():
                    self._coordinator.request_rejoin()
                self._coordinator.ensure_active_group(timeout_ms=_JOIN_MS)
                self._coordinator.poll_heartbeat()
            except KafkaError as error:
                log.warning("failed to join the group or to send a heartbeat, retrying: %s", error)
                self._leaving.wait(_RETRY_S)
            except Exception:  # e.g. a callback that took too long
                if not self._leaving.wait(_RETRY_S):
                    log.exception("failed to join the group or to send a heartbeat, retrying")
            unreachable_since = self._watch_coordinator(unreachable_since)
            self._wake.wait(_POLL_S)
            self._wake.clear()
        with contextlib.suppress(Exception):  # otherwise the session times out
            self._coordinator.close(timeout_ms=2_000)
        with contextlib.suppress(Exception):
            self._client.close()

    def _offers(self) -> Sequence[tuple[str, bytes]]:
        # Cleared here and not before: the coordinator forgets a rejoin requested while it joins.
        self._join_requested.clear()
        return self._callbacks.offers()

    def _watch_coordinator(self, since: float | None) -> float | None:
        """Reports the coordinator as lost after a heartbeat interval (kafka-connect.md §5.6).

        The assignment is revoked then, so the worker has to rejoin even if the group still knows
        this member when the coordinator is back.
        """
        if not self._coordinator.coordinator_unknown():
            return None
        now = time.monotonic()
        if since is None:
            return now
        if now - since > self._heartbeat_s and since != float("inf"):
            self._callbacks.lost(self._session_end())
            self._coordinator.request_rejoin()
            return float("inf")
        return since

    def _session_end(self) -> float:
        """The earliest time at which the coordinator can expire this member's session: its last
        response answered a heartbeat that it received at most a heartbeat interval earlier."""
        heard = max(self._coordinator.heartbeat.last_receive, self._coordinator.joined_at)
        return float(heard) + self._session_s - self._heartbeat_s


class _Coordinator(BaseCoordinator):  # type: ignore[misc]  # kafka-python is untyped
    def __init__(self, client: Any, callbacks: Callbacks, **settings: Any) -> None:
        super().__init__(client, **settings)
        self._callbacks = callbacks
        self.joined_at = -float("inf")  # on the monotonic clock

    def protocol_type(self) -> str:
        return "connect"

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return list(self._callbacks.offers())

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[Any]
    ) -> Mapping[str, bytes]:
        metadata = {member.member_id: member.metadata for member in members}
        generation = self._generation.generation_id
        return self._callbacks.perform_assignment(leader_id, protocol, generation, metadata)

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        self.joined_at = time.monotonic()
        self._callbacks.joined(generation, member_id, protocol, member_assignment_bytes)

"""A simulated worker's membership of its group: what `kafka/group.py` is to a real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from penstock.cluster import events as e
from penstock.cluster import protocol
from tests.cluster.simulated.coordinator import REBALANCE_TIMEOUT_MS, Coordinator
from tests.cluster.simulated.world import Process, World

HEARTBEAT_MS: Final = 3_000
ANSWER_MS: Final = 10_000  # how long the client waits for its worker's loop
JOIN_MS: Final = REBALANCE_TIMEOUT_MS + 5_000  # how long it waits for the coordinator's response


class Network(World, Protocol):
    """What a group client may use of the cluster."""

    @property
    def coordinator(self) -> Coordinator: ...

    @property
    def protocol(self) -> str:
        """The group's protocol, which all members speak."""


class Member(Process, Protocol):
    """What a group client may use of its worker."""

    def on_expelled(self) -> None:
        """The group has removed the worker, which does not know yet."""


class GroupClient:
    """Keeps one worker in the group; the group's decisions become events of the worker."""

    def __init__(self, network: Network, worker: Member) -> None:
        self.member = ""
        self.stage = "out"  # then: asking, joining, syncing, stable
        self.cut = False  # it cannot reach the coordinator
        self._network = network
        self._worker = worker
        self._generation = -1
        self._requests_until = 0  # requests reach the coordinator in order …
        self._responses_until = 0  # … and so do its responses
        self._attempt = 0  # responses to earlier attempts to join are ignored
        self._join_requested = False
        self._rejoin_needed = True
        self._active = False  # from `join` until `step_out`

    @property
    def is_member(self) -> bool:
        """Whether the coordinator still knows this member."""
        return self.member in self._network.coordinator.members

    def join(self) -> None:
        """Joins the group, or rejoins it."""
        self._active = self._join_requested = True
        self._worker.later(self._network.random.randint(1, 50), self._poll)

    def leave(self) -> None:
        """Leaves the group as the worker's last act."""
        if not self.cut:
            self._network.coordinator.leave(self.member, self._network.now)

    def refuse(self, attempt: object) -> None:
        """Rejoins: the worker has no assignment for this attempt."""
        if attempt == self._attempt:
            self._try_again()

    def step_out(self) -> None:
        """Leaves the group until the next `join`; the group continues without this worker."""
        self._attempt += 1
        self.stage = "out"
        self._active = self._join_requested = False
        self._rejoin_needed = True
        member, self.member = self.member, ""
        if member:
            self.on_expelled(member)
            self._send(lambda coordinator, now: coordinator.leave(member, now))

    def _poll(self) -> None:
        if self.cut or not self._active or self.stage not in ("out", "stable"):
            return
        if not (self._join_requested or self._rejoin_needed):
            return
        self._join_requested = False
        self._rejoin_needed = True
        self._attempt += 1
        attempt = self._attempt
        self.stage = "asking"
        self._worker.later(ANSWER_MS, partial(self._give_up, attempt, "asking"))
        self._worker.post(e.MetadataRequested(attempt))

    def _give_up(self, attempt: int, *stages: str) -> None:
        if self._attempt == attempt and self.stage in stages:
            self._try_again()

    def _try_again(self) -> None:
        self._attempt += 1
        self.stage = "out"
        self._rejoin_needed = True
        self._worker.later(self._network.random.randint(1, 200), self._poll)

    def _send(self, request: Callable[[Coordinator, int], None]) -> None:
        """Sends the coordinator a request, unless the connection is cut."""
        if self.cut or (delay := self._delay()) is None:
            return
        self._requests_until = max(self._requests_until, self._network.now + delay)
        self._network.at(self._requests_until - self._network.now, partial(self._arrive, request))

    def _arrive(self, request: Callable[[Coordinator, int], None]) -> None:
        request(self._network.coordinator, self._network.now)

    def respond(self, attempt: int, act: Callable[[], None]) -> None:
        """Delivers the coordinator's response, if this attempt to join still waits for it."""
        if (delay := self._delay()) is None:
            return
        self._responses_until = max(self._responses_until, self._network.now + delay)
        self._worker.later(
            self._responses_until - self._network.now, partial(self._take_response, attempt, act)
        )

    def _delay(self) -> int | None:
        """How long a message takes; None if it is lost. Every second loss breaks the connection,
        which the client notices."""
        random, faults = self._network.random, self._network.faults
        if random.random() < faults.message_is_lost:
            if random.random() < 0.5:
                self._worker.later(random.randint(1, 50), partial(self._break, self._attempt))
            return None
        return (
            random.randint(200, 8_000)
            if random.random() < faults.message_is_late
            else random.randint(1, 10)
        )

    def _break(self, attempt: int) -> None:
        if attempt == self._attempt and self.stage in ("joining", "syncing"):
            self._try_again()

    def _take_response(self, attempt: int, act: Callable[[], None]) -> None:
        if not self.cut and self._attempt == attempt:
            act()

    def send_metadata(self, command: e.ReturnMetadata) -> None:
        if command.reply != self._attempt or self.stage != "asking":
            return
        self.stage = "joining"
        self._worker.later(JOIN_MS, partial(self._give_up, self._attempt, "joining", "syncing"))
        data = protocol.encode_metadata(command.metadata, protocol.VERSIONS[self._network.protocol])
        link, member = _Link(self, self._attempt), self.member
        self._send(lambda coordinator, now: coordinator.join(link, member, data, now))

    def take_join(
        self, member: str, generation: int, leader: str, members: Mapping[str, bytes]
    ) -> None:
        self.member, self._generation = member, generation
        self.stage = "syncing"
        if member == leader:
            reply = self._attempt
            self._worker.post(
                e.AssignmentRequested(reply, member, self._network.protocol, generation, members)
            )
        else:
            self.send_assignments(self._attempt, {})

    def send_assignments(self, attempt: object, assignments: Mapping[str, bytes]) -> None:
        if attempt != self._attempt or self.stage != "syncing":
            return
        link, member, generation = _Link(self, self._attempt), self.member, self._generation
        self._send(
            lambda coordinator, now: coordinator.sync(link, member, generation, assignments, now)
        )

    def take_sync(self, generation: int, data: bytes) -> None:
        self.stage = "stable"
        self._rejoin_needed = False
        self._worker.post(e.Joined(generation, self.member, self._network.protocol, data))
        self._worker.later(self._network.random.randint(1, 50), self._poll)
        self._worker.later(HEARTBEAT_MS, partial(self._heartbeat, self._attempt))

    def _heartbeat(self, attempt: int) -> None:
        if self._attempt != attempt or self.stage != "stable" or not self._worker.alive:
            return
        link, member, generation = _Link(self, attempt), self.member, self._generation
        self._send(lambda coordinator, now: coordinator.heartbeat(link, member, generation, now))
        self._worker.later(HEARTBEAT_MS, partial(self._heartbeat, attempt))

    def take_refusal(self, *, known: bool) -> None:
        if not known:
            self.member = ""
        self._try_again()

    def on_expelled(self, member: str) -> None:
        if self.member in ("", member):  # if not, the worker never knew that membership
            self._worker.on_expelled()

    def lose_coordinator(self) -> None:
        self.cut = True
        self._worker.later(HEARTBEAT_MS, self._report_loss)

    def _report_loss(self) -> None:
        if self.cut:
            self._worker.post(e.CoordinatorLost())

    def find_coordinator(self) -> None:
        self.cut = False
        if self.stage in ("joining", "syncing"):
            self._worker.later(1, self._try_again)
        else:
            self._worker.later(1, self._poll)


@dataclass(frozen=True, slots=True)
class _Link:
    client: GroupClient
    attempt: int

    def unknown_member(self) -> None:
        self.client.respond(self.attempt, lambda: self.client.take_refusal(known=False))

    def round_is_over(self) -> None:
        self.client.respond(self.attempt, lambda: self.client.take_refusal(known=True))

    def joined(
        self, member: str, generation: int, leader: str, members: Mapping[str, bytes]
    ) -> None:
        self.client.respond(
            self.attempt, lambda: self.client.take_join(member, generation, leader, members)
        )

    def synced(self, generation: int, data: bytes) -> None:
        self.client.respond(self.attempt, lambda: self.client.take_sync(generation, data))

    def expelled(self, member: str) -> None:
        self.client.on_expelled(member)

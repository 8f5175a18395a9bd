"""The simulated group coordinator.

Members join a rebalance, then sync; a member is removed when its session times out or it does not
rejoin in time. Responses come back through `Link`, which may delay or lose them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

SESSION_TIMEOUT_MS: Final = 10_000
REBALANCE_TIMEOUT_MS: Final = 60_000
INITIAL_DELAY_MS: Final = 100  # an empty group waits for more members


class Link(Protocol):
    """The coordinator's side of a member's connection."""

    def unknown_member(self) -> None:
        """UNKNOWN_MEMBER_ID: this member is not, or no longer, in the group."""

    def round_is_over(self) -> None:
        """The rebalance of the request was superseded: rejoin."""

    def joined(
        self, member: str, generation: int, leader: str, members: Mapping[str, bytes]
    ) -> None:
        """JoinGroup is complete; `members` maps ids to metadata, for the leader only."""

    def synced(self, generation: int, data: bytes) -> None:
        """SyncGroup is complete; the member's assignment."""

    def expelled(self, member: str) -> None:
        """For the simulation, not the member: the group has removed it."""


class JoinState(Enum):
    """The state of the group."""

    STABLE = "stable"
    JOINING = "joining"
    SYNCING = "syncing"


@dataclass(slots=True)
class _Membership:
    link: Link
    seen_at: int
    metadata: bytes
    joining: bool = True  # has joined the current rebalance, and waits for the others
    syncing: bool = False


@dataclass(slots=True)
class Coordinator:
    """Of one group. Call `tick` as time passes."""

    generation: int = 0
    state: JoinState = JoinState.STABLE
    leader: str = ""
    members: dict[str, _Membership] = field(default_factory=dict)
    _assignments: Mapping[str, bytes] = field(default_factory=dict)
    _join_from: int = 0  # the rebalance does not complete earlier
    _join_until: int = 0  # members that have not joined by then are removed
    _next_member: int = 1

    def join(self, link: Link, member: str, metadata: bytes, now: int) -> None:
        if member and member not in self.members:
            link.unknown_member()
            return
        if self._changes_nothing(member, metadata):
            self.members[member].link = link
            members = self._metadata() if member == self.leader else {}
            link.joined(member, self.generation, self.leader, members)
            return
        if not member:
            member = f"m{self._next_member}"
            self._next_member += 1
        if self.state is not JoinState.JOINING:
            self._begin_rebalance(now, INITIAL_DELAY_MS if not self.members else 0)
        self.members[member] = _Membership(link, now, metadata)
        self._complete_join(now)

    def sync(
        self, link: Link, member: str, generation: int, assignments: Mapping[str, bytes], now: int
    ) -> None:
        membership = self.members.get(member)
        if membership is None:
            link.unknown_member()
        elif generation != self.generation or self.state is JoinState.JOINING:
            link.round_is_over()
        else:
            membership.link = link
            membership.seen_at = now
            membership.syncing = True
            if member == self.leader and self.state is JoinState.SYNCING:
                self._assignments = assignments
                self.state = JoinState.STABLE
            if self.state is JoinState.STABLE:
                self._answer_syncs()

    def heartbeat(self, link: Link, member: str, generation: int, now: int) -> None:
        membership = self.members.get(member)
        if membership is None:
            link.unknown_member()
            return
        membership.seen_at = now
        if self.state is not JoinState.STABLE or generation != self.generation:
            link.round_is_over()

    def leave(self, member: str, now: int) -> None:
        if self.members.pop(member, None) is not None:
            self._on_member_lost(now)

    def tick(self, now: int) -> None:
        for member, membership in list(self.members.items()):
            waits = self.state is JoinState.JOINING and membership.joining
            silent = now - membership.seen_at >= SESSION_TIMEOUT_MS and not waits
            late = self.state is JoinState.JOINING and not waits and now >= self._join_until
            if silent or late:
                del self.members[member]
                membership.link.expelled(member)
                if membership.syncing:
                    membership.link.unknown_member()
                self._on_member_lost(now)
        self._complete_join(now)

    def _changes_nothing(self, member: str, metadata: bytes) -> bool:
        """A broker responds with the current generation if a follower's metadata is unchanged; only
        a rejoin of the leader always starts a rebalance."""
        membership = self.members.get(member)
        return (
            membership is not None
            and membership.metadata == metadata
            and self.state is not JoinState.JOINING
            and not (self.state is JoinState.STABLE and member == self.leader)
        )

    def _metadata(self) -> dict[str, bytes]:
        return {member: membership.metadata for member, membership in self.members.items()}

    def _begin_rebalance(self, now: int, delay_ms: int) -> None:
        self.state = JoinState.JOINING
        self._join_from = now + delay_ms
        self._join_until = now + REBALANCE_TIMEOUT_MS
        for membership in self.members.values():
            membership.joining = False
            if membership.syncing:
                membership.syncing = False
                membership.link.round_is_over()

    def _on_member_lost(self, now: int) -> None:
        if self.members and self.state is not JoinState.JOINING:
            self._begin_rebalance(now, 0)

    def _complete_join(self, now: int) -> None:
        if self.state is not JoinState.JOINING or now < self._join_from or not self.members:
            return
        if not all(membership.joining for membership in self.members.values()):
            return
        self.generation += 1
        self.state = JoinState.SYNCING
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        for member, membership in self.members.items():
            membership.seen_at = now
            membership.joining = False
            members = self._metadata() if member == self.leader else {}
            membership.link.joined(member, self.generation, self.leader, members)

    def _answer_syncs(self) -> None:
        for member, membership in self.members.items():
            if membership.syncing:
                membership.syncing = False
                membership.link.synced(self.generation, self._assignments.get(member, b""))

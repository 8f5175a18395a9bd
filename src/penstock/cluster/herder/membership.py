"""Membership: joining the group, syncing with the config topic, assignment, revocation, leading.

A rebalance is complete for a worker once it has read the config topic exactly as far as the leader
had when it assigned. Sources: kafka-connect.md §5.3-5.7; KIP-415, KIP-618.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.cluster import events as e
from penstock.cluster.assign import (
    Item,
    MemberShare,
    assign_cooperative,
    assign_eager,
    configured_work,
)
from penstock.cluster.herder import fencing, statuses
from penstock.cluster.herder.state import (
    AcquiringAccess,
    AwaitingSpark,
    BackingOff,
    GroupPlace,
    Joining,
    Leadership,
    Life,
    NoAccess,
    Replaying,
    Stable,
    Syncing,
    WriteAccess,
)
from penstock.cluster.herder.turn import Turn
from penstock.cluster.herder.writes import RETRY_MIN_MS
from penstock.cluster.protocol import (
    NO_WORK,
    VERSIONS,
    Assignment,
    AssignmentError,
    GroupBytesMalformed,
    MemberMetadata,
    Work,
    decode_assignment,
    decode_metadata,
    encode_assignment,
)

_WAITS: Final = 5
"""How many times a worker that cannot read the config topic waits before it revokes its work."""


def on_logs_ready(turn: Turn, event: e.LogsReady) -> None:
    """The topics have been read: joins the group, or waits for Spark if the group has members."""
    if event.others and not turn.running.spark_ready:
        turn.membership = turn.membership.enter(AwaitingSpark())
    else:
        _join_first(turn)


def on_spark_ready(turn: Turn) -> None:
    """Tasks can start; a worker that has waited for that joins the group."""
    turn.running = replace(turn.running, spark_ready=True)
    if isinstance(turn.membership.phase, AwaitingSpark):
        _join_first(turn)


def _join_first(turn: Turn) -> None:
    turn.membership = turn.membership.enter(Joining())
    join(turn)


def join(turn: Turn) -> None:
    """Requests a rebalance, unless this worker stops or is backing off."""
    membership = turn.membership
    if membership.stopping:
        return
    if isinstance(membership.phase, Replaying | AwaitingSpark | BackingOff):
        return
    turn.membership = membership.enter(Joining(membership.member, membership.offered))
    if e.JoinGroup() not in turn.commands:
        turn.commands.append(e.JoinGroup())


def sync(turn: Turn) -> None:
    """Orders a read of the config topic to its end."""
    if not turn.membership.syncing:
        turn.membership = replace(turn.membership, syncing=True)
        turn.commands.append(e.ReadConfigToEnd(turn.state.settings.sync_timeout_ms))


def on_synced(turn: Turn, in_time: bool) -> None:
    """The config topic was read to its end for the group, or the time-out has passed."""
    turn.membership = replace(turn.membership, syncing=False)
    phase, offered = turn.membership.phase, turn.membership.offered
    if not in_time:
        if isinstance(phase, BackingOff) or offered is not None:
            _back_off(turn)
        return
    if isinstance(phase, BackingOff):
        turn.membership = turn.membership.enter(Joining(phase.last.member, offered))
        join(turn)
    agree(turn, synced=True)


def _back_off(turn: Turn) -> None:
    """Leaves the group for a while: a member that cannot follow the config topic keeps the others
    from completing a rebalance (kafka-connect.md §5.6). Its work continues meanwhile; after
    `_WAITS` attempts it is revoked. An eager member waits for `worker.unsync.backoff.ms`."""
    membership, settings = turn.membership, turn.state.settings
    if membership.stopping:
        return
    phase = membership.phase
    if isinstance(phase, BackingOff):
        attempts = phase.attempts
    else:
        attempts = 0
        turn.commands.append(e.BackOff())
    if membership.member is not None and membership.member.eager:
        wait_ms, attempts = settings.unsync_backoff_ms, 0
    elif attempts < _WAITS:
        wait_ms, attempts = settings.max_delay_ms // 10 // (_WAITS - attempts), attempts + 1
    else:
        membership = replace(membership, assigned=NO_WORK, handing_over=NO_WORK)
        wait_ms, attempts = 0, 0
    retry_at = turn.now + max(wait_ms, RETRY_MIN_MS)
    turn.membership = membership.enter(BackingOff(Joining(membership.member), retry_at, attempts))


def on_tick(turn: Turn) -> None:
    """Requests the rebalance that ends a delay, and retries reading the config topic."""
    if turn.membership.rejoin_at is not None and turn.now >= turn.membership.rejoin_at:
        turn.membership = replace(turn.membership, rejoin_at=None)
        join(turn)
    phase = turn.membership.phase
    if isinstance(phase, BackingOff) and phase.retry_at is not None and turn.now >= phase.retry_at:
        turn.membership = turn.membership.enter(replace(phase, retry_at=None))
        sync(turn)


def on_metadata_requested(turn: Turn, event: e.MetadataRequested) -> None:
    """A rebalance begins; the last one's offer is void."""
    membership = replace(turn.membership, metadata_for=event.reply)
    if membership.last is not None:
        membership = membership.rebalanced(Joining(membership.member))
    if membership.member is not None and membership.member.eager:
        # kafka-connect.md §5.4: everything is stopped before every rebalance.
        membership = replace(membership, assigned=NO_WORK)
    turn.membership = membership


def return_metadata(turn: Turn) -> None:
    """Answers a rebalance with what this worker runs and how far it has read the config topic."""
    membership, member = turn.membership, turn.membership.member
    if membership.metadata_for is None:
        return
    if turn.tasks and (member is None or member.eager):
        return  # eager: everything stops before the rebalance continues
    allocation = None
    if membership.owned:
        leader = member.leader if member else ""
        leader_url = member.leader_url if member else ""
        allocation = Assignment(leader, leader_url, turn.cluster.offset, membership.owned)
    metadata = MemberMetadata(turn.state.settings.url, turn.cluster.offset, allocation)
    turn.commands.append(e.ReturnMetadata(membership.metadata_for, metadata))
    turn.membership = replace(membership, metadata_for=None)


def on_coordinator_lost(turn: Turn) -> None:
    """Revokes this worker's assignment, which may be assigned to others while the coordinator
    cannot be reached (kafka-connect.md §5.6). The worker rejoins when it can."""
    membership = replace(turn.membership, assigned=NO_WORK, handing_over=NO_WORK, rejoin_at=None)
    if membership.last is not None:
        membership = membership.rebalanced(Joining())
    turn.membership = membership
    fencing.lose_leadership(turn)
    join(turn)


def on_assignment_requested(turn: Turn, event: e.AssignmentRequested) -> None:
    """Performs the assignment as leader, at one config offset for all members (kafka-connect.md
    §5.3, §5.5).

    A leader that is behind a member assigns nothing: it reads the config topic first.
    """
    try:
        members = {name: decode_metadata(data) for name, data in event.members.items()}
    except GroupBytesMalformed as error:  # a member of the group is not a worker
        turn.commands.append(e.RefuseAssignment(event.reply, str(error)))
        return
    version = VERSIONS[event.protocol]
    url = members[event.member].url
    offset = max(metadata.config_offset for metadata in members.values())
    if turn.cluster.offset < offset:
        sync(turn)
        behind = Assignment(event.member, url, offset, error=int(AssignmentError.CONFIG_MISMATCH))
        mismatch = encode_assignment(behind, version)
        turn.commands.append(e.ReturnAssignment(event.reply, dict.fromkeys(members, mismatch)))
        return
    assignments, delay_ms = _assign(turn, event, members)
    if version == 0:
        retained = dict.fromkeys(members, NO_WORK)
    else:
        retained = {
            name: members[name].running.minus(assignments[name].revocations) for name in members
        }
    owners: dict[Item, str] = {}
    for name, share in assignments.items():
        for work in (retained[name], share.additions):
            owners |= dict.fromkeys((*work.connectors, *work.tasks), members[name].url)
    leadership = replace(turn.membership.leadership, owners=owners)
    turn.membership = replace(turn.membership, leadership=leadership)

    def encoded(share: MemberShare) -> bytes:
        return encode_assignment(
            Assignment(
                event.member, url, turn.cluster.offset, share.additions, share.revocations, delay_ms
            ),
            version,
        )

    shares = {name: encoded(share) for name, share in assignments.items()}
    turn.commands.append(e.ReturnAssignment(event.reply, shares))


def _assign(
    turn: Turn, event: e.AssignmentRequested, members: Mapping[str, MemberMetadata]
) -> tuple[Mapping[str, MemberShare], int]:
    """Each member's assignment, and the scheduled rebalance delay in ms."""
    work = configured_work(turn.cluster)
    if VERSIONS[event.protocol] == 0:
        eager: Mapping[str, Work] = assign_eager(members.keys(), work)
        return {name: MemberShare(share) for name, share in eager.items()}, 0
    membership = turn.membership
    memory, assignments, delay_ms = assign_cooperative(
        membership.leadership.memory,
        members,
        work,
        last_completed_generation=membership.last_generation,
        generation=event.generation,
        now_ms=turn.now,
        max_delay_ms=turn.state.settings.max_delay_ms,
    )
    turn.membership = replace(membership, leadership=replace(membership.leadership, memory=memory))
    return assignments, delay_ms


def on_joined(turn: Turn, event: e.Joined) -> None:
    """A rebalance is complete: accepts the assignment, and starts it when in sync."""
    before = turn.membership.member
    try:
        assignment = decode_assignment(event.data)
    except GroupBytesMalformed:  # the leader is not a worker; what runs continues
        membership = replace(turn.membership, rejoin_at=turn.now + RETRY_MIN_MS)
        turn.membership = membership.rebalanced(Joining(before, membership.offered))
        return
    member = GroupPlace(
        event.member, event.generation, event.protocol, assignment.leader, assignment.leader_url
    )
    if not member.leads:  # a leader remembers only its own rebalances
        leadership = Leadership(access=turn.membership.leadership.access)
        turn.membership = replace(turn.membership, leadership=leadership)
    if before is None or (before.id, before.leader) != (member.id, member.leader):
        fencing.lose_leadership(turn)  # others may have led meanwhile
    turn.membership = replace(
        turn.membership.rebalanced(Syncing(member, assignment)),
        last_generation=event.generation,
        rejoin_at=None,
    )
    if assignment.error == AssignmentError.NONE:
        _take_on(turn, assignment, member)
    agree(turn, synced=False)


def _take_on(turn: Turn, assignment: Assignment, member: GroupPlace) -> None:
    """Adopts the assignment, so that the metadata of the next rebalance includes it
    (kafka-connect.md §5.5).

    Nothing starts before `agree`; revoked work stops at once.
    """
    membership = turn.membership
    if assignment.delay_ms > 0:
        turn.membership = membership = replace(membership, rejoin_at=turn.now + assignment.delay_ms)
    if not member.eager and not assignment.work and not assignment.revoked:
        return
    owned = NO_WORK if member.eager else membership.assigned
    # Balancing may revoke what it has only just assigned (kafka-connect.md §5.5, step 6): then
    # there is nothing to stop, but the group still waits for another rebalance.
    revoked = owned.minus(owned.minus(assignment.revoked)) or assignment.revoked
    turn.membership = replace(
        membership,
        assigned=owned.minus(assignment.revoked).plus(assignment.work),
        handing_over=membership.handing_over.minus(assignment.work).plus(revoked),
    )


def agree(turn: Turn, *, synced: bool) -> None:
    """Starts the offered assignment, if any, once this worker has read the config topic exactly as
    far as the leader (kafka-connect.md §5.3).

    It first reads the topic to its end; if that did not help (`synced`), it requests a rebalance.
    """
    last = turn.membership.last
    if not isinstance(last, Joining | Syncing) or last.offered is None:
        return
    wrong = last.offered.error != AssignmentError.NONE
    ahead = turn.cluster.offset - last.offered.config_offset
    if (wrong or ahead < 0) and not synced:
        sync(turn)
    elif wrong or ahead:
        turn.membership = turn.membership.rebalanced(Joining(last.member))
        join(turn)
    else:
        begun = Stable(last.member) if isinstance(last, Syncing) else Joining(last.member)
        turn.membership = turn.membership.rebalanced(begun)
        statuses.correct_statuses(turn)
        if turn.membership.leads:
            statuses.clear_statuses(turn)


def on_write_access(turn: Turn, event: e.WriteAccessAcquired) -> None:
    """An elected leader acquired write access to the config topic, or failed to."""
    access = turn.membership.leadership.access
    if not isinstance(access, AcquiringAccess) or event.ticket != access.ticket:
        return  # leadership was lost meanwhile
    if event.error is None:
        turn.membership = turn.membership.with_access(WriteAccess())
    else:
        turn.membership = turn.membership.with_access(NoAccess(turn.now + RETRY_MIN_MS))


def on_stop_requested(turn: Turn) -> None:
    """The worker is to end; `leave` follows once everything has stopped."""
    if turn.membership.life is Life.RUNNING:
        turn.membership = replace(turn.membership, life=Life.STOPPING)


def leave(turn: Turn) -> None:
    """Leaves the group at the end, once nothing runs and nothing is being written."""
    idle = not turn.tasks and not turn.requests.writes
    if turn.membership.life is Life.STOPPING and idle:
        turn.membership = replace(turn.membership, life=Life.LEFT)
        turn.commands.append(e.LeaveGroup())

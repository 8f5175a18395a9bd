"""Assignments: eager (kafka-connect.md §5.4) and incremental cooperative (kafka-connect.md §5.5).

The cooperative rules, from KIP-415 and its later corrections:

- Nothing is assigned to a member before its last owner has reported that it no longer runs it.
- The assignment of a departed member stays reserved until the scheduled rebalance delay has passed,
  since the member may only be restarting; members that rejoined without one then get it.
- Balancing takes two rebalances: the first revokes, the second assigns. If revocations do not lead
  to balance, the rebalances that may revoke back off exponentially.

Only the leader assigns. Its `Memory` lasts from one rebalance to the next; a new leader starts with
an empty one, keeps everything reported as running and assigns the rest at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Final, TypeVar

from penstock.cluster.protocol import MemberMetadata, Work
from penstock.cluster.state import ClusterState
from penstock.ids import TaskId

Item = str | TaskId
"""One thing a member can run: a connector instance, by the connector's name, or a task."""

REVOCATION_BACKOFF_FACTOR: Final = 40
"""KAFKA-12495: successive revocations wait 40, 1600, 64000 ms, … up to the maximum delay."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a leader remembers of its last rebalance; a new leader has none (KIP-415)."""

    assigned: frozenset[Item] = frozenset()  # assigned, or reserved until the delay ends
    revoked: frozenset[Item] = frozenset()
    generation: int = -1  # the rebalance these were decided in
    members: frozenset[str] = frozenset()
    scheduled_ms: int = 0  # lost assignments stay reserved until then; 0: none are
    delay_ms: int = 0
    candidates: tuple[str, ...] = ()  # members without an assignment during the delay
    revoked_in_previous: bool = False
    successive_revocations: int = 0


@dataclass(frozen=True, slots=True)
class MemberShare:
    """The additions to a member's assignment, and its revocations."""

    additions: Work = field(default_factory=Work)
    revocations: Work = field(default_factory=Work)


def configured_work(state: ClusterState) -> Work:
    """All connectors and tasks to assign, sorted. An inconsistent connector has no tasks."""
    connectors = state.connectors()
    return Work(connectors, tuple(task for c in connectors for task in state.tasks(c)))


def assign_eager(members: Collection[str], configured: Work) -> dict[str, Work]:
    """All connectors, then all tasks, dealt to the sorted members (kafka-connect.md §5.4)."""
    turns = cycle(sorted(members))
    loads = {member: _Load(member) for member in sorted(members)}
    for connector in sorted(configured.connectors):
        loads[next(turns)].connectors.append(connector)
    for task in sorted(configured.tasks, key=_task_order):
        loads[next(turns)].tasks.append(task)
    return {member: load.work() for member, load in loads.items()}


def assign_cooperative(
    memory: Memory,
    members: Mapping[str, MemberMetadata],
    configured: Work,
    *,
    last_completed_generation: int,
    generation: int,
    now_ms: int,
    max_delay_ms: int,
) -> tuple[Memory, dict[str, MemberShare], int]:
    """One round of incremental cooperative assignment (kafka-connect.md §5.5).

    `members` are all members of this generation, by id, with what they report as running. Returns
    the memory for the next rebalance, a share for every member, and the scheduled rebalance delay
    in ms (0: none). A member with revocations rejoins once its revoked work has stopped.
    """
    running = {member: members[member].running for member in sorted(members)}
    active: set[Item] = set()
    duplicated: set[Item] = set()
    for work in running.values():
        for item in _items(work):
            (duplicated if item in active else active).add(item)

    # The last assignment never reached the group when the generations differ.
    known = memory.generation == last_completed_generation
    previous: AbstractSet[Item] = memory.assigned if known else frozenset()
    if not memory.revoked.isdisjoint(active):
        previous = active  # the last revocation was ignored: start from what runs
    configured_items = frozenset(_items(configured))
    deleted = previous - configured_items
    lost = previous - active - deleted
    created = configured_items - previous - active

    stopping = deleted | duplicated
    revocations = {
        member: [item for item in _items(work) if item in stopping]
        for member, work in running.items()
    }
    loads = [_Load.of(member, work, stopping) for member, work in running.items()]

    memory, released = _handle_lost(memory, lost, loads, now_ms, max_delay_ms)
    memory, balancing = _balance(memory, configured, loads, now_ms, max_delay_ms)
    for load in loads:
        revocations[load.member] += _items(load.release(balancing.get(load.member, Work())))

    new = _sorted(created).plus(_sorted(released))
    by_connectors = sorted(loads, key=lambda load: (len(load.connectors), load.member))
    _level([load.connectors for load in by_connectors], new.connectors)
    by_tasks = sorted(loads, key=lambda load: (len(load.tasks), load.member))
    _level([load.tasks for load in by_tasks], new.tasks)

    revoked = frozenset(item for items in revocations.values() for item in items)
    assigned = frozenset(item for load in loads for item in _items(load.work()))
    memory = replace(
        memory,
        assigned=(assigned - revoked) | lost,
        revoked=revoked,
        generation=generation,
        members=frozenset(members),
    )
    shares = {
        load.member: MemberShare(
            load.work().minus(running[load.member]), _split(revocations[load.member])
        )
        for load in loads
    }
    return memory, shares, memory.delay_ms


def _handle_lost(
    memory: Memory, lost: AbstractSet[Item], loads: list[_Load], now_ms: int, max_delay_ms: int
) -> tuple[Memory, AbstractSet[Item]]:
    """Handles lost work, which no member reports any more (kafka-connect.md §5.5, "Lost handling").

    Returns the work to assign like new work. Assignments of returned members are added to `loads`.
    """
    nothing: AbstractSet[Item] = frozenset()
    at_rest = replace(memory, scheduled_ms=0, delay_ms=0, candidates=())
    if not lost and not memory.revoked_in_previous:
        return at_rest, nothing
    present = {load.member: load for load in loads}
    if memory.scheduled_ms <= 0 and memory.members <= present.keys():
        return memory, lost  # no member has left: one has missed the last assignment
    if max_delay_ms == 0:
        return memory, lost
    if 0 < memory.scheduled_ms <= now_ms:
        at_rest = replace(at_rest, revoked_in_previous=False)
        returned = [present[member] for member in memory.candidates if member in present]
        if not returned:
            return at_rest, lost
        work = _sorted(lost)
        for connector, load in zip(work.connectors, cycle(returned), strict=False):
            load.connectors.append(connector)
        for task, load in zip(work.tasks, cycle(returned), strict=False):
            load.tasks.append(task)
        return at_rest, nothing
    idle = [load.member for load in loads if not load.connectors and not load.tasks]
    waiting_ms = memory.scheduled_ms - now_ms
    delay_ms = min(waiting_ms, max_delay_ms) if waiting_ms > 0 else max_delay_ms
    memory = replace(
        memory,
        scheduled_ms=now_ms + delay_ms,
        delay_ms=delay_ms,
        candidates=tuple(dict.fromkeys((*memory.candidates, *idle))),
    )
    return memory, nothing


def _balance(
    memory: Memory, configured: Work, loads: list[_Load], now_ms: int, max_delay_ms: int
) -> tuple[Memory, Mapping[str, Work]]:
    """Balancing revocations, if this round may revoke (kafka-connect.md §5.5, step 6)."""
    if memory.delay_ms != 0:
        return replace(memory, revoked_in_previous=False), {}
    surplus = _surplus(configured, loads)
    if not surplus:
        if memory.revoked_in_previous:
            memory = replace(memory, revoked_in_previous=False, successive_revocations=0)
        return memory, {}
    if not memory.revoked_in_previous:
        return replace(memory, revoked_in_previous=True), surplus
    count = memory.successive_revocations + 1
    delay_ms = min(REVOCATION_BACKOFF_FACTOR ** min(count, 8), max_delay_ms)
    memory = replace(memory, successive_revocations=count)
    if delay_ms == 0:
        return memory, surplus
    return replace(memory, delay_ms=delay_ms, scheduled_ms=now_ms + delay_ms), {}


def _surplus(configured: Work, loads: list[_Load]) -> dict[str, Work]:
    """What members run beyond their fair share of connectors and tasks, the oldest first."""
    if not configured or not any(load.connectors or load.tasks for load in loads):
        return {}
    connectors = _beyond(len(configured.connectors), [load.connectors for load in loads])
    tasks = _beyond(len(configured.tasks), [load.tasks for load in loads])
    surplus = {
        load.member: Work(tuple(load.connectors[:c]), tuple(load.tasks[:t]))
        for load, c, t in zip(loads, connectors, tasks, strict=True)
    }
    return {member: work for member, work in surplus.items() if work}


def _beyond(total: int, held: Sequence[Sequence[Item]]) -> list[int]:
    """How many surplus items each member has, in the order of `held`."""
    floor, extras = divmod(total, len(held))
    counts = [len(items) for items in held]
    if counts.count(floor + 1) == extras and counts.count(floor) == len(counts) - extras:
        return [0] * len(counts)
    beyond = []
    for count in counts:
        keep = floor
        if count > floor and extras > 0:
            keep += 1
            extras -= 1
        beyond.append(max(count - keep, 0))
    return beyond


T = TypeVar("T")


def _level(lists: Sequence[list[T]], items: Iterable[T]) -> None:
    """Appends the items to the shortest lists until they are level with the next, and so on.

    `lists` must be sorted by length; each pass gives one item to all lists of the lowest level.
    """
    remaining = deque(items)
    up_to = 0
    while remaining:
        level = len(lists[0])
        while up_to < len(lists) and len(lists[up_to]) <= level:
            up_to += 1
        for items_of_one in lists[:up_to]:
            if not remaining:
                break
            items_of_one.append(remaining.popleft())


def _items(work: Work) -> tuple[Item, ...]:
    return (*work.connectors, *work.tasks)


def _split(items: Iterable[Item]) -> Work:
    """These items in their order, each once."""
    distinct = dict.fromkeys(items)
    return Work(
        tuple(item for item in distinct if isinstance(item, str)),
        tuple(item for item in distinct if isinstance(item, TaskId)),
    )


def _sorted(items: AbstractSet[Item]) -> Work:
    work = _split(items)
    return Work(tuple(sorted(work.connectors)), tuple(sorted(work.tasks, key=_task_order)))


def _task_order(task: TaskId) -> tuple[str, int]:
    return task.connector, task.number


@dataclass(slots=True)
class _Load:
    """What a member runs after this rebalance, while it is being decided."""

    member: str
    connectors: list[str] = field(default_factory=list)
    tasks: list[TaskId] = field(default_factory=list)

    @classmethod
    def of(cls, member: str, running: Work, without: AbstractSet[Item]) -> _Load:
        return cls(
            member,
            [c for c in running.connectors if c not in without],
            [t for t in running.tasks if t not in without],
        )

    def work(self) -> Work:
        return Work(tuple(self.connectors), tuple(self.tasks))

    def release(self, surplus: Work) -> Work:
        """Removes the surplus from the start of the lists, and returns it."""
        del self.connectors[: len(surplus.connectors)]
        del self.tasks[: len(surplus.tasks)]
        return surplus

"""Laws of assignment, over groups whose members and configuration change between rebalances."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.assign import (
    Item,
    MemberShare,
    Memory,
    assign_cooperative,
    assign_eager,
)
from penstock.cluster.protocol import NO_WORK, Assignment, MemberMetadata, Work
from penstock.ids import TaskId

configurations = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 6), max_size=6)
member_sets = st.frozensets(st.sampled_from(["m1", "m2", "m3", "m4", "m5"]), min_size=1)
delays = st.sampled_from([0, 1_000, 300_000])


@dataclass(frozen=True)
class Step:
    """The group before a rebalance, and the time since the last one."""

    configuration: dict[str, int]
    members: frozenset[str]
    wait_ms: int


steps = st.lists(
    st.builds(Step, configurations, member_sets, st.integers(0, 400_000)), min_size=1, max_size=8
)


def items(work: Work) -> list[Item]:
    return [*work.connectors, *work.tasks]


def configured(configuration: dict[str, int]) -> Work:
    connectors = tuple(sorted(configuration))
    return Work(
        connectors, tuple(TaskId(c, n) for c in connectors for n in range(configuration[c]))
    )


@dataclass
class Group:
    """Obedient members and a leader; a member that leaves rejoins without an assignment."""

    max_delay_ms: int
    memory: Memory = field(default_factory=Memory)
    members: dict[str, Work] = field(default_factory=dict)
    wanted: Work = NO_WORK
    generation: int = 0
    now_ms: int = 1_000_000

    def change(self, step: Step) -> None:
        self.now_ms += step.wait_ms
        self.wanted = configured(step.configuration)
        self.members = {name: self.members.get(name, NO_WORK) for name in sorted(step.members)}

    def round(self) -> tuple[dict[str, MemberShare], int]:
        running = Counter(item for work in self.members.values() for item in items(work))
        self.memory, shares, delay_ms = assign_cooperative(
            self.memory,
            {
                name: MemberMetadata("u", 1, Assignment("m1", "u", 1, work))
                for name, work in self.members.items()
            },
            self.wanted,
            last_completed_generation=self.generation or -1,
            generation=self.generation + 1,
            now_ms=self.now_ms,
            max_delay_ms=self.max_delay_ms,
        )
        self.generation += 1
        given_out = Counter(item for share in shares.values() for item in items(share.additions))
        assert all(count == 1 for count in given_out.values())
        assert not given_out.keys() & running.keys()  # nothing is assigned before it is revoked
        assert given_out.keys() <= set(items(self.wanted))
        assert 0 <= delay_ms <= self.max_delay_ms
        for name, share in shares.items():
            self.members[name] = self.members[name].minus(share.revocations).plus(share.additions)
        return shares, delay_ms

    def settle(self) -> None:
        """Rebalances as workers request them: after revocations, and when a delay ends."""
        for _ in range(30):
            shares, delay_ms = self.round()
            if delay_ms:
                self.now_ms += delay_ms
            elif not any(share.revocations for share in shares.values()):
                return
        raise AssertionError("the group does not come to rest")


@given(steps, delays)
def test_nothing_ever_has_two_owners(history: list[Step], max_delay_ms: int) -> None:
    group = Group(max_delay_ms)
    for step in history:
        group.change(step)
        group.round()
        owners = Counter(item for work in group.members.values() for item in items(work))
        assert all(count == 1 for count in owners.values())


@given(steps, delays)
def test_a_settled_group_runs_all_that_is_configured_in_balance(
    history: list[Step], max_delay_ms: int
) -> None:
    group = Group(max_delay_ms)
    for step in history:
        group.change(step)
        group.round()
    group.settle()
    running = [item for work in group.members.values() for item in items(work)]
    assert sorted(map(str, running)) == sorted(map(str, items(group.wanted)))
    for counts in (
        [len(work.connectors) for work in group.members.values()],
        [len(work.tasks) for work in group.members.values()],
    ):
        assert max(counts) - min(counts) <= 1


@given(steps, delays)
def test_assigning_again_moves_nothing(history: list[Step], max_delay_ms: int) -> None:
    group = Group(max_delay_ms)
    for step in history:
        group.change(step)
        group.round()
    group.settle()
    shares, delay_ms = group.round()
    assert delay_ms == 0
    assert set(shares.values()) == {MemberShare()}


@given(configurations, st.integers(2, 5), st.integers(1, 300_000))
def test_lost_work_stays_unassigned_exactly_until_the_delay_ends(
    configuration: dict[str, int], count: int, max_delay_ms: int
) -> None:
    group = Group(max_delay_ms)
    everyone = frozenset(f"m{n}" for n in range(count))
    group.change(Step(configuration, everyone, 0))
    group.settle()
    lost = group.members["m0"]
    group.change(Step(configuration, everyone - {"m0"}, 0))
    shares, delay_ms = group.round()
    assert set(shares.values()) == {MemberShare()}
    assert delay_ms == (max_delay_ms if lost else 0)
    if lost:
        group.now_ms += max_delay_ms - 1
        shares, delay_ms = group.round()
        assert set(shares.values()) == {MemberShare()}
        assert delay_ms == 1
        group.now_ms += 1
        group.round()
        running = {item for work in group.members.values() for item in items(work)}
        assert running == set(items(group.wanted))


@given(configurations, member_sets)
def test_eager_gives_everything_to_one_member_each_in_balance(
    configuration: dict[str, int], members: frozenset[str]
) -> None:
    wanted = configured(configuration)
    shares = assign_eager(members, wanted)
    assert shares.keys() == members
    given_out = [item for work in shares.values() for item in items(work)]
    assert sorted(map(str, given_out)) == sorted(map(str, items(wanted)))
    sizes = [len(work) for work in shares.values()]
    assert max(sizes) - min(sizes) <= 1

"""Who runs what, round by round (kafka-connect.md §5.4, §5.5, KIP-415)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import pytest

from penstock.cluster.assign import (
    MemberShare,
    Memory,
    assign_cooperative,
    assign_eager,
    configured_work,
)
from penstock.cluster.protocol import Assignment, MemberMetadata, Work
from penstock.cluster.records import ConnectorConfig, TaskCommit, TaskConfig
from penstock.cluster.state import ClusterState, fold_all
from penstock.ids import TaskId

DELAY_MS = 300_000


def work(**tasks: int) -> Work:
    return Work(tuple(tasks), tuple(TaskId(c, n) for c in tasks for n in range(tasks[c])))


def member(running: Work) -> MemberMetadata:
    return MemberMetadata("u", 1, Assignment("m1", "u", 1, running) if running else None)


@dataclass
class Group:
    """Members that obey assignments at once, and their leader's memory."""

    configured: Work
    members: dict[str, Work]
    memory: Memory = field(default_factory=Memory)
    generation: int = 0
    now_ms: int = 1_000_000
    max_delay_ms: int = DELAY_MS

    def round(self) -> tuple[dict[str, MemberShare], int]:
        self.memory, shares, delay_ms = assign_cooperative(
            self.memory,
            {name: member(running) for name, running in self.members.items()},
            self.configured,
            last_completed_generation=self.generation if self.generation else -1,
            generation=self.generation + 1,
            now_ms=self.now_ms,
            max_delay_ms=self.max_delay_ms,
        )
        self.generation += 1
        for name, share in shares.items():
            running = self.members[name].minus(share.revocations)
            self.members[name] = running.plus(share.additions)
        return shares, delay_ms

    def counts(self) -> list[tuple[int, int]]:
        return [(len(w.connectors), len(w.tasks)) for _, w in sorted(self.members.items())]


def test_eager_deals_connectors_then_tasks_going_on_around_the_circle() -> None:
    shares = assign_eager(["m2", "m1"], work(b=2, a=1, c=0))
    assert shares == {
        "m1": Work(("a", "c"), (TaskId("b", 0),)),
        "m2": Work(("b",), (TaskId("a", 0), TaskId("b", 1))),
    }


def test_eager_orders_tasks_by_number_and_gives_idle_members_nothing() -> None:
    shares = assign_eager(["m1", "m2", "m3"], Work((), (TaskId("a", 10), TaskId("a", 9))))
    assert shares == {
        "m1": Work((), (TaskId("a", 9),)),
        "m2": Work((), (TaskId("a", 10),)),
        "m3": Work(),
    }


def test_all_that_is_configured_is_sorted_and_inconsistent_connectors_have_no_tasks() -> None:
    records = [
        ConnectorConfig("b", {}),
        TaskConfig(TaskId("b", 0), {}),
        TaskCommit("b", 1),
        ConnectorConfig("a", {}),
        TaskCommit("a", 2),
    ]
    state, _ = fold_all(ClusterState(), enumerate(records))
    assert configured_work(state) == Work(("a", "b"), (TaskId("b", 0),))


def test_a_first_round_spreads_everything_level_by_level() -> None:
    group = Group(work(a=3, b=2), {"m2": Work(), "m1": Work()})
    shares, delay_ms = group.round()
    assert delay_ms == 0
    assert shares["m1"].additions == Work(("a",), (TaskId("a", 0), TaskId("a", 2), TaskId("b", 1)))
    assert shares["m2"].additions == Work(("b",), (TaskId("a", 1), TaskId("b", 0)))


def test_a_newcomer_gets_its_share_in_the_second_round() -> None:
    group = Group(work(a=4, b=4), {"m1": Work()})
    group.round()
    group.members["m2"] = Work()
    shares, _ = group.round()
    assert shares["m1"].revocations == Work(("a",), tuple(TaskId("a", n) for n in range(4)))
    assert shares["m2"] == MemberShare()
    shares, _ = group.round()
    assert shares["m2"].additions == Work(("a",), tuple(TaskId("a", n) for n in range(4)))
    assert group.counts() == [(1, 4), (1, 4)]


def test_work_of_a_departed_member_waits_for_the_delay() -> None:
    group = Group(work(a=4), {"m1": Work(), "m2": Work()})
    group.round()
    del group.members["m2"]
    shares, delay_ms = group.round()
    assert (shares["m1"], delay_ms) == (MemberShare(), DELAY_MS)
    group.now_ms += 100_000
    _, delay_ms = group.round()
    assert delay_ms == 200_000
    group.now_ms += 200_000
    _, delay_ms = group.round()
    assert delay_ms == 0
    assert group.counts() == [(1, 4)]


def test_a_member_that_returns_empty_in_time_gets_the_work_when_the_delay_ends() -> None:
    group = Group(work(a=4, b=4), {"m1": Work(), "m2": Work()})
    group.round()
    before = group.members.pop("m2")
    group.round()
    group.now_ms += 1_000
    group.members["m2-again"] = Work()
    _, delay_ms = group.round()
    assert delay_ms == DELAY_MS - 1_000
    group.now_ms += delay_ms
    shares, _ = group.round()
    assert shares["m2-again"].additions == before
    assert shares["m1"] == MemberShare()


def test_a_member_that_returns_with_its_work_keeps_it() -> None:
    group = Group(work(a=4, b=4), {"m1": Work(), "m2": Work()})
    group.round()
    before = dict(group.members)
    running = group.members.pop("m2")
    group.round()
    group.members["m2"] = running
    _, delay_ms = group.round()
    assert delay_ms == 0
    assert group.members == before


def test_without_a_delay_lost_work_moves_at_once() -> None:
    group = Group(work(a=4), {"m1": Work(), "m2": Work()}, max_delay_ms=0)
    group.round()
    del group.members["m2"]
    _, delay_ms = group.round()
    assert delay_ms == 0
    assert group.counts() == [(1, 4)]


def test_an_assignment_that_a_present_member_missed_is_given_out_again() -> None:
    group = Group(work(a=4), {"m1": Work(), "m2": Work()})
    group.round()
    group.members["m2"] = Work()
    _, delay_ms = group.round()
    assert delay_ms == 0
    assert group.counts() == [(1, 2), (0, 2)]


def test_deleted_work_is_revoked_where_it_runs() -> None:
    group = Group(work(a=1, b=1), {"m1": Work()})
    group.round()
    group.configured = work(b=1)
    shares, _ = group.round()
    assert shares == {"m1": MemberShare(revocations=work(a=1))}


def test_duplicated_work_is_revoked_everywhere_and_given_out_again() -> None:
    group = Group(work(a=2), {"m1": work(a=2), "m2": Work((), (TaskId("a", 1),))})
    shares, _ = group.round()
    assert shares["m1"].revocations == shares["m2"].revocations == Work((), (TaskId("a", 1),))
    group.round()
    assert sorted(t for w in group.members.values() for t in w.tasks) == list(work(a=2).tasks)


def test_a_new_leader_keeps_what_runs_and_hands_out_the_rest_at_once() -> None:
    group = Group(work(a=4), {"m1": Work(("a",), (TaskId("a", 0), TaskId("a", 1)))})
    shares, delay_ms = group.round()
    assert delay_ms == 0
    assert shares["m1"].additions == Work((), (TaskId("a", 2), TaskId("a", 3)))
    assert not shares["m1"].revocations


def test_a_leader_whose_last_round_was_not_completed_forgets_it() -> None:
    group = Group(work(a=4), {"m1": Work(), "m2": Work()})
    group.round()
    del group.members["m2"]
    group.generation += 1
    _, delay_ms = group.round()
    assert delay_ms == 0
    assert group.counts() == [(1, 4)]


def test_revoking_rounds_in_a_row_wait_longer_and_longer() -> None:
    group = Group(work(a=60), {"m1": Work()})
    group.round()
    delays = []
    for count in range(2, 6):
        group.members[f"m{count}"] = Work()
        shares, delay_ms = group.round()
        delays.append(delay_ms)
        if delay_ms:
            assert not any(share.revocations for share in shares.values())
            group.now_ms += delay_ms
            group.round()
    assert delays == [0, 40, 1_600, 64_000]


def scenarios() -> Iterator[list[str]]:
    """The captured rounds, one list of lines for each leader."""
    lines: list[str] = []
    path = Path(__file__).with_name("cooperative_rounds.txt")
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("N ") and lines:
            yield lines
            lines = []
        if not line.startswith("#"):
            lines.append(line)
    yield lines


def parse(items: list[str]) -> Work:
    connectors = tuple(item[2:] for item in items if item.startswith("c:"))
    tasks = [item[2:].rpartition("-") for item in items if item.startswith("t:")]
    return Work(connectors, tuple(TaskId(c, int(number)) for c, _, number in tasks))


def in_order(of: Work) -> Work:
    return Work(tuple(sorted(of.connectors)), tuple(sorted(of.tasks)))


@pytest.mark.parametrize("lines", list(scenarios()))
def test_every_round_is_decided_like_the_jvm_leader_decides_it(lines: list[str]) -> None:
    max_delay_ms, memory = 0, Memory()
    generation, last, now_ms = 0, 0, 0
    connectors: dict[str, int] = {}
    members: dict[str, Work] = {}
    shares: dict[str, MemberShare] = {}
    for line in lines:
        kind, first, *rest = line.split()
        if kind == "N":
            max_delay_ms = int(first)
        elif kind == "R":
            generation, last, now_ms = int(first), int(rest[0]), int(rest[1])
            connectors, members = {}, {}
        elif kind == "C":
            connectors[first] = int(rest[0])
        elif kind == "M":
            members[first] = parse(rest)
        elif kind == "D":
            memory, shares, delay_ms = assign_cooperative(
                memory,
                {name: member(running) for name, running in members.items()},
                work(**connectors),
                last_completed_generation=last,
                generation=generation,
                now_ms=now_ms,
                max_delay_ms=max_delay_ms,
            )
            assert delay_ms == int(first)
        else:
            revoked_from = rest.index("-")
            additions, revocations = parse(rest[1:revoked_from]), parse(rest[revoked_from + 1 :])
            assert in_order(shares[first].additions) == additions
            assert in_order(shares[first].revocations) == revocations


def test_a_round_over_ten_thousand_tasks_takes_well_under_a_second() -> None:
    group = Group(work(**{f"c{n}": 10 for n in range(1_000)}), {f"m{n}": Work() for n in range(50)})
    group.round()
    group.members["new"] = Work()
    started = perf_counter()
    group.round()
    assert perf_counter() - started < 1

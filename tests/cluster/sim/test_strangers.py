"""A cluster whose group or topics are also used by outsiders.

Workers of another cluster with the same `group.id`, programs that join a group of type `connect`
with their own bytes, records that should never have been written: none of it ends a worker, running
tasks continue, and everything is as configured once the stranger is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from penstock.cluster import events as e
from penstock.cluster.protocol import (
    Assignment,
    MemberMetadata,
    Work,
    encode_assignment,
    encode_metadata,
)
from penstock.cluster.records import SessionKey, TaskConfig, encode_config
from penstock.ids import TaskId
from tests.cluster.simulated import Sim
from tests.cluster.simulated.connectors import config

URL = "http://stranger:8083/"
HEARTBEAT_MS = 1_000
AGAIN_MS = 300


class Stranger:
    """A member that is not our worker: sends its own metadata and, as leader, its own shares.

    It never requests a rebalance, so all rebalances are the cluster's own.
    """

    def __init__(
        self, sim: Sim, metadata: bytes, shares: Callable[[str], bytes] = lambda member: b""
    ) -> None:
        self._sim = sim
        self._metadata = metadata
        self._shares = shares
        self._member = ""
        self._generation = -1
        self._gone = False
        self.rounds = 0  # in which it took part
        self.led = 0
        self._join()
        self._beat()

    def leave(self) -> None:
        self._gone = True
        self._sim.coordinator.leave(self._member, self._sim.now)

    def _join(self) -> None:
        if not self._gone:
            self._sim.coordinator.join(self, self._member, self._metadata, self._sim.now)

    def _beat(self) -> None:
        if self._gone:
            return
        if self._member:
            self._sim.coordinator.heartbeat(self, self._member, self._generation, self._sim.now)
        self._sim.at(HEARTBEAT_MS, self._beat)

    # The coordinator's responses.

    def unknown_member(self) -> None:
        self._member = ""
        self._sim.at(AGAIN_MS, self._join)

    def round_is_over(self) -> None:
        self._sim.at(1, self._join)

    def joined(
        self, member: str, generation: int, leader: str, members: Mapping[str, bytes]
    ) -> None:
        self._member, self._generation = member, generation
        self.rounds += 1
        self.led += member == leader
        shares = {name: self._shares(name) for name in members} if member == leader else {}
        coordinator = self._sim.coordinator
        self._sim.at(5, lambda: coordinator.sync(self, member, generation, shares, self._sim.now))

    def synced(self, generation: int, data: bytes) -> None:
        pass

    def expelled(self, member: str) -> None:
        pass


def cluster(workers: int, connectors: int = 3) -> Sim:
    sim = Sim(0)
    for number in range(1, workers + 1):
        sim.start(f"w{number}")
    for number in range(1, connectors + 1):
        sim.request("w1", e.PutConfig(f"c{number}", config(f"c{number}", 3)))
    sim.run_until(sim.balanced)
    return sim


def running(sim: Sim) -> dict[TaskId, int]:
    """Every running task, and the number of its start."""
    return {task: live.run for w in sim.workers.values() for task, live in w.live.items()}


def allocation(*work: str | TaskId, url: str = URL, offset: int = 5) -> bytes:
    connectors = tuple(item for item in work if isinstance(item, str))
    tasks = tuple(item for item in work if isinstance(item, TaskId))
    held = Assignment("m9", url, offset, Work(connectors, tasks))
    return encode_metadata(MemberMetadata(url, offset, held), 2)


MALFORMED = {
    "nothing": b"",
    "one byte": b"\x00",
    "text": b"consumer of the same name",
    "a negative version": b"\xff\xff\x00\x00",
    "cut off in the url": encode_metadata(MemberMetadata(URL, 5), 2)[:9],
    "cut off in the offset": encode_metadata(MemberMetadata(URL, 5), 2)[:-7],
    "a url that is not a string": b"\x00\x02\x00\x01\xff" + bytes(12),
    "an allocation of garbage": encode_metadata(MemberMetadata(URL, 5), 2)[:-4] + b"\0\0\0\2ab",
    "an allocation cut off": allocation("c1")[:-3],
}
FOREIGN = {
    "behind": encode_metadata(MemberMetadata(URL, 1), 2),
    "before the beginning": encode_metadata(MemberMetadata(URL, -(2**63)), 2),
    "of a later version": b"\x00\x09" + encode_metadata(MemberMetadata(URL, 1), 2)[2:] + b"more",
    "of an older version": encode_metadata(MemberMetadata(URL, 1), 0),
    "without a url": encode_metadata(MemberMetadata("", 1), 2),
    "with another cluster's work": allocation("theirs", TaskId("theirs", 0), TaskId("x", 7)),
    "with impossible tasks": allocation(TaskId("c1", -7), TaskId("c1", 2**31 - 1), TaskId("", 0)),
    "with the same work twice": allocation("theirs", "theirs", TaskId("x", 1), TaskId("x", 1)),
}


@pytest.mark.parametrize("metadata", MALFORMED.values(), ids=MALFORMED)
def test_malformed_member_metadata_stops_neither_the_leader_nor_running_tasks(
    metadata: bytes,
) -> None:
    sim = cluster(3)
    before = running(sim)
    stranger = Stranger(sim, metadata)
    sim.advance(60_000)
    assert set(sim.workers) == {"w1", "w2", "w3"}
    assert running(sim) == before
    assert 0 < stranger.rounds < 600  # retried, but not in a busy loop
    stranger.leave()
    sim.run_until(sim.balanced, 60_000)
    assert running(sim) == before


@pytest.mark.parametrize("metadata", FOREIGN.values(), ids=FOREIGN)
def test_a_follower_of_another_kind_does_not_keep_the_cluster_from_its_rounds(
    metadata: bytes,
) -> None:
    sim = cluster(3)
    stranger = Stranger(sim, metadata)
    sim.advance(60_000)
    assert set(sim.workers) == {"w1", "w2", "w3"}
    assert stranger.rounds > 0
    request = sim.request("w2", e.DeleteConnector("c3"))
    sim.run_until(lambda: request.result == e.Done(), 60_000)
    sim.advance(1_000)
    assert TaskId("c3", 0) not in running(sim)
    stranger.leave()
    sim.run_until(sim.balanced, 120_000)


@pytest.mark.parametrize("offset", [1_000_000, 2**63 - 1])
def test_a_follower_that_has_read_another_topic_keeps_work_from_moving_but_not_from_running(
    offset: int,
) -> None:
    # kafka-connect.md §5.3: no member starts work at a config offset that others have not read, and
    # here they never do. Java workers keep rejoining too, until the stranger is gone.
    sim = cluster(3)
    before = running(sim)
    stranger = Stranger(sim, encode_metadata(MemberMetadata(URL, offset), 2))
    sim.advance(30_000)
    assert set(sim.workers) == {"w1", "w2", "w3"}
    assert stranger.rounds > 1
    assert running(sim) == before
    stranger.leave()
    sim.run_until(sim.balanced, 120_000)
    assert running(sim) == before


def test_a_follower_that_says_it_runs_our_work_does_not_make_it_run_twice() -> None:
    # As it seems to run in two places, the leader revokes it in both; it cannot make a stranger
    # obey. `Broken` is raised if a second worker of ours starts it.
    sim = cluster(3)
    stranger = Stranger(sim, allocation("c1", TaskId("c1", 0), offset=sim.configs.offset))
    sim.advance(60_000)
    assert stranger.rounds > 0
    stranger.leave()
    sim.run_until(sim.balanced, 120_000)
    assert len(running(sim)) == 9


THEIRS = Assignment("m1", URL, 0, Work(("theirs",), (TaskId("theirs", 0),)))
SHARES = {
    "another cluster's work": encode_assignment(THEIRS, 2),
    "work at another offset": encode_assignment(Assignment("m1", URL, 10**9, THEIRS.work), 2),
    "an older version": encode_assignment(THEIRS, 0),
    "an error that nobody knows": encode_assignment(Assignment("m1", URL, 0, error=77), 2),
    "revocations of what nobody has": encode_assignment(
        Assignment("m1", URL, 0, revoked=THEIRS.work), 2
    ),
    "impossible tasks": encode_assignment(
        Assignment("m1", URL, 0, Work(("c1",), (TaskId("c1", -9), TaskId("c1", 2**31 - 1)))), 2
    ),
    "no leader and no url": encode_assignment(Assignment("", "", 0, THEIRS.work), 2),
    "a delay of weeks": encode_assignment(Assignment("m1", URL, 0, delay_ms=2**31 - 1), 2),
}
MALFORMED_SHARES = {
    "nothing": b"",
    "garbage": b"\xff\xfe garbage",
    "cut off": encode_assignment(THEIRS, 2)[:-13],
    "more than there is": encode_assignment(THEIRS, 2)[:-20] + b"\x7f\xff\xff\xff",
}


def led_by_a_stranger(data: bytes) -> tuple[Sim, Stranger]:
    """Two workers that join a group already led by a stranger."""
    sim = Sim(0)
    stranger = Stranger(sim, encode_metadata(MemberMetadata(URL, 0), 2), lambda member: data)
    sim.advance(1_000)
    for name in ("w1", "w2"):
        sim.start(name)
    sim.advance(60_000)
    assert stranger.led > 0
    return sim, stranger


def is_alright_once_alone(sim: Sim, stranger: Stranger) -> None:
    assert set(sim.workers) == {"w1", "w2"}
    assert running(sim) == {}
    stranger.leave()
    request = sim.request("w1", e.PutConfig("c1", config("c1", 3)))
    sim.run_until(sim.balanced, 120_000)
    assert request.result == e.Done(created=True)
    assert len(running(sim)) == 3


@pytest.mark.parametrize("data", SHARES.values(), ids=SHARES)
def test_a_strangers_shares_start_nothing(data: bytes) -> None:
    is_alright_once_alone(*led_by_a_stranger(data))


@pytest.mark.parametrize("data", MALFORMED_SHARES.values(), ids=MALFORMED_SHARES)
def test_shares_that_nobody_can_read_are_asked_for_again(data: bytes) -> None:
    sim, stranger = led_by_a_stranger(data)
    assert 1 < stranger.led < 600
    is_alright_once_alone(sim, stranger)


def test_foreign_records_in_the_internal_topics_stop_no_worker() -> None:
    sim = cluster(3)
    before = running(sim)
    sim.write_config(
        (b"garbage", b"\xff\xff"),
        (None, b"{}"),
        (b"connector-\xff", b'{"properties":{}}'),
        (b"connector-c1", b"not json"),
        (b"connector-c1", b'{"properties":7}'),
        (b"commit-c1", b'{"tasks":-3}'),
        (b"commit-unknown", b'{"tasks":3}'),
        (b"task-c1-99999999999", b'{"properties":{}}'),
        (b"session-key", b'{"key":"%%%","algorithm":"HmacSHA256","creation-timestamp":1}'),
        (b"session-key", b'{"key":7}'),
    )
    sim.write_status(
        (b"status-task-c1-0", b'{"state":"DANCING","worker_id":"x","generation":99}'),
        (b"status-task-c1-0", b"\x00"),
        (None, None),
        (b"status-connector-nobody", b'{"state":"RUNNING","worker_id":"x","generation":99}'),
        (b"status-task-nobody-2147483647", b'{"state":"FAILED","worker_id":"x","generation":9}'),
    )
    sim.start("w4")  # which reads all of it at its start
    sim.run_until(sim.balanced, 120_000)
    assert set(running(sim)) == set(before)
    assert "nobody" not in sim.shown().names()


def test_every_worker_reports_a_skipped_record_once() -> None:
    sim = cluster(2, connectors=1)
    sim.write_config((b"garbage", b"{}"), (b"connector-c1", b"not json"), (None, None))
    sim.write_status((b"status-task-c1-0", b"7"))
    sim.start("w3")
    sim.run_until(sim.balanced)
    for worker in sim.workers.values():
        assert sorted(reason[:18] for reason in worker.skipped) == [
            "the record has no ",
            "the value is int, ",
            "the value is not J",
            "unknown key 'garba",
        ]


def test_a_forged_status_is_corrected_by_the_owner() -> None:
    sim = cluster(2, connectors=1)
    sim.write_status(
        (b"status-task-c1-0", b'{"state":"FAILED","worker_id":"nobody:1","generation":0}'),
        (b"status-task-c1-1", None),
        (b"status-connector-c1", b'{"state":"PAUSED","worker_id":"nobody:1","generation":0}'),
    )
    sim.run_until(sim.balanced, 60_000)


def test_a_session_key_of_another_algorithm_is_replaced_by_the_leader() -> None:
    sim = cluster(2, connectors=1)
    foreign = SessionKey(b"k", "HmacSHA1", sim.now)
    sim.write_config(encode_config(foreign))
    sim.run_until(sim.balanced, 60_000)
    key = sim.cluster().session_key
    assert key is not None
    assert key.algorithm == "HmacSHA256"


def test_a_commit_that_nobody_can_fulfil_takes_the_tasks_away_until_the_connector_restarts() -> (
    None
):
    sim = cluster(2, connectors=2)
    sim.write_config((b"commit-c1", b'{"tasks":2000000000}'))
    sim.advance(60_000)
    assert set(running(sim)) == {TaskId("c2", number) for number in range(3)}
    assert sim.ask("w2", e.RestartConnector("c1")) == e.Done()
    sim.run_until(sim.balanced, 60_000)
    assert len(running(sim)) == 6


def test_half_a_task_set_that_somebody_left_is_replaced_when_the_connector_restarts() -> None:
    sim = cluster(2, connectors=1)
    sim.write_config(encode_config(TaskConfig(TaskId("c1", 7), {"task": "7"})))
    assert sim.ask("w2", e.RestartConnector("c1")) == e.Done()
    sim.run_until(sim.balanced, 60_000)
    assert len(running(sim)) == 3


def test_a_connector_whose_name_no_assignment_can_hold_stops_nobody() -> None:
    sim = cluster(2, connectors=1)
    name = "x" * 32_768
    sim.write_config((f"connector-{name}".encode(), b'{"properties":{}}'))
    sim.run_until(sim.balanced, 60_000)
    assert not sim.cluster().contains(name)
    assert len(running(sim)) == 3

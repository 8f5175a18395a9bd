"""Membership in a real group of type `connect`."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from penstock.kafka import admin
from penstock.kafka.broker import BRIEF, Broker
from penstock.kafka.group import Callbacks, WorkerGroup
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

# kafka-python leaves the sockets of failed attempts to connect to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collects a test's leftovers before others are blamed for them. Logging is off: pytest keeps
    log records, and their errors refer to those sockets."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    gc.collect()


@dataclass
class Member:
    """One member; its name identifies what it offers and assigns."""

    name: str
    bootstrap: str
    group_id: str
    rounds: list[tuple[int, str, str, bytes]] = field(default_factory=list)
    led: list[Mapping[str, bytes]] = field(default_factory=list)
    lost: SimpleQueue[float] = field(default_factory=SimpleQueue)
    group: Any = None

    def join(self) -> None:
        if self.group is None:
            self.group = WorkerGroup(
                {"bootstrap_servers": [self.bootstrap]},
                group_id=self.group_id,
                client_id=self.name,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=500,
                rebalance_timeout_ms=10_000,
                callbacks=Callbacks(
                    offers=self._offers,
                    perform_assignment=self._perform_assignment,
                    joined=lambda *round: self.rounds.append(round),
                    lost=self.lost.put,
                ),
            )
        self.group.join()

    def leave(self) -> None:
        if self.group is not None:
            self.group.leave(10)

    @property
    def heard(self) -> float:
        """When the coordinator last answered a heartbeat."""
        return float(self.group._coordinator.heartbeat.last_receive)

    @property
    def assignment(self) -> bytes:
        return self.rounds[-1][3] if self.rounds else b""

    def _offers(self) -> Sequence[tuple[str, bytes]]:
        return [("sessioned", b"new " + self.name.encode()), ("compatible", b"old")]

    def _perform_assignment(
        self, leader: str, protocol: str, generation: int, members: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        self.led.append(members)
        return {
            member: b"%d:%s for %s" % (generation, protocol.encode(), metadata)
            for member, metadata in members.items()
        }


@pytest.fixture
def members(broker: Broker, unique: Callable[[str], str]) -> Iterator[list[Member]]:
    """Two members of one group that have not joined yet."""
    group_id = unique("workers")
    pair = [Member(name, broker.bootstrap, group_id) for name in ("one", "two")]
    yield pair
    for member in pair:
        member.leave()


def both_in_one_round(members: list[Member]) -> bool:
    one, two = members
    return bool(one.rounds and two.rounds and one.rounds[-1][0] == two.rounds[-1][0])


def test_the_leader_shares_out_by_the_preferred_protocol(members: list[Member]) -> None:
    one, two = members
    one.join()
    wait_until(lambda: one.rounds, 30, "the first to be alone in the group")
    generation, member, protocol, data = one.rounds[0]
    assert (protocol, data) == ("sessioned", b"%d:sessioned for new one" % generation)
    assert one.led == [{member: b"new one"}]

    two.join()
    wait_until(lambda: both_in_one_round(members), 30, "both to be in one round")
    generation = one.rounds[-1][0]
    assert one.assignment == b"%d:sessioned for new one" % generation
    assert two.assignment == b"%d:sessioned for new two" % generation
    leader = next(member for member in members if member.led and len(member.led[-1]) == 2)
    assert sorted(leader.led[-1].values()) == [b"new one", b"new two"]


def test_kafka_knows_the_group_as_one_of_type_connect(
    members: list[Member], topics: Topics
) -> None:
    for member in members:
        member.join()
    wait_until(lambda: both_in_one_round(members), 30, "both to be in one round")
    admin = KafkaAdminClient(bootstrap_servers=topics.bootstrap)  # librdkafka knows consumers only
    try:
        types = {group["group_id"]: group["protocol_type"] for group in admin.list_groups()}
    finally:
        admin.close()
    assert types[members[0].group_id] == "connect"


def test_the_others_rebalance_when_one_leaves(members: list[Member]) -> None:
    one, two = members
    one.join()
    two.join()
    wait_until(lambda: both_in_one_round(members), 30, "both to be in one round")
    before = two.rounds[-1][0]
    one.leave()
    wait_until(lambda: two.rounds[-1][0] > before, 30, "a round without the one that left")
    assert len(two.led[-1]) == 1


def test_joining_again_makes_a_new_round(members: list[Member]) -> None:
    one, _ = members
    one.join()
    wait_until(lambda: one.rounds, 30, "the first round")
    one.join()
    wait_until(lambda: len(one.rounds) == 2, 30, "the second round")
    assert one.rounds[1][0] > one.rounds[0][0]
    assert one.rounds[1][1] == one.rounds[0][1], "it is the same member"


def test_a_coordinator_that_goes_away_is_reported_and_found_again(
    tmp_path_factory: pytest.TempPathFactory, unique: Callable[[str], str]
) -> None:
    # A restart is faster if the old session expires sooner.
    quick = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
    with Broker(tmp_path_factory.mktemp("own-broker"), settings=quick, java_options=[BRIEF]) as own:
        member = Member("one", own.bootstrap, unique("workers"))
        try:
            member.join()
            wait_until(lambda: member.rounds, 30, "the first round")
            wait_until(lambda: member.heard > 0, 30, "a heartbeat")
            own.stop()
            gone_at = time.monotonic()
            session_end = member.lost.get(timeout=30)
            # Not after the coordinator removes it, and not before it could have known better.
            assert member.heard < session_end < gone_at + 6.0
            rounds = len(member.rounds)
            own.start()
            wait_until(lambda: len(member.rounds) > rounds, 60, "a round after the loss")
        finally:
            member.leave()


def test_metrics_of_the_members_client_are_reported(members: list[Member]) -> None:
    one = members[0]
    one.join()
    wait_until(lambda: one.rounds, 30, "the first round")

    def figures() -> dict[tuple[str, str], float]:
        return {(each.group, each.name): each.value for each in one.group.figures()}

    wait_until(
        lambda: figures()["connect-coordinator-metrics", "heartbeat-rate"] > 0, 30, "a heartbeat"
    )
    found = figures()
    assert found["connect-coordinator-metrics", "join-rate"] > 0
    assert found["connect-coordinator-metrics", "last-heartbeat-seconds-ago"] < 60
    assert found["connect-metrics", "connection-count"] >= 1


def test_a_member_steps_out_and_joins_again(members: list[Member], broker: Broker) -> None:
    one, two = members
    client, _ = admin.connect({"bootstrap.servers": broker.bootstrap})
    assert not admin.has_members(client, one.group_id)
    one.join()
    two.join()
    wait_until(lambda: both_in_one_round(members), 30, "both to be in one round")
    assert admin.has_members(client, one.group_id)
    before = len(one.rounds)
    two.group.step_out()
    wait_until(lambda: len(one.rounds) > before, 30, "a round without the second")
    wait_until(lambda: set(one.led[-1].values()) == {b"new one"}, 30, "the first to be alone")
    two.join()
    wait_until(lambda: both_in_one_round(members), 30, "both to be in one round again")

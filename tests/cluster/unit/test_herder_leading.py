"""What a worker does as the leader of its group (kafka-connect.md §5, §6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.cluster import events as e
from penstock.cluster.herder.state import (
    next_wakeup,
)
from penstock.cluster.protocol import (
    Assignment,
    AssignmentError,
    MemberMetadata,
    decode_assignment,
    encode_metadata,
)
from penstock.cluster.records import (
    ConnectorConfig,
    SessionKey,
)

from .herder_worker import (
    ANY_KEY,
    CONFIG,
    MY_URL,
    OTHER_URL,
    T0,
    T1,
    Worker,
    answers,
    leader,
    only,
    settings,
    task_set,
    work,
)


def share_out(worker: Worker, **members: MemberMetadata) -> dict[str, Assignment]:
    generation = worker.generation + 1
    encoded = {name: encode_metadata(metadata, 2) for name, metadata in members.items()}
    commands = worker.take(e.AssignmentRequested("r", "m1", "sessioned", generation, encoded))
    [tell] = only(e.ReturnAssignment, commands)
    return {name: decode_assignment(data) for name, data in tell.shares.items()}


def test_a_leader_shares_out_all_work_at_one_offset() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(2))
    offset = worker.state.cluster.offset
    shares = share_out(
        worker, m1=MemberMetadata(MY_URL, offset), m2=MemberMetadata(OTHER_URL, offset - 1)
    )
    assert {share.config_offset for share in shares.values()} == {offset}
    assert shares["m1"].work.plus(shares["m2"].work) == work("c", T0, T1)


def test_a_leader_that_is_behind_lets_the_round_fail_and_reads_on() -> None:
    worker = leader()
    encoded = {"m1": encode_metadata(MemberMetadata(MY_URL, 99), 2)}
    commands = worker.take(e.AssignmentRequested("r", "m1", "sessioned", 2, encoded))
    assert len(only(e.ReadConfigToEnd, commands)) == 1
    [tell] = only(e.ReturnAssignment, commands)
    share = decode_assignment(tell.shares["m1"])
    assert (share.error, share.config_offset) == (AssignmentError.CONFIG_MISMATCH, 99)


def test_a_leader_sends_a_restart_to_the_owner() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    offset = worker.state.cluster.offset
    held = Assignment("m1", MY_URL, offset, work("c", T0))
    share_out(worker, m1=MemberMetadata(MY_URL, offset), m2=MemberMetadata(OTHER_URL, offset, held))
    worker.join()
    for operation in (e.RestartTask(T0), e.RestartConnector("c")):
        commands = worker.take(e.Requested("r", operation))
        assert answers(commands) == [("r", e.Elsewhere(OTHER_URL))]


def test_a_leader_that_does_not_know_the_owner_says_so() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    commands = worker.take(e.Requested("r", e.RestartConnector("c")))
    assert answers(commands) == [("r", e.Elsewhere(None))]


def test_only_the_leader_makes_a_session_key() -> None:
    worker = Worker()
    worker.take(e.LogsReady())
    assert only(e.MakeSessionKey, worker.join(leads=False)) == []
    assert len(only(e.MakeSessionKey, worker.join())) == 1


def test_a_session_key_is_made_once_and_again_when_its_time_is_over() -> None:
    worker = Worker(settings(key_ttl_ms=10_000))
    worker.take(e.LogsReady())
    worker.join()
    assert worker.tick(1) == []
    commands = worker.take(e.SessionKeyMade(b"k", "HmacSHA256"))
    [append] = only(e.AppendConfig, commands)
    assert append.records == (SessionKey(b"k", "HmacSHA256", worker.now),)
    assert worker.tick(1) == []
    worker.store(commands)
    made = worker.now - 1
    assert next_wakeup(worker.state) == made + 10_000
    assert worker.tick(9_998) == []
    assert worker.tick(1) == [e.MakeSessionKey()]
    assert worker.tick(1) == []


def test_a_session_key_of_another_length_or_algorithm_is_replaced() -> None:
    def made(**own: Any) -> list[e.MakeSessionKey]:
        worker = Worker(settings(**own))
        worker.read(replace(ANY_KEY, created_ms=worker.now))
        worker.take(e.LogsReady())
        return only(e.MakeSessionKey, worker.join())

    length = len(ANY_KEY.key)
    assert made() == made(key_bytes=length) == []
    assert made(key_bytes=length + 1) == made(key_algorithm="HmacMD5") == [e.MakeSessionKey()]


def test_a_session_key_that_is_not_stored_is_made_again_a_little_later() -> None:
    worker = Worker()
    worker.take(e.LogsReady())
    worker.join()
    [append] = only(e.AppendConfig, worker.take(e.SessionKeyMade(b"k", "HmacSHA256")))
    assert worker.take(e.Appended(append.ticket, -1, "no broker")) == []
    assert next_wakeup(worker.state) == worker.now + 250
    assert worker.tick(250) == [e.MakeSessionKey()]


@pytest.mark.parametrize("protocol", ["compatible", "default"])
def test_a_group_that_does_not_sign_needs_no_key_and_no_wakeup_for_it(protocol: str) -> None:
    worker = Worker()
    worker.read(replace(ANY_KEY, created_ms=0))
    worker.take(e.LogsReady())
    worker.protocol = protocol
    assert only(e.MakeSessionKey, worker.join()) == []
    assert next_wakeup(worker.state) is None

"""Where offsets are read from and written to (kafka-connect.md §3.3, §4.5, §4.6)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

from penstock.api import Offsets, SourceOffset
from penstock.config import worker as worker_config
from penstock.config.define import Config
from penstock.errors import PenstockError
from penstock.ids import TaskId
from penstock.kafka.log import Dropped, LogEntry
from penstock.offsets.store import (
    Lease,
    OffsetTable,
    Pulse,
    TakenOver,
    _Store,
    connector_admin,
    own_topic,
)
from penstock.testing.waiting import wait_until

TASK = TaskId("c", 0)


@dataclass
class MemoryLog:
    """A compacted log that stores and delivers at once, and adds records to `written`, which all
    logs of a test share. `refuses` makes it lose everything."""

    name: str
    receive: object
    written: list[tuple[str, bytes, bytes | None]]
    refuses: bool = False
    away: bool = False  # unreachable: what is appended waits
    reads: int = 0
    offset: int = field(default=0)
    waiting: list[Future[tuple[int, int]]] = field(default_factory=list)

    def append(self, key: bytes, value: bytes | None) -> Future[tuple[int, int]]:
        sent: Future[tuple[int, int]] = Future()
        if self.away:
            self.waiting.append(sent)
            return sent
        if self.refuses:
            sent.set_exception(PenstockError("no broker"))
            return sent
        self.written.append((self.name, key, value))
        self.receive([LogEntry(0, self.offset, key, value)])  # type: ignore[operator]
        self.offset += 1
        sent.set_result((0, self.offset - 1))
        return sent

    def drop(self) -> None:
        dropped, self.waiting = self.waiting, []
        for sent in dropped:
            sent.set_exception(Dropped("given up"))

    def read_to_end(self, timeout_s: float, check: object) -> None:
        self.reads += 1


Written = list[tuple[str, bytes, bytes | None]]


def store(name: str, written: Written) -> tuple[_Store, MemoryLog]:
    made: list[MemoryLog] = []

    def make(receive: object) -> MemoryLog:
        made.append(MemoryLog(name, receive, written))
        return made[0]

    return _Store(make), made[0]  # type: ignore[arg-type]


def at(position: int | None, partition: str = "p") -> SourceOffset:
    return SourceOffset({"file": partition}, None if position is None else {"position": position})


def keyed(partition: str = "p") -> bytes:
    return b'["c",{"file":"%s"}]' % partition.encode()


def valued(position: int) -> bytes:
    return b'{"position":%d}' % position


def lease(workers: _Store, own: _Store | None) -> Lease:
    return Lease(TASK, workers, own, 1.0, lambda: None, Pulse())


def read(of: Lease) -> dict[object, object]:
    return {row.partition["file"]: row.offset for row in of.read(lambda: None)}


def entries(*rows: tuple[bytes | None, bytes | None]) -> Sequence[LogEntry]:
    return [LogEntry(0, number, key, value) for number, (key, value) in enumerate(rows)]


def test_a_table_keeps_the_last_offset_of_each_partition() -> None:
    table = OffsetTable()
    table.receive(
        entries((keyed("a"), valued(1)), (keyed("b"), valued(2)), (keyed("a"), valued(3)))
    )
    assert [row.offset for row in table.of("c").values()] == [{"position": 3}, {"position": 2}]
    table.receive(entries((keyed("a"), None), (b"no key of ours", b"{}")))
    assert [row.offset for row in table.of("c").values()] == [{"position": 2}]
    assert table.of("another") == {}


def test_a_partition_keeps_the_bytes_of_its_key() -> None:
    table = OffsetTable()
    theirs = b'["c",{"b":1, "a":2}]'
    table.receive(entries((theirs, valued(1))))
    offset = SourceOffset({"a": 2, "b": 1}, {"position": 2})
    assert table.encode("c", offset) == (theirs, valued(2))


def test_without_a_topic_of_its_own_a_connector_uses_the_workers() -> None:
    written: Written = []
    workers, _ = store("workers", written)
    mine = lease(workers, None)
    mine.store([at(5)])
    assert written == [("workers", keyed(), valued(5))]
    assert read(mine) == {"p": {"position": 5}}


def test_the_own_topic_is_written_first_and_then_the_workers() -> None:
    written: Written = []
    (workers, _), (own, _) = store("workers", written), store("own", written)
    lease(workers, own).store([at(5)])
    assert written == [("own", keyed(), valued(5)), ("workers", keyed(), valued(5))]


def test_offsets_are_removed_from_the_workers_topic_first() -> None:
    written: Written = []
    (workers, _), (own, _) = store("workers", written), store("own", written)
    lease(workers, own).store([at(5, "a"), at(None, "b")])
    assert written == [
        ("workers", keyed("b"), None),
        ("own", keyed("a"), valued(5)),
        ("own", keyed("b"), None),
        ("workers", keyed("a"), valued(5)),
    ]


def test_the_own_topic_has_to_take_an_offset_the_workers_need_not() -> None:
    written: Written = []
    (workers, worker_log), (own, own_log) = store("workers", written), store("own", written)
    worker_log.refuses = True
    lease(workers, own).store([at(5)])
    with pytest.raises(PenstockError, match="no broker"):
        lease(workers, own).store([at(None)])
    assert written == [("own", keyed(), valued(5))]
    worker_log.refuses, own_log.refuses = False, True
    with pytest.raises(PenstockError, match="no broker"):
        lease(workers, own).store([at(6)])
    assert written == [("own", keyed(), valued(5))]


def test_the_own_topic_counts_before_the_workers() -> None:
    written: Written = []
    (workers, worker_log), (own, own_log) = store("workers", written), store("own", written)
    worker_log.append(keyed("a"), valued(1))
    worker_log.append(keyed("b"), valued(2))
    own_log.append(keyed("a"), valued(7))
    assert read(lease(workers, own)) == {"a": {"position": 7}, "b": {"position": 2}}
    assert (worker_log.reads, own_log.reads) == (1, 1)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Suspends the process for this long."""
    now = time.monotonic() + seconds
    monkeypatch.setattr("penstock.offsets.store.time.monotonic", lambda: now)


def test_a_position_that_somebody_else_stored_meanwhile_is_not_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: Written = []
    workers, log = store("workers", written)
    log.append(keyed("a"), valued(1))
    mine = lease(workers, None)
    read(mine)
    mine.store([at(2, "a")])
    log.append(keyed("a"), valued(9))  # by another worker, which took over the task
    later(monkeypatch, 7.0)
    with pytest.raises(TakenOver, match=r"offset of task c-0 for \{'file': 'a'\} while"):
        mine.store([at(3, "a")])
    assert written[-1] == ("workers", keyed("a"), valued(9))


def test_the_worker_that_was_not_frozen_continues() -> None:
    written: Written = []
    workers, log = store("workers", written)
    log.append(keyed("a"), valued(1))
    mine = lease(workers, None)
    read(mine)
    log.append(keyed("a"), valued(2))  # the last write of the task's previous worker
    mine.store([at(3, "a")])
    assert written[-1] == ("workers", keyed("a"), valued(3))


@pytest.mark.parametrize("own_topic", [False, True])
def test_a_task_that_stood_still_and_was_not_given_away_continues_where_it_was(
    own_topic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: Written = []
    (workers, log), (own, _) = store("workers", written), store("own", written)
    log.append(keyed("a"), valued(1))
    mine = lease(workers, own if own_topic else None)
    read(mine)
    for moment, position in enumerate((2, 3, 4), 1):
        later(monkeypatch, 7.0 * moment)
        mine.store([at(position, "a"), at(position, "new")])
    mine.store([at(None, "a")])
    later(monkeypatch, 20.0)
    mine.store([at(6, "a")])
    assert read(mine) == {"a": {"position": 6}, "new": {"position": 4}}


def test_offsets_whose_storing_is_uncertain_are_the_tasks_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: Written = []
    workers, log = store("workers", written)
    mine = lease(workers, None)
    read(mine)
    log.refuses = True
    with pytest.raises(PenstockError, match="no broker"):
        mine.store([at(5)])
    log.refuses = False
    log.append(keyed(), valued(5))  # stored; only the answer was lost
    later(monkeypatch, 7.0)
    mine.store([at(6)])
    assert written[-1] == ("workers", keyed(), valued(6))


def test_pending_offsets_of_a_task_that_ends_are_given_up_and_no_others() -> None:
    written: Written = []
    workers, log = store("workers", written)
    log.away = True
    ending, staying = lease(workers, None), lease(workers, None)
    errors: list[BaseException] = []

    def end() -> None:
        try:
            ending.store([at(1, "ending")])
        except PenstockError as error:
            errors.append(error)

    threads = [
        threading.Thread(target=end),
        threading.Thread(target=lambda: staying.store([at(2, "staying")])),
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(log.waiting) == 2, 10, "both to be on their way")
    log.away = False
    ending.close()
    for thread in threads:
        thread.join(10)
    assert written == [("workers", keyed("staying"), valued(2))]
    assert "Task c-0 has ended" in str(errors[0])


def test_exactly_once_the_workers_topic_is_written_after_the_transaction() -> None:
    written: Written = []
    (workers, _), (own, _) = store("workers", written), store("own", written)
    mine = lease(workers, own)
    assert mine.encode([at(5, "a"), at(None, "b")]) == [(keyed("a"), valued(5)), (keyed("b"), None)]
    assert written == [("workers", keyed("b"), None)]
    mine.committed([at(5, "a"), at(None, "b")])
    assert written[1:] == [("workers", keyed("a"), valued(5))]


def test_a_transaction_that_failed_is_not_reported() -> None:
    written: Written = []
    (workers, _), (own, _) = store("workers", written), store("own", written)
    mine = lease(workers, own)
    mine.encode([at(5)])
    mine.close()
    mine.committed([at(5)])
    assert written == []


def test_exactly_once_with_the_workers_topic_writes_nothing_beside_the_transaction() -> None:
    written: Written = []
    workers, _ = store("workers", written)
    mine = lease(workers, None)
    assert mine.encode([at(5), at(None, "b")]) == [(keyed(), valued(5)), (keyed("b"), None)]
    mine.committed([at(5), at(None, "b")])
    assert written == []


def test_a_transaction_uses_the_key_bytes_that_are_stored() -> None:
    written: Written = []
    (workers, _), (own, _) = store("workers", written), store("own", written)
    assert lease(workers, None).keys() == {}
    workers.table.receive([LogEntry(0, 0, b'["c", {"file": "a"}]', valued(1))])
    assert list(lease(workers, None).keys().values()) == [b'["c", {"file": "a"}]']
    assert lease(workers, own).keys() == {}


@pytest.mark.parametrize("how", ["store", "encode", "forget"])
def test_a_task_that_has_ended_stores_nothing_any_more(how: str) -> None:
    written: Written = []
    workers, _ = store("workers", written)
    closed: list[str] = []
    mine = Lease(TASK, workers, None, 1.0, lambda: closed.append("closed"), Pulse())
    mine.close()
    mine.close()
    assert closed == ["closed"]
    offsets: Offsets = [at(5)]
    with pytest.raises(PenstockError, match="Task c-0 has ended"):
        getattr(mine, how)(offsets)
    assert written == []


def worker(**more: str) -> Config:
    given = {name.replace("_", "."): text for name, text in more.items()}
    converter = "org.apache.kafka.connect.storage.StringConverter"
    return worker_config.parse_distributed(
        {
            "bootstrap.servers": "a:1,b:2",
            "group.id": "g",
            "config.storage.topic": "configs",
            "offset.storage.topic": "offsets",
            "status.storage.topic": "statuses",
            "key.converter": converter,
            "value.converter": converter,
            **given,
        }
    )


OTHERS = {"producer.override.bootstrap.servers": "z:9"}
WHICH: list[tuple[dict[str, str | None], bool, str | None]] = [
    ({}, False, None),
    ({}, True, None),
    ({"offsets.storage.topic": "own"}, False, "own"),
    ({"offsets.storage.topic": "own"}, True, "own"),
    ({"offsets.storage.topic": "offsets"}, False, None),
    ({"offsets.storage.topic": "offsets"}, True, None),
    ({"producer.override.bootstrap.servers": "b:2, a:1"}, True, None),
    ({**OTHERS}, False, None),
    ({**OTHERS}, True, "offsets"),
    ({**OTHERS, "offsets.storage.topic": "offsets"}, False, "offsets"),
    ({"offsets.storage.topic": None}, False, None),
]


@pytest.mark.parametrize(("props", "exactly_once", "topic"), WHICH)
def test_which_topic_a_connector_has_of_its_own(
    props: dict[str, str | None], exactly_once: bool, topic: str | None
) -> None:
    own = own_topic(worker(), "c", props, exactly_once)
    assert (own and own.topic) == topic


def test_the_clients_of_an_own_topic_are_the_connectors() -> None:
    config = worker(
        **{"consumer.fetch.min.bytes": "7", "producer.linger.ms": "9", "admin.client.id": "adm"}
    )
    props = {
        "offsets.storage.topic": "own",
        "consumer.override.isolation.level": "read_uncommitted",
        "producer.override.linger.ms": "11",
    }
    own = own_topic(config, "c", props, exactly_once=False)
    assert own is not None
    assert own.consumer["fetch.min.bytes"] == 7
    assert own.consumer["isolation.level"] == "read_uncommitted"
    assert own.consumer["client.id"] == "connector-consumer-c"
    assert own.producer["linger.ms"] == 11
    assert own.producer["acks"] == "all"
    assert own.admin["client.id"] == "adm"
    forced = own_topic(config, "c", props, exactly_once=True)
    assert forced is not None
    assert forced.consumer["isolation.level"] == "read_committed"
    assert "linger" not in repr(own), "client settings may hold secrets"


def test_a_connectors_admin_client_is_the_workers_with_changes() -> None:
    config = worker(**{"reconnect.backoff.ms": "60", "admin.retry.backoff.ms": "70"})
    settings = connector_admin(config, "me", {"admin.override.bootstrap.servers": "z:9"})
    assert settings["client.id"] == "me"
    assert settings["bootstrap.servers"] == "z:9"
    assert settings["reconnect.backoff.ms"] == 60
    assert settings["retry.backoff.ms"] == 70

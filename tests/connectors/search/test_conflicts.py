"""Records that come again with older versions than their documents have, on the real servers: a
repetition is no conflict, whatever `behavior.on.version.conflict` says."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from penstock.api import SinkWriter, TopicPartition
from penstock.connectors.search.sink import OpenSearchSink
from penstock.connectors.search.write.conflicts import PATIENCE
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until
from tests.servers.search import SearchServer, shared

from .front import Asked, Front

NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> SearchServer:
    return shared("opensearch")


@pytest.fixture
def place(server: SearchServer) -> TopicPartition:
    return TopicPartition(f"conflicts-{next(NUMBERS)}", 0)


class Task:
    """A writer with the default behaviour, `fail`."""

    def __init__(self, url: str, **given: str) -> None:
        connector = OpenSearchSink()
        settings = {name.replace("_", "."): value for name, value in given.items()}
        props = {"connection.url": url, "schema.ignore": "true", "retry.backoff.ms": "5"}
        config = connector.plugin.config.parse({**props, **settings})
        self.context = SinkContextStub()
        self.writer: SinkWriter = connector.open(config, self.context)

    @property
    def reported(self) -> list[int]:
        return [record.offset for record, _ in self.context.reported]

    def __enter__(self) -> Task:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()


def test_records_that_are_delivered_again_after_a_restart_are_no_conflicts(
    server: SearchServer, place: TopicPartition
) -> None:
    keys = ["a", "b", "a", "c", "b", "a", "d"]
    rows = [{"v": number} for number in range(6)]
    records = records_of([*rows, None], keys=keys, topic=place.topic)
    with Task(server.url, behavior_on_null_values="delete") as first:
        first.writer.write(records, {})
        first.writer.flush()
    with Task(server.url, behavior_on_null_values="delete") as again:
        # The earlier run had committed nothing, and the records come in small batches.
        for row in range(len(records)):
            again.writer.write(records.only([row]), {})
            again.writer.flush()
            again.writer.idle()
            committed = again.writer.pre_commit({place: row + 1})[place]
            assert committed <= {0: 0, 1: 0, 2: 1, 3: 1}.get(row, row + 1), row
        assert committed == len(records)
        assert again.reported == []
    assert server.documents(place.topic) == {"a": {"v": 5}, "b": {"v": 4}, "c": {"v": 3}}


def test_a_version_from_another_document_of_the_partition_is_a_conflict(
    server: SearchServer, place: TopicPartition
) -> None:
    path = f"/{place.topic}/_doc/a?version=3&version_type=external"
    server.request("PUT", path, {"v": "of another"})
    records = records_of([{"v": number} for number in range(5)], keys="avwxy", topic=place.topic)
    for batches in ([[0], [1, 2], [3, 4]], [[0, 1, 2, 3, 4]]):
        with Task(server.url) as task:
            for rows in batches:
                task.writer.write(records.only(rows), {})
                task.writer.flush()
                if rows[-1] < 3:
                    assert task.reported == []
                    assert task.writer.pre_commit({place: rows[-1] + 1}) == {place: 0}
            assert task.reported == [0]
    assert server.documents(place.topic)["a"] == {"v": "of another"}


def test_a_version_beyond_the_partition_is_a_conflict_once_no_record_comes(
    server: SearchServer, place: TopicPartition
) -> None:
    path = f"/{place.topic}/_doc/a?version=900&version_type=external"
    server.request("PUT", path, {"v": "of another"})
    with Task(server.url) as task:
        task.writer.write(records_of([{"v": 1}], keys=["a"], topic=place.topic), {})
        task.writer.flush()
        for _ in range(PATIENCE):
            task.writer.idle()
            assert task.writer.pre_commit({place: 1}) == {place: 0}
        assert task.reported == []
        task.writer.idle()
        assert task.reported == [0]


def test_a_version_at_an_offset_that_the_topic_lost_is_no_conflict(
    server: SearchServer, place: TopicPartition, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"/{place.topic}/_doc/a?version=3&version_type=external"
    server.request("PUT", path, {"v": "before compaction"})
    records = records_of([{"v": number} for number in range(6)], keys="auvwxy", topic=place.topic)
    with Task(server.url) as task:
        for rows in ([0, 1], [4, 5]):
            task.writer.write(records.only(rows), {})
            task.writer.flush()
        task.writer.flush()
        assert task.reported == []
        assert task.writer.pre_commit({place: 6}) == {place: 6}
    assert "Ignored 1 records" in caplog.text


def test_waiting_documents_are_dropped_with_their_partition(
    server: SearchServer, place: TopicPartition
) -> None:
    path = f"/{place.topic}/_doc/a?version=900&version_type=external"
    server.request("PUT", path, {"v": "of the next owner"})
    for lost in (True, False):
        with Task(server.url) as task:
            task.writer.write(records_of([{"v": 1}], keys=["a"], topic=place.topic), {})
            if not lost:
                task.writer.flush()
            task.writer.revoked(frozenset({place}), lost=lost)
            if not lost:
                assert task.writer.pre_commit({place: 1}) == {place: 0}
            for _ in range(PATIENCE + 2):
                task.writer.idle()
            assert task.reported == []


def test_a_request_whose_answer_is_late_is_overtaken_without_a_conflict(
    server: SearchServer, place: TopicPartition
) -> None:
    overtaken = threading.Event()

    def answer(asked: Asked) -> int | None:
        if asked.bulk == 0:
            overtaken.wait(30)  # as if the answer of a first attempt were lost
            return 503
        return None

    records = records_of([{"v": number} for number in range(3)], keys="aba", topic=place.topic)
    with (
        Front(server, answer) as front,
        Task(front.url, batch_size="1", max_in_flight_requests="3") as task,
    ):
        task.writer.write(records, {})
        wait_until(lambda: server.count(place.topic) == 2, 60, "the later requests", poll_s=0.05)
        overtaken.set()
        task.writer.flush()
        assert task.reported == []
        assert task.writer.pre_commit({place: 3}) == {place: 3}
    assert server.documents(place.topic) == {"a": {"v": 2}, "b": {"v": 1}}


def test_a_request_that_is_repeated_because_its_answer_was_lost_has_no_conflicts(
    server: SearchServer, place: TopicPartition
) -> None:
    rows = [{"v": number} for number in range(6)]
    records = records_of(rows, keys="aabbab", topic=place.topic)
    with (
        Proxy(server.port) as proxy,
        Task(
            f"http://127.0.0.1:{proxy.port}",
            batch_size="2",
            max_in_flight_requests="3",
            max_retries="20",
            retry_backoff_ms="50",
        ) as task,
    ):
        task.writer.write(records.only([0]), {})
        task.writer.flush()
        proxy.lose_answers()
        task.writer.write(records.only([1, 2, 3, 4, 5]), {})
        wait_until(lambda: proxy.lost >= 3, 60, "lost answers")
        proxy.restore()
        task.writer.flush()
        assert task.reported == []
        assert task.writer.pre_commit({place: 6}) == {place: 6}
    assert server.documents(place.topic) == {"a": {"v": 4}, "b": {"v": 5}}


@pytest.mark.parametrize("key_ignore", ["false", "true"])
def test_a_document_that_a_data_stream_has_already_is_no_conflict(
    server: SearchServer, place: TopicPartition, key_ignore: str
) -> None:
    rows = [{"v": number, "@timestamp": 1_000 + number, "part": 0.1} for number in range(4)]
    records = records_of(rows, keys="abcd", topic=place.topic)
    streams = {
        "data_stream_enabled": "true",
        "data_stream_prefix": f"s{next(NUMBERS)}",
        "key_ignore": key_ignore,
    }
    for _ in range(2):  # a restart
        with Task(server.url, **streams) as task:
            task.writer.write(records, {})
            task.writer.flush()
            assert task.reported == []
            assert task.writer.pre_commit({place: 4}) == {place: 4}
    other = records_of([{"v": 9, "@timestamp": 1_000}], keys=["a"], topic=place.topic)
    with Task(server.url, **streams) as task:
        task.writer.write(other, {})
        task.writer.flush()
        assert task.reported == [0]
    assert server.count(f"{streams['data_stream_prefix']}-{place.topic}") == 4

"""Faults at random while a sink writes, and the comparison of its store with its topic.

A feed appends records all the time. A step injects one fault, ends it, and waits until the sink
commits again. At the end everything is mended, and each record must have arrived.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.testing.processes import WorkerProcess
from penstock.testing.proxy import Proxy
from penstock.testing.topics import Stored, Topics
from penstock.testing.waiting import wait_until

from .compare import Sent, compare_keys, compare_records
from .families.base import HOT, Family

PARTITIONS: Final = 2
PER_TICK: Final = 10
TICK_S: Final = 0.05
WAIT_S: Final = 300.0
"""A bound for a busy machine, on which a worker may need minutes to start Spark and its tasks."""
LONG_S: Final = 15.0
"""A wait for commits that the evidence names."""


class Feed:
    """Appends records to a topic until `stop`: half of them under keys that come again."""

    def __init__(self, topics: Topics, topic: str, family: Family, chance: random.Random) -> None:
        self.sent: list[Sent] = []
        self.problem: KafkaError | None = None
        self._topic = topic
        self._family = family
        self._chance = chance
        self._numbers = 0
        self._over = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": topics.bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when every record is in the topic."""
        self._over.set()
        self._thread.join()
        if self.problem is not None:
            raise KafkaException(self.problem)

    def _run(self) -> None:
        while not self._over.wait(TICK_S):
            for _ in range(PER_TICK):
                self._append()
            self._producer.poll(0)
        unsent = self._producer.flush(30)
        assert unsent == 0, f"{unsent} records were not sent"

    def _append(self) -> None:
        self._numbers = number = self._numbers + 1
        hot = self._chance.random() < 0.5
        key = f"hot{self._chance.randrange(HOT)}" if hot else f"k{number}"
        partition = zlib.crc32(key.encode()) % PARTITIONS
        gone = self._family.deletes and hot and self._chance.random() < 0.15
        value = None if gone else self._family.value(key, number)

        def stored(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.problem = error
                return
            offset = message.offset()
            assert offset is not None
            self.sent.append(Sent(partition, offset, key, None if gone else number))

        headers = list(self._family.headers(number))
        self._producer.produce(
            self._topic, value, key, partition, on_delivery=stored, headers=headers
        )


@dataclass
class Result:
    """What a run did, and what was wrong with the store at its end."""

    records: int = 0
    seconds: float = 0.0
    dead: int = 0
    repeated: int = 0
    failures: int = 0
    held: int = 0
    answers_lost: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    """How long it took until commits moved on after a fault, at most, in seconds."""
    history: list[str] = field(default_factory=list)
    """Each fault with its time, and how long commits took afterwards: it leads to the cause of a
    failure in the worker's log."""
    lost: list[Any] = field(default_factory=list)
    wrong: list[Any] = field(default_factory=list)
    unordered: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        rate = self.records / max(self.seconds, 1)
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        slowest = ", ".join(
            f"{name} {waited:.0f} s" for name, waited in sorted(self.slowest.items())
        )
        return (
            f"{self.records} records in {self.seconds:.0f} s ({rate:.0f}/s); faults: {faults}; "
            f"{self.answers_lost} answers lost, {self.failures} failed tasks restarted, "
            f"{self.held} times commits held at a refused record, "
            f"{self.dead} dead letters, {self.repeated} repeated; "
            f"lost {len(self.lost)}, wrong {len(self.wrong)}, out of order {len(self.unordered)}; "
            f"commits at most after {slowest}"
        )


class Chaos:
    """One family's sink under faults, chosen by `seed`."""

    def __init__(
        self,
        name: str,
        family: Family,
        make_worker: Callable[..., WorkerProcess],
        topics: Topics,
        seed: int,
    ) -> None:
        self.random = random.Random(f"{seed}-{name}")
        self._records = random.Random(f"{seed}-{name}-records")
        self.family = family
        self.topics = topics
        self.result = Result()
        self.connector = f"chaos-{name}"
        self.topic = topics.create(f"chaos-{name}", PARTITIONS)
        self.dead = topics.create(f"dead-{name}")
        self.tolerant = family.reports and self.random.random() < 0.5
        self.settings = {
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "consumer.override.max.poll.records": str(self.random.choice([20, 100, 500])),
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.heartbeat.interval.ms": "1500",
        }
        if self.tolerant:
            self.settings |= {
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": self.dead,
                "errors.deadletterqueue.topic.replication.factor": "1",
                "errors.deadletterqueue.context.headers.enable": "true",
            }
        self._make_worker = make_worker
        self.worker = self._new_worker()
        self.proxy = Proxy(family.port if family.networked else 0).start()
        self.feed: Feed | None = None

    def _new_worker(self) -> WorkerProcess:
        worker = self._make_worker(scheduled_rebalance_max_delay_ms="0").start()
        worker.await_rest(WAIT_S)
        return worker

    def run(self, seconds: float) -> Result:
        """Injects faults for `seconds`, mends everything, and compares the store with the topic."""
        self.family.prepare(self.topic)
        config = {
            "tasks.max": str(PARTITIONS),
            "topics": self.topic,
            **self.family.config(self.topic, self.proxy.port),
            **self.settings,
        }
        self._note(f"{config}")
        self.worker.create(self.connector, config)
        begun = time.monotonic()
        self.feed = Feed(self.topics, self.topic, self.family, self._records)
        self._await_commits()
        # These once in a random order, so that each run has them; then any, at random.
        kinds = [self.cut, self.lose_answers, self.hang] if self.family.networked else []
        kinds += [self.refuse, self.kill_worker]
        first = self.random.sample(kinds, len(kinds))
        kinds += [self.suspend_worker, self.restart, self.pause, self.join]
        kinds += [self.kill_server] if self.family.kills else []
        number = 0
        while number < len(first) or time.monotonic() - begun < seconds:
            kind = first[number] if number < len(first) else self.random.choice(kinds)
            number += 1
            self._note(kind.__name__)
            kind()
            self.result.faults[kind.__name__] += 1
            ended = time.monotonic()
            self._await_commits()
            self._note_wait(kind.__name__, time.monotonic() - ended)
        self.feed.stop()
        self._await_end()
        self.result.seconds = time.monotonic() - begun
        self.result.records = len(self.feed.sent)
        self.result.answers_lost = self.proxy.lost
        self._ask("DELETE", f"/connectors/{self.connector}")
        self._compare()
        return self.result

    @property
    def evidence(self) -> str:
        """What happened so far, and where the worker's log is."""
        lines = "\n".join(self.result.history)
        return f"{lines}\ntolerant: {self.tolerant}\nlogs: {self.worker.log.parent}\n"

    def close(self) -> None:
        if self.feed is not None:
            self.feed.stop()
        self.proxy.close()
        self.worker.close()

    def _note(self, text: str) -> None:
        self.result.history.append(f"{time.strftime('%H:%M:%S')} {text}")

    def _note_wait(self, fault: str, waited: float) -> None:
        slowest = self.result.slowest
        slowest[fault] = max(waited, slowest.get(fault, 0.0))
        self._note(f"committed {waited:.1f} s after {fault}")
        if waited > LONG_S:
            self._note(f"that was long: {self.worker.status(self.connector)}")

    # The faults.

    def cut(self) -> None:
        self.proxy.cut()
        self._hold(0.1, 3)
        self.proxy.restore()

    def lose_answers(self) -> None:
        before = self.proxy.lost
        self.proxy.lose_answers()
        wait_until(lambda: self.proxy.lost > before, WAIT_S, "a lost answer", poll_s=0.05)
        self._hold(0, 1)
        self.proxy.restore()

    def hang(self) -> None:
        self.proxy.hang()
        self._hold(0.2, 4)
        self.proxy.restore()

    def refuse(self) -> None:
        """The server refuses some keys for a while. Where a refusal fails the task, nothing may be
        committed past the first refused record."""
        assert self.feed is not None
        keys = {f"hot{number}" for number in self.random.sample(range(HOT), 4)}
        self.family.refuse(keys)
        sent = len(self.feed.sent) + 2 * PER_TICK  # those in flight may be older than the refusal
        before = self.topics.count(self.dead)
        if not self.family.retries:
            wait_until(lambda: self._was_refused(before), WAIT_S, "a refusal to be noticed")
        self._hold(2, 5)
        if not self.tolerant:
            self._restart_failed()
            self._hold(1, 3)
            self._check_commits(sent, keys)
        self.family.mend()

    def kill_worker(self) -> None:
        self.worker.kill()
        self.worker = self._new_worker()

    def suspend_worker(self) -> None:
        os.kill(self.worker.pid, signal.SIGSTOP)
        self._hold(0.5, 8)
        os.kill(self.worker.pid, signal.SIGCONT)

    def restart(self) -> None:
        self._ask("POST", f"/connectors/{self.connector}/restart?includeTasks=true")

    def pause(self) -> None:
        self._ask("PUT", f"/connectors/{self.connector}/pause")
        self._hold(0.2, 2)
        self._ask("PUT", f"/connectors/{self.connector}/resume")

    def join(self) -> None:
        """Another worker joins, and the first one leaves: the tasks move twice."""
        other = self._new_worker()
        self._await_commits()
        self.worker.stop()
        self.worker = other

    def kill_server(self) -> None:
        self.family.kill()
        self._hold(0, 2)
        self.family.start()

    # Waiting.

    def _hold(self, shortest: float, longest: float) -> None:
        threading.Event().wait(self.random.uniform(shortest, longest))

    def _ask(self, method: str, path: str) -> None:
        def answered() -> bool:
            with contextlib.suppress(httpx.TransportError):
                answer = self.worker.request(method, path)
                assert answer.status_code < 500 or answer.status_code == 503, answer.text
                return answer.status_code not in (409, 503)
            return False

        wait_until(answered, WAIT_S, f"{method} {path} to be served")

    def _failed(self) -> int:
        with contextlib.suppress(httpx.TransportError):
            return self.worker.states(self.connector).count("FAILED")
        return 0

    def _was_refused(self, letters: int) -> bool:
        """Whether a record became a dead letter or failed the task, since there were `letters`."""
        return self.topics.count(self.dead) > letters if self.tolerant else self._failed() > 0

    def _restart_failed(self) -> None:
        failed = self._failed()
        if failed:
            self.result.failures += failed
            path = f"/connectors/{self.connector}/restart?includeTasks=true&onlyFailed=true"
            self._ask("POST", path)

    def _committed(self) -> dict[int, int]:
        return self.topics.committed(f"connect-{self.connector}", self.topic)

    @staticmethod
    def _reached(found: dict[int, int], wanted: dict[int, int]) -> bool:
        return all(found.get(number, 0) >= end for number, end in wanted.items())

    def _await_commits(self) -> None:
        """Waits until every partition is committed past where it ends now; failed tasks are
        restarted."""
        self._await_committed(self.topics.ends(self.topic), "new commits")

    def _await_end(self) -> None:
        self._await_committed(self.topics.ends(self.topic), "all records to be committed")

    def _await_committed(self, wanted: dict[int, int], what: str) -> None:
        """Waits as long as commits advance: a slow target on a busy machine has a backlog to write
        after each fault."""
        found: dict[int, int] = {}

        def all_or_more() -> bool:
            nonlocal found
            self._restart_failed()
            before, found = found, self._committed()
            return self._reached(found, wanted) or found != before

        try:
            while not self._reached(found, wanted):
                wait_until(all_or_more, WAIT_S, what, poll_s=0.3)
        except TimeoutError as error:
            raise TimeoutError(
                f"{error}; wanted {wanted}, committed {self._committed()}; "
                f"{self.worker.status(self.connector)}"
            ) from None

    # The comparison.

    def _check_commits(self, first: int, keys: set[str]) -> None:
        assert self.feed is not None
        committed = self._committed()
        refused = (
            row
            for row in self.feed.sent[first:]
            if row.number is not None and (self.family.blocks or row.key in keys)
        )
        firsts: dict[int, Sent] = {}
        for row in refused:
            firsts.setdefault(row.partition, row)
        for row in firsts.values():
            if committed.get(row.partition, 0) > row.offset:
                self.result.wrong.append(("committed past a refused record", row, committed))
            elif self.family.retries:
                self.result.held += 1

    def _compare(self) -> None:
        assert self.feed is not None
        letters = self.topics.read(self.dead)
        dead = {_place(letter) for letter in letters}
        self.result.dead = len(letters)
        stored = self.family.stored()
        if self.family.keyed:
            found = compare_keys(self.feed.sent, dead, stored)
        else:
            found = compare_records(self.feed.sent, dead, stored, self.family.stream)
        self.result.lost += found.lost
        self.result.wrong += found.wrong
        self.result.unordered += found.unordered
        self.result.repeated += found.repeated


def _place(letter: Stored) -> tuple[int, int]:
    """Where in the topic a dead letter comes from."""
    headers = dict(letter.headers)
    partition = headers["__connect.errors.partition"]
    offset = headers["__connect.errors.offset"]
    assert partition is not None
    assert offset is not None
    return int(partition), int(offset)

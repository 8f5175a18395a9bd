"""A simulated worker's producers for the config topic and the status topic.

A record may be stored late, stored without an acknowledgement, or not at all; and a leader's
producer may be fenced.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from penstock.cluster import events as e
from penstock.cluster.records import (
    StatusRecord,
    TaskCommit,
    TaskConfig,
    encode_config,
    encode_status,
)
from tests.cluster.simulated.tasks import LEADER, Transactions
from tests.cluster.simulated.topics import ConfigTopic, Row
from tests.cluster.simulated.world import Process, World


class Brokers(World, Protocol):
    """What producers may use of the cluster."""

    @property
    def configs(self) -> ConfigTopic: ...

    @property
    def transactions(self) -> Transactions: ...

    @property
    def suspects(self) -> set[str]:
        """Connectors whose task set may need a restart; a producer adds those it writes late."""

    def wake_config_readers(self) -> None:
        """The config topic has grown."""

    def write_status(self, *rows: Row) -> None:
        """Stores rows in the status topic, and wakes its readers."""


class Producers:
    """Of one worker. The outcome of an append comes back as an event."""

    def __init__(self, brokers: Brokers, process: Process) -> None:
        self._brokers = brokers
        self._process = process
        self._leader_epoch = 0  # of the leader's producer; 0: the worker has none
        self._configs_until = 0  # no config record is stored earlier
        self._statuses_until = 0  # no status record is stored earlier

    def acquire_write_access(self) -> None:
        """Initialises the leader's producer, which fences that of an earlier leader."""
        self._leader_epoch = self._brokers.transactions.init_producer(LEADER)

    def append_config(self, command: e.AppendConfig) -> None:
        brokers, process = self._brokers, self._process
        random, faults = brokers.random, brokers.faults
        if random.random() < faults.append_fails:
            # A leader's producer that failed is not used again, whatever the error.
            self._leader_epoch = 0 if command.as_leader else self._leader_epoch
            failed = e.Appended(command.ticket, -1, "no broker", fenced=command.as_leader)
            process.later(20, partial(process.post, failed))
            return
        late = random.random() < faults.append_is_late
        if late or self._configs_until > brokers.now:
            # A producer's records stay in order: those behind a late one wait, too.
            delay = random.randint(500, 45_000) if late else 0
            self._configs_until = max(self._configs_until, brokers.now + delay) + 1
            in_buffer = random.random() < 0.5  # of the worker's process, or of Kafka's
            brokers.at(
                self._configs_until - brokers.now,
                partial(self._store_late, command, self._leader_epoch, in_buffer),
            )
        else:
            self._store(command, self._leader_epoch)

    def _store_late(self, command: e.AppendConfig, epoch: int, in_buffer: bool) -> None:
        if in_buffer and not self._process.alive:
            return
        for record in command.records:
            match record:
                case TaskConfig(task):
                    self._brokers.suspects.add(task.connector)
                case TaskCommit(connector):
                    self._brokers.suspects.add(connector)
                case _:
                    pass
        self._store(command, epoch)

    def _store(self, command: e.AppendConfig, epoch: int) -> None:
        brokers, process, ticket = self._brokers, self._process, command.ticket
        if command.as_leader and (epoch == 0 or epoch != brokers.transactions.epochs.get(LEADER)):
            refused = e.Appended(ticket, -1, "the producer was fenced", fenced=True)
            process.later(20, partial(process.post, refused))
            return
        offset = brokers.configs.append([encode_config(record) for record in command.records])
        if command.as_leader:
            brokers.configs.mark_end_of_transaction()
        if brokers.random.random() >= brokers.faults.append_unanswered:
            delay = brokers.random.randint(1, 20)
            process.later(delay, partial(process.post, e.Appended(ticket, offset)))
        brokers.wake_config_readers()

    def append_status(self, record: StatusRecord) -> None:
        brokers, row = self._brokers, encode_status(record)
        late = brokers.random.random() < brokers.faults.status_is_late
        if late or self._statuses_until > brokers.now:
            delay = brokers.random.randint(100, 8_000) if late else 0
            self._statuses_until = max(self._statuses_until, brokers.now + delay) + 1
            brokers.at(self._statuses_until - brokers.now, partial(brokers.write_status, row))
        else:
            brokers.write_status(row)

"""The table of `penstock.exactly.once`: how far each topic partition was written, in the same
transaction as the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api import TopicPartition
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.write.dialect import OFFSET_COLUMNS, Dialect, TableName
from penstock.connectors.jdbc.write.tables import TableMismatch

_NAME_CHARS: Final = 249


def stored_topic(topic: str, id: str | None) -> str:
    """A topic in the table: with its id, by which Kafka tells it from others of its name that
    existed before. No topic's name contains an @.

    >>> stored_topic("orders", "Vn1RZXlTQdqSzZJtPDXbRA")
    'orders@Vn1RZXlTQdqSzZJtPDXbRA'
    """
    return topic if id is None else f"{topic[: _NAME_CHARS - len(id) - 1]}@{id}"


@dataclass(frozen=True, slots=True)
class OffsetsTable:
    """The offsets of one connector."""

    dialect: Dialect
    table: TableName
    connector: str

    def create(self, connection: Connection) -> None:
        """Creates the table, unless it exists. Raises TableMismatch."""
        if self.exists(connection):
            return
        try:
            connection.execute(self.dialect.create_offsets(self.table))
        except DatabaseRefused as error:
            # Not every database has IF NOT EXISTS, and another task may have been faster.
            if not self.exists(connection):
                raise TableMismatch(
                    f"penstock.exactly.once needs the table {self.table} "
                    f"(penstock.offsets.table), which cannot be created: {error}"
                ) from error

    def exists(self, connection: Connection) -> bool:
        return self.dialect.table(connection, self.table) is not None

    def read(
        self, connection: Connection, ids: Mapping[TopicPartition, str | None]
    ) -> dict[TopicPartition, int]:
        """The next offset of each topic partition, whose rows stay locked until the transaction
        ends. `ids`: of the topics; None if the broker has none."""
        next_by_partition = {}
        for at, id in sorted(ids.items(), key=lambda item: item[0]):
            topic = stored_topic(at.topic, id)
            self._begin(connection, topic, at.partition, 0)
            found = self._next(connection, topic, at.partition, self.dialect.locking)
            if not found and topic != at.topic:
                found = self._next(connection, at.topic, at.partition)
                if found:
                    self._delete(connection, at.topic, at.partition)
                    self._update(connection, topic, at.partition, found)
            next_by_partition[at] = found
        return next_by_partition

    def store(
        self,
        connection: Connection,
        ids: Mapping[TopicPartition, str | None],
        next_by_partition: Mapping[TopicPartition, int],
    ) -> None:
        """Stores the next offset of each topic partition. Only updates rows: `read` creates and
        locks them."""
        for at, offset in sorted(next_by_partition.items()):
            self._update(connection, stored_topic(at.topic, ids[at]), at.partition, offset)

    def replace(
        self, connection: Connection, next_by_partition: Mapping[TopicPartition, int]
    ) -> None:
        """Replaces what is stored for topic partitions, whatever the ids of their topics: the next
        task continues at these offsets."""
        mark = connection.placeholder
        connector, topic, partition, _ = self._names
        select = (
            f"SELECT {topic} FROM {self._table} WHERE {connector} = {mark} AND {partition} = {mark}"
        )
        for at, offset in sorted(next_by_partition.items()):
            for (name,) in connection.rows(select, (self.connector, at.partition)):
                if _is_of(str(name), at.topic):
                    self._delete(connection, str(name), at.partition)
            self._begin(connection, at.topic, at.partition, offset)

    def _begin(self, connection: Connection, topic: str, partition: int, offset: int) -> None:
        begin = self.dialect.begin_offset(self.table, connection.placeholder)
        connection.execute(begin, (self.connector, topic, partition, offset))

    def _next(self, connection: Connection, topic: str, partition: int, locking: str = "") -> int:
        select = f"SELECT {self._names[-1]} FROM {self._table} WHERE {self._row(connection)}"
        rows = connection.rows(select + locking, (self.connector, topic, partition))
        return int(rows[0][0]) if rows else 0

    def _update(self, connection: Connection, topic: str, partition: int, offset: int) -> None:
        next_offset = f"{self._names[-1]} = {connection.placeholder}"
        update = f"UPDATE {self._table} SET {next_offset} WHERE {self._row(connection)}"
        connection.execute(update, (offset, self.connector, topic, partition))

    def _delete(self, connection: Connection, topic: str, partition: int) -> None:
        delete = f"DELETE FROM {self._table} WHERE {self._row(connection)}"
        connection.execute(delete, (self.connector, topic, partition))

    @property
    def _table(self) -> str:
        return self.dialect.qualified(self.table)

    @property
    def _names(self) -> list[str]:
        return [self.dialect.quoted(name) for name in OFFSET_COLUMNS]

    def _row(self, connection: Connection) -> str:
        """The condition for the row of a partition."""
        return " AND ".join(f"{name} = {connection.placeholder}" for name in self._names[:-1])


def _is_of(stored: str, topic: str) -> bool:
    _, at, id = stored.partition("@")
    return stored == (stored_topic(topic, id) if at else topic)


def below(
    partitions: Iterable[TopicPartition],
    offsets: Iterable[int],
    next_by_partition: Mapping[TopicPartition, int],
) -> set[int]:
    """The rows whose records were written before."""
    cells = zip(partitions, offsets, strict=True)
    return {row for row, (at, offset) in enumerate(cells) if offset < next_by_partition[at]}

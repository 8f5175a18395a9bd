"""What a family is: a sink under chaos, its real server, and what the server must hold.

`keyed`: the last record of each key, and nothing under a key whose last record is a tombstone.
Otherwise every record, in the order of its partition where the store has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

HOT: Final = 40
"""How many keys come again and again, `hot0` and so on; those of other records begin with `k`."""

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {"field": "n", "type": "int64"},
        {"field": "id", "type": "string"},
        {"field": "text", "type": "string"},
    ],
}


class Family(ABC):
    """A sink connector and its server. As a context manager the server runs."""

    keyed = True  # the store holds the last record of each key
    deletes = True  # a tombstone deletes
    kills = True  # the server keeps what it acknowledged when it is killed
    reports = True  # a record that the server refuses goes to the dead letter queue
    blocks = False  # a refusal is of all records, not of some keys
    retries = False  # a refusal is a fault of the server: the sink waits for its end
    schema = False  # values are written with their schema
    networked = True  # the sink connects to `port`

    @property
    @abstractmethod
    def port(self) -> int:
        """Where the server listens."""

    @abstractmethod
    def prepare(self, topic: str) -> None:
        """Makes what the sink writes to."""

    @abstractmethod
    def config(self, topic: str, port: int) -> dict[str, str]:
        """The connector's configuration; it connects to the server through `port`."""

    @abstractmethod
    def refuse(self, keys: Iterable[str]) -> None:
        """From now on the server itself refuses new records with these keys."""

    @abstractmethod
    def mend(self) -> None:
        """Ends all refusals."""

    @abstractmethod
    def stored(self) -> Iterable[tuple[str, int]]:
        """Key and number of what is stored; an append-only store has them in its order."""

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def value(self, key: str, number: int) -> bytes:
        """The value of a record."""
        row = {"n": number, "id": key, "text": f"row {number}"}
        return orjson.dumps({"schema": _SCHEMA, "payload": row} if self.schema else row)

    def headers(self, number: int) -> Sequence[tuple[str, bytes]]:
        """The headers of a record."""
        return ()

    def stream(self, key: str, number: int) -> object:
        """Which records of a partition are in order in an append-only store: those with the same
        value; by default all."""
        return None

    def number_of(self, value: bytes) -> int:
        """The number in a record's value."""
        row = orjson.loads(value)
        return int((row["payload"] if self.schema else row)["n"])


class Marking(Family):
    """A family whose server refuses by a field of the value: `mark`, which is the record's own
    unless its key is refused when it is appended."""

    def __init__(self) -> None:
        self._refused: frozenset[str] = frozenset()

    @abstractmethod
    def mark(self, key: str, number: int) -> Any:
        """The mark of a record that the server refuses."""

    @abstractmethod
    def refuse_marks(self, keys: Iterable[str]) -> None:
        """From now on the server refuses the marks of these keys' records."""

    @abstractmethod
    def accept_marks(self) -> None:
        """From now on the server accepts every mark."""

    def own_mark(self, key: str, number: int) -> Any:
        """The mark of a record that the server accepts."""
        return key

    def refuse(self, keys: Iterable[str]) -> None:
        names = frozenset(keys)
        self.refuse_marks(names)
        self._refused = names

    def mend(self) -> None:
        self._refused = frozenset()
        self.accept_marks()

    def value(self, key: str, number: int) -> bytes:
        mark = self.mark if key in self._refused else self.own_mark
        return orjson.dumps({"n": number, "id": key, "mark": mark(key, number)})

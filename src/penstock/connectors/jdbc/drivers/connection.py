"""Connections to databases, as reading and writing use them."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, Self

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.errors import DatabaseAway, DatabaseRefused
from penstock.connectors.jdbc.drivers.url import Url

Row = tuple[Any, ...]
Parameters = Sequence[object]

BLOCK_ROWS: Final = 8192
"""Rows of a query that are taken at a time."""


class Connection(ABC):
    """A connection, in no transaction unless `transaction` begins one. Statements have
    `placeholder` for parameters; `raw` is the driver's own connection, to be used within
    `errors`."""

    placeholder: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()  # of the extra `jdbc`, that it imports

    def __init__(self, url: Url, raw: Any) -> None:
        self.url = url
        self.kind = url.kind
        self.raw = raw

    @classmethod
    @abstractmethod
    def open(cls, url: Url) -> Self:
        """A new connection; raises what the driver raises."""

    @staticmethod
    @abstractmethod
    def error_of(error: Exception) -> PenstockError:
        """The error of ours that says what a driver's means; its message is the database's own."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """False once it was closed or is known to be lost."""

    @contextlib.contextmanager
    def errors(self, doing: str = "") -> Iterator[None]:
        """What the driver raises inside is raised as one of ours (`drivers.errors`); `doing` says
        in their messages what was being done (`writing to table "t"`)."""
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:
            what = self.error_of(error)
            # The last words of a server that goes down are about whatever it lost first (a
            # parallel worker: SQLSTATE 55000).
            gone = isinstance(what, DatabaseRefused) and not self.is_open
            kind = DatabaseAway if gone else type(what)
            raise kind(f"{doing}: {what}" if doing else str(what)) from error

    @abstractmethod
    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Runs a statement; how many rows it changed, or -1 where that means nothing."""

    @abstractmethod
    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """All rows of a query."""

    @abstractmethod
    def stream(
        self, sql: str, parameters: Parameters = (), size: int = BLOCK_ROWS
    ) -> Iterator[list[Row]]:
        """The rows of a query, at most `size` at a time and never all at once in memory. On
        PostgreSQL inside a transaction only; on MySQL nothing else can be asked until the last row
        was read or the iterator is closed."""

    @abstractmethod
    def many(self, sql: str, rows: Iterable[Parameters]) -> None:
        """Runs a statement for every row of parameters."""

    @abstractmethod
    def transaction(
        self, *, isolation: str = "", writing: bool = True
    ) -> contextlib.AbstractContextManager[None]:
        """What is done inside is done wholly, or not at all if anything is raised. `isolation` is
        a level in SQL's words (`REPEATABLE READ`); with `writing`, SQLite takes its lock first."""

    @abstractmethod
    def savepoint(self) -> contextlib.AbstractContextManager[None]:
        """Within a transaction: what is done inside is undone when a row is refused."""

    @abstractmethod
    def isolate(self, level: str) -> None:
        """Has further transactions run in that level, in SQL's words."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of it; safe to call twice, and when it is lost."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def in_quotes(name: str, quotes: tuple[str, str]) -> str:
    """A name as it stands in statements, with what opens and closes it there; two empty texts: a
    database that knows no quotes.

    >>> in_quotes("a]b", ("[", "]"))
    '[a]]b]'
    """
    begin, end = quotes
    return f"{begin}{name.replace(end, end * 2)}{end}" if end else name

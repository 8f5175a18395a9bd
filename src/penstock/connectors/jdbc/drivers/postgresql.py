"""PostgreSQL, by psycopg."""

from __future__ import annotations

import itertools
import re
from typing import Any, Final, Self

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.dbapi import DbApiConnection
from penstock.connectors.jdbc.drivers.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    RowRefused,
    other_error,
    with_advice,
)
from penstock.connectors.jdbc.drivers.url import Url

_names = itertools.count(1)

_AWAY: Final = ("08", "53", "58", "57P", "25006", "XX")
"""Connection, resources (disk, memory, too many clients), system, shutdown, a server that became a
standby, internal errors."""
_LOST_WORKER: Final = "lost connection to parallel worker"
"""The last message of a killed server (55000), if another of its processes was killed first."""
_BUSY: Final = ("40", "55P03", "55006", "57014", "0A000")
"""Conflicts and deadlocks, locks, statement timeouts; 0A000: a plan is older than the table."""
_ROW: Final = ("21000", "22", "23", "42804", "42846", "44", "P0001")
"""Several rows of a statement for one row of the table, data, constraints, a type that does not fit
the column, the check of a view, an exception of a trigger."""

_TLS: Final = {
    "certificate verify failed": "sslrootcert must name a file with the CA of the server's "
    "certificate",
    "does not match host name": "use the host name in the certificate, or skip host name "
    "verification (sslmode=verify-ca)",
}
"""Advice about a server's certificate, by words of libpq's message."""

_REFUSALS: Final = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "permission denied",
    "no pg_hba.conf entry",
    "certificate verify failed",
    "does not match host name",
    "server does not support SSL",
    "root certificate file",
    "could not load",
    "is not permitted to log in",
)


class PostgresqlConnection(DbApiConnection):
    """A psycopg connection."""

    modules = ("psycopg",)

    @classmethod
    def open(cls, url: Url) -> Self:
        import psycopg

        options: dict[str, Any] = {name: str(value) for name, value in url.options.items()}
        raw = psycopg.connect(
            host=",".join(host for host, _ in url.hosts),
            port=",".join(str(port) for _, port in url.hosts),
            dbname=url.database,
            user=url.user,
            password=url.password.value if url.password else None,
            client_encoding="UTF8",
            autocommit=True,
            prepare_threshold=None,  # statements survive neither a pooler nor a change of the table
            **options,
        )
        return cls(url, raw)

    @staticmethod
    def error_of(error: Exception) -> PenstockError:
        import psycopg

        if not isinstance(error, psycopg.Error):
            return other_error(error)
        state = error.sqlstate
        if state is None:
            text = str(error).strip()
            if isinstance(error, psycopg.DataError):
                return RowRefused(text)
            if isinstance(error, psycopg.OperationalError):
                return _connect_error(text)
            return DatabaseRefused(text)
        parts = [error.diag.message_primary or str(error), error.diag.message_detail]
        text = f"{'. '.join(part.rstrip('.') for part in parts if part)} (SQLSTATE {state})"
        if state.startswith(_AWAY) or _LOST_WORKER in text:
            return DatabaseAway(text)
        if state.startswith(_BUSY):
            return DatabaseBusy(text)
        if state.startswith(_ROW):
            column = error.diag.column_name or _copied_column(error.diag.context or "")
            unnamed = column and f'"{column}"' not in text
            return RowRefused(f"column '{column}': {text}" if unnamed else text)
        return DatabaseRefused(text)

    @property
    def is_open(self) -> bool:
        return not self.raw.closed

    def transaction_id(self) -> str | None:
        ((number,),) = self.rows("SELECT txid_current_if_assigned()::text")
        return None if number is None else str(number)

    def was_committed(self, transaction_id: str) -> bool:
        try:
            ((status,),) = self.rows("SELECT txid_status(%s::bigint)", (transaction_id,))
        except RowRefused:  # it is in the future: this server has taken over without it
            return False
        if status == "in progress":
            raise DatabaseBusy(f"the lost transaction {transaction_id} has not ended yet")
        return bool(status == "committed")

    def isolate(self, level: str) -> None:
        self.execute(f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}")

    def _begin(self, isolation: str, writing: bool) -> None:
        self.execute(f"BEGIN ISOLATION LEVEL {isolation}" if isolation else "BEGIN")

    def _streaming(self) -> Any:
        return self.raw.cursor(name=f"penstock_{next(_names)}")


def _copied_column(context: str) -> str | None:
    """The column at which COPY failed; PostgreSQL reports it only as part of the context.

    >>> _copied_column('COPY orders, line 7, column note: "what a customer wrote"')
    'note'
    """
    column = re.match(r"COPY .*?, line \d+, column (.+?)(?:: |, |$)", context)
    return column and column[1]


def _connect_error(text: str) -> PenstockError:
    """The error for a failure to connect: libpq reports a message and no code."""
    if any(words in text for words in _REFUSALS):
        return DatabaseRefused(with_advice(text, _TLS))
    return DatabaseAway(text)

"""Connections to databases, and what their errors mean.

A connection is in no transaction unless `transaction` begins one. Whatever the driver raises comes
out as one of four errors, so that nobody else need know a database's codes:

    DatabaseAway     not reached, gone, out of room: try again     (retriable)
    DatabaseBusy     a deadlock, a lock, a conflict: try again     (retriable)
    RowRefused       a value that does not fit, a constraint       (the record's own fault)
    DatabaseRefused  everything else: password, privilege, SQL     (the task's fault)
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import sqlite3
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.api import DataError, PenstockError, Unavailable
from penstock.connectors.jdbc.url import Kind, Url, UrlInvalid

log = logging.getLogger(__name__)

Row = tuple[Any, ...]
Parameters = Sequence[object]

_SQLITE_BUSY_S: Final = 30.0
_names = itertools.count(1)


class DatabaseAway(Unavailable):
    """The database cannot be reached, has closed the connection, or has no room."""

    code = "jdbc.away"


class DatabaseBusy(Unavailable):
    """Others were in the way: a deadlock, a lock that was not given, a conflicting transaction."""

    code = "jdbc.busy"


class RowRefused(DataError):
    """The database refuses a row for what is in it; others of the batch may be good."""

    code = "jdbc.row"


class DatabaseRefused(PenstockError):
    """The database refuses what was asked; trying again would not help."""

    code = "jdbc.refused"


@dataclass(frozen=True, slots=True)
class Database:
    """One database, by its URL. `connect` tries `attempts` times, `backoff_ms` apart, as long as
    it is away."""

    url: Url
    attempts: int = 3
    backoff_ms: int = 10_000

    def connect(self) -> Connection:
        """A new connection. Raises DatabaseAway when the last attempt fails, and DatabaseRefused
        (a wrong password, no such database) at once."""
        for attempt in itertools.count(1):
            try:
                return self._connect()
            except DatabaseAway as error:
                if attempt >= self.attempts:
                    raise
                log.warning("Attempt %d of %d to connect failed: %s", attempt, self.attempts, error)
            threading.Event().wait(self.backoff_ms / 1000)
        raise AssertionError("unreachable")

    def _connect(self) -> Connection:
        try:
            if self.url.kind is Kind.OTHER:
                from penstock.connectors.jdbc.driver import DriverConnection, open_driver

                return DriverConnection(self.url, open_driver(self.url))
            return Connection(self.url, _OPEN[self.url.kind](self.url))
        except PenstockError:
            raise
        except (Exception, ssl.SSLError) as error:
            what = told(self.url.kind, error)
            raise type(what)(
                f"Cannot connect to {self.url.shown} (connection.url){_as_user(self.url)}: {what}"
            ) from error


def _as_user(url: Url) -> str:
    return f" as '{url.user}'" if url.user else ""


def in_quotes(name: str, quotes: tuple[str, str]) -> str:
    """A name as it stands in statements, with what opens and closes it there; two empty texts: a
    database that knows no quotes.

    >>> in_quotes("a]b", ("[", "]"))
    '[a]]b]'
    """
    begin, end = quotes
    return f"{begin}{name.replace(end, end * 2)}{end}" if end else name


class Connection:
    """A connection. Statements have `%s` (PostgreSQL, MySQL) or `?` (SQLite) for parameters, see
    `placeholder`; `raw` is the driver's own connection, to be used within `errors`."""

    def __init__(self, url: Url, raw: Any) -> None:
        self.url = url
        self.kind = url.kind
        self.raw = raw

    @property
    def placeholder(self) -> str:
        return "?" if self.kind is Kind.SQLITE else "%s"

    @property
    def is_open(self) -> bool:
        """False once it was closed or is known to be lost."""
        match self.kind:
            case Kind.POSTGRESQL:
                return not self.raw.closed
            case Kind.MYSQL:
                return bool(self.raw.open)
            case Kind.SQLITE | Kind.OTHER:
                return self.raw is not None

    @contextlib.contextmanager
    def errors(self, doing: str = "") -> Iterator[None]:
        """What the driver raises inside is raised as one of the errors above; `doing` says in
        their messages what was being done (`writing to table "t"`)."""
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:
            what = told(self.kind, error)
            # The last words of a server that goes down are about whatever it lost first (a
            # parallel worker: SQLSTATE 55000).
            gone = isinstance(what, DatabaseRefused) and not self.is_open
            kind = DatabaseAway if gone else type(what)
            raise kind(f"{doing}: {what}" if doing else str(what)) from error

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Runs a statement; how many rows it changed, or -1 where that means nothing."""
        with self.errors(), contextlib.closing(self.raw.cursor()) as cursor:
            self._run(cursor, sql, parameters)
            return int(cursor.rowcount)

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """All rows of a query."""
        with self.errors(), contextlib.closing(self.raw.cursor()) as cursor:
            self._run(cursor, sql, parameters)
            return [tuple(row) for row in cursor.fetchall()]

    def stream(
        self, sql: str, parameters: Parameters = (), size: int = 10_000
    ) -> Iterator[list[Row]]:
        """The rows of a query, at most `size` at a time and never all at once in memory. On
        PostgreSQL inside a transaction only; on MySQL nothing else can be asked until the last row
        was read or the iterator is closed."""
        with self.errors(), contextlib.closing(self._streaming()) as cursor:
            self._run(cursor, sql, parameters)
            while rows := cursor.fetchmany(size):
                yield list(rows)

    def many(self, sql: str, rows: Iterable[Parameters]) -> None:
        """Runs a statement for every row of parameters."""
        with self.errors(), contextlib.closing(self.raw.cursor()) as cursor:
            cursor.executemany(sql, rows)

    @contextlib.contextmanager
    def transaction(self, *, isolation: str = "", writing: bool = True) -> Iterator[None]:
        """What is done inside is done wholly, or not at all if anything is raised. `isolation` is
        a level in SQL's words (`REPEATABLE READ`); with `writing`, SQLite takes its lock first."""
        if isolation and self.kind is Kind.MYSQL:
            self.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        match self.kind:
            case Kind.POSTGRESQL:
                self.execute(f"BEGIN ISOLATION LEVEL {isolation}" if isolation else "BEGIN")
            case Kind.MYSQL:
                self.execute("START TRANSACTION")
            case Kind.SQLITE:
                self.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
            case Kind.OTHER:
                raise NotImplementedError  # `driver.DriverConnection` does it
        try:
            yield
        except BaseException:
            with contextlib.suppress(PenstockError):  # the first error is what is told
                self._end("ROLLBACK")
            raise
        self._end("COMMIT")

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """Within a transaction: what is done inside is undone when a row is refused."""
        self.execute("SAVEPOINT penstock")
        try:
            yield
        except RowRefused:
            self.execute("ROLLBACK TO SAVEPOINT penstock")
            raise
        self.execute("RELEASE SAVEPOINT penstock")

    def close(self) -> None:
        """Lets go of it; safe to call twice, and when it is lost."""
        raw, lost = self.raw, not self.is_open
        if lost:
            return
        with contextlib.suppress(Exception):
            raw.close()
        if self.kind is Kind.SQLITE:
            self.raw = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, how: str) -> None:
        if self.kind is Kind.SQLITE and not self.raw.in_transaction:
            return  # SQLite ends it by itself for some errors, such as a full disk
        self.execute(how)

    def _streaming(self) -> Any:
        match self.kind:
            case Kind.POSTGRESQL:
                return self.raw.cursor(name=f"penstock_{next(_names)}")
            case Kind.MYSQL:
                from pymysql.cursors import SSCursor

                return self.raw.cursor(SSCursor)
            case Kind.SQLITE | Kind.OTHER:
                return self.raw.cursor()

    def _run(self, cursor: Any, sql: str, parameters: Parameters) -> None:
        if parameters:
            cursor.execute(sql, parameters)
        else:
            cursor.execute(sql)  # without parameters a '%' is a '%'


# ── opening ──────────────────────────────────────────────────────────────────────────────────────


def _open_postgresql(url: Url) -> Any:
    import psycopg

    options: dict[str, Any] = {name: str(value) for name, value in url.options.items()}
    return psycopg.connect(
        host=",".join(host for host, _ in url.hosts),
        port=",".join(str(port) for _, port in url.hosts),
        dbname=url.database,
        user=url.user,
        password=url.password.value if url.password else None,
        client_encoding="UTF8",
        autocommit=True,
        prepare_threshold=None,  # statements outlive neither a pooler nor a change of the table
        **options,
    )


def _open_mysql(url: Url) -> Any:
    import pymysql

    failure: Exception | None = None
    for host, port in url.hosts:
        try:
            return _mysql_at(host, port, url)
        except (pymysql.err.OperationalError, OSError) as error:
            failure = error
            if not isinstance(told(Kind.MYSQL, error), DatabaseAway):
                raise
    assert failure is not None
    raise failure


def _mysql_at(host: str, port: int, url: Url) -> Any:
    import pymysql
    from pymysql.constants import CLIENT

    options = url.options
    create = options.get("create_database")
    connect: Any = pymysql.connect
    raw = connect(
        host=host,
        port=port,
        user=url.user or "",
        password=url.password.value if url.password else "",
        database=None if create or not url.database else url.database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=int(options.get("connect_timeout", 10)),
        read_timeout=int(options["read_timeout"]) if "read_timeout" in options else None,
        local_infile=bool(options.get("local_infile", False)),
        client_flag=CLIENT.FOUND_ROWS,  # as the JVM's drivers count: rows found, not changed
        **_mysql_tls(url),
    )
    try:
        with contextlib.closing(raw.cursor()) as cursor:
            if create and url.database:
                name = in_quotes(url.database, ("`", "`"))
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS {name}")
                raw.select_db(url.database)
            if variables := options.get("variables"):
                cursor.execute(f"SET SESSION {variables}")
    except BaseException:
        raw.close()
        raise
    return raw


def _mysql_tls(url: Url) -> dict[str, Any]:
    mode = url.options.get("ssl", "preferred")
    files = {
        name: str(url.options[name])
        for name in ("ssl_ca", "ssl_cert", "ssl_key")
        if name in url.options
    }
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and not files:
        return {}
    with _usable("serverSslCert", files.get("ssl_ca")):
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
    context.check_hostname = mode == "verify-full"
    if mode in ("preferred", "required"):
        context.verify_mode = ssl.CERT_NONE
    if "ssl_cert" in files:
        with _usable("sslCert (and sslKey)", files["ssl_cert"]):
            context.load_cert_chain(files["ssl_cert"], files.get("ssl_key"))
    return {"ssl": context}


@contextlib.contextmanager
def _usable(parameter: str, file: str | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        raise UrlInvalid(
            f"the file '{file}' that {parameter} names cannot be used: {error}"
        ) from error


def _open_sqlite(url: Url) -> Any:
    raw = sqlite3.connect(
        url.database,
        timeout=_SQLITE_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        uri=url.database.startswith("file:"),
    )
    try:
        for name, value in url.options.items():
            raw.execute(f"PRAGMA {name} = {value}").close()
        raw.execute("SELECT 1 FROM sqlite_master LIMIT 1").close()  # opened only now, if at all
    except BaseException:
        raw.close()
        raise
    return raw


_OPEN: Final = {
    Kind.POSTGRESQL: _open_postgresql,
    Kind.MYSQL: _open_mysql,
    Kind.SQLITE: _open_sqlite,
}


# ── what errors mean ─────────────────────────────────────────────────────────────────────────────

_PG_AWAY: Final = ("08", "53", "58", "57P", "25006", "XX")
"""Connection, resources (disk, memory, too many clients), system, shutdown, a server that became a
standby, an internal error."""
_PG_LOST_WORKER: Final = "lost connection to parallel worker"
"""What a killed server says last (55000), when another of its processes was killed first."""
_PG_BUSY: Final = ("40", "55P03", "55006", "57014", "0A000")
"""Conflicts and deadlocks, locks, statement timeouts; 0A000: a plan is older than the table."""
_PG_ROW: Final = ("22", "23", "42804", "42846", "44", "P0001")
"""Data, constraints, a type that does not fit the column, a view's check, a trigger's refusal."""

_PG_TLS: Final = {
    "certificate verify failed": "the file that sslrootcert names has to hold the authority of the "
    "server's certificate",
    "does not match host name": "name the host as the certificate does, or do not check it "
    "(sslmode=verify-ca)",
}
"""What may be done about a server's certificate, by words of libpq's."""

_MYSQL_AWAY: Final = frozenset(
    {3, 1021, 1037, 1038, 1040, 1041, 1053, 1077, 1078, 1079, 1080, 1114, 1129, 1152, 1158, 1159}
    | {1160, 1161, 1184, 1189, 1190, 1203, 1226, 1290, 1836, 1927, 2002, 2003, 2006, 2013, 2055}
    | {0, 4031}
)
_MYSQL_BUSY: Final = frozenset({1020, 1099, 1192, 1205, 1213, 1317, 1412, 1613, 1969, 3024, 3572})
_MYSQL_ROW: Final = frozenset(
    {1048, 1062, 1136, 1216, 1217, 1264, 1265, 1292, 1364, 1366, 1367, 1369, 1406, 1411, 1416, 1451}
    | {1452, 1525, 1526, 1586, 1644, 1690, 1761, 1762, 3140, 3819, 4025, 4078}
)

_MYSQL_TLS: Final = {
    "certificate is not valid for": "name the host as the certificate does, or do not check it "
    "(sslMode=VERIFY_CA)",
    **dict.fromkeys(
        ("self-signed certificate", "self signed certificate", "issuer certificate"),
        "the file that serverSslCert names has to hold the authority of the server's certificate",
    ),
}
"""The same by words of OpenSSL's, which say enough themselves of other reasons."""

_SQLITE_AWAY: Final = frozenset({7, 10, 13, 14, 15})  # NOMEM, IOERR, FULL, CANTOPEN, PROTOCOL
_SQLITE_BUSY: Final = frozenset({5, 6, 17})  # BUSY, LOCKED, SCHEMA
_SQLITE_ROW: Final = frozenset({18, 19, 20, 25})  # TOOBIG, CONSTRAINT, MISMATCH, RANGE


def told(kind: Kind, error: Exception) -> PenstockError:
    """The error of ours that says what a driver's means; its message is the database's own."""
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, OverflowError | UnicodeError):
        return RowRefused(str(error))  # a value that the driver cannot even send
    match kind:
        case Kind.OTHER:
            from penstock.connectors.jdbc.driver import told_by_driver

            return told_by_driver(error)
        case Kind.POSTGRESQL:
            return _told_postgresql(error)
        case Kind.MYSQL:
            return _told_mysql(error)
        case Kind.SQLITE:
            return _told_sqlite(error)


def _told_postgresql(error: Exception) -> PenstockError:
    import psycopg

    if not isinstance(error, psycopg.Error):
        return told_otherwise(error)
    state = error.sqlstate
    if state is None:
        text = str(error).strip()
        if isinstance(error, psycopg.DataError):
            return RowRefused(text)
        if isinstance(error, psycopg.OperationalError):
            return _unreached(text)
        return DatabaseRefused(text)
    parts = [error.diag.message_primary or str(error), error.diag.message_detail]
    text = f"{'. '.join(part.rstrip('.') for part in parts if part)} (SQLSTATE {state})"
    if state.startswith(_PG_AWAY) or _PG_LOST_WORKER in text:
        return DatabaseAway(text)
    if state.startswith(_PG_BUSY):
        return DatabaseBusy(text)
    if state.startswith(_PG_ROW):
        column = error.diag.column_name or _copied_column(error.diag.context or "")
        unsaid = column and f'"{column}"' not in text
        return RowRefused(f"column '{column}': {text}" if unsaid else text)
    return DatabaseRefused(text)


def _copied_column(context: str) -> str | None:
    """The column that COPY was at; PostgreSQL has it in no field of its own.

    >>> _copied_column('COPY orders, line 7, column note: "what a customer wrote"')
    'note'
    """
    found = re.match(r"COPY .*?, line \d+, column (.+?)(?:: |, |$)", context)
    return found and found[1]


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


def _unreached(text: str) -> PenstockError:
    """A failure to connect: libpq gives words for it and no code."""
    if any(words in text for words in _REFUSALS):
        return DatabaseRefused(_advised(text, _PG_TLS))
    return DatabaseAway(text)


def _advised(text: str, advice: Mapping[str, str]) -> str:
    return next((f"{text}; {more}" for words, more in advice.items() if words in text), text)


def _told_mysql(error: Exception) -> PenstockError:
    import pymysql

    if not isinstance(error, pymysql.err.Error):
        return told_otherwise(error)
    code = error.args[0] if error.args and isinstance(error.args[0], int) else None
    words = str(error.args[1]) if len(error.args) > 1 else str(error)
    text = f"{words} (error {code})" if code else words
    if code == 2003 and "certificate verify failed" in words:
        return DatabaseRefused(_advised(text, _MYSQL_TLS))
    if code in _MYSQL_AWAY:
        return DatabaseAway(text or "the connection was lost")
    if code in _MYSQL_BUSY:
        return DatabaseBusy(text)
    if code in _MYSQL_ROW or isinstance(error, pymysql.err.DataError | pymysql.err.IntegrityError):
        return RowRefused(text)
    return DatabaseRefused(text)


def _told_sqlite(error: Exception) -> PenstockError:
    if not isinstance(error, sqlite3.Error):
        return told_otherwise(error)
    code = getattr(error, "sqlite_errorcode", None)
    text = str(error)
    if code is None:  # the module's own: a value that cannot be bound
        unbound = isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError)
        return (RowRefused if unbound and "bind" in text else DatabaseRefused)(text)
    named = f"{text} ({error.sqlite_errorname})"
    primary = code & 0xFF
    if primary in _SQLITE_AWAY:
        return DatabaseAway(named)
    if primary in _SQLITE_BUSY:
        return DatabaseBusy(named)
    if primary in _SQLITE_ROW:
        return RowRefused(named)
    return DatabaseRefused(named)


def told_otherwise(error: Exception) -> PenstockError:
    """What an error means that is none of a driver's own."""
    if isinstance(error, OSError):
        return DatabaseAway(str(error))
    raise error  # a mistake of ours, with its own trace

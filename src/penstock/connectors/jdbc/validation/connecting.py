"""Connects to the database of a configuration for validation, or reports why that fails."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from penstock.api import ConfigInvalid, Finding, PenstockError
from penstock.api.settings import Config
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.errors import DatabaseAway, DatabaseBusy, DatabaseRefused
from penstock.connectors.jdbc.drivers.url import Kind, Url
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.validation.words import user_setting

log = logging.getLogger(__name__)

_CONNECT_S: Final = 3  # for each host
_STATEMENT_S: Final = 5
_LOOK_S: Final = 8.0  # after which no further table is checked

Look = Callable[[Config, Connection, float], Iterator[Finding]]
"""Checks a database until a deadline (monotonic clock)."""


def look_at(config: Config, look: Look) -> Iterator[Finding]:
    """The findings of `look`, or the reason why connecting failed."""
    url = keys.database_of(config).url
    try:
        try:
            connection = Database(_quick(url), attempts=1).connect()
        except (DatabaseAway, DatabaseRefused, ConfigInvalid) as error:
            yield from _unconnected(config, url, error)
            return
        with connection:
            until = time.monotonic() + _LOOK_S
            _limit_time(connection, until)
            yield from look(config, connection, until)
    except DatabaseBusy as error:
        log.info("Checking the configuration against the database is incomplete: %s", error)
    except DatabaseAway as error:
        yield Finding(keys.CONNECTION_URL.name, f"The connection to the database was lost: {error}")


def _quick(url: Url) -> Url:
    """The same database with short timeouts, and without creating a database or a file."""
    options = dict(url.options)
    match url.kind:
        case Kind.POSTGRESQL | Kind.MYSQL:
            options.pop("create_database", None)
            timeout_s = int(options.get("connect_timeout", _CONNECT_S))
            return replace(url, options={**options, "connect_timeout": min(timeout_s, _CONNECT_S)})
        case Kind.SQLITE:
            url = replace(url, options={"busy_timeout": _STATEMENT_S * 1000})
            file = url.database
            exists = file.startswith("file:") or os.path.exists(file)
            if not exists and os.path.isdir(os.path.dirname(file) or "."):
                # Opening the file would create it. One in memory is just as empty.
                return replace(url, database="file::memory:")
        case Kind.OTHER:
            options = {**options, "login_s": _CONNECT_S, "statement_s": _STATEMENT_S}
            return replace(url, options=options)
    return url


def _limit_time(connection: Connection, until: float) -> None:
    """Makes the database cancel statements that take long."""
    match connection.kind:
        case Kind.POSTGRESQL:
            connection.execute(f"SET statement_timeout = '{_STATEMENT_S}s'")
        case Kind.MYSQL:
            for name, limit in (
                ("max_statement_time", _STATEMENT_S),  # MariaDB
                ("max_execution_time", _STATEMENT_S * 1000),
            ):
                with contextlib.suppress(DatabaseRefused):  # each server has only one of them
                    connection.execute(f"SET SESSION {name} = {limit}")
        case Kind.SQLITE:
            connection.raw.set_progress_handler(lambda: time.monotonic() > until, 10_000)


_LOGIN_WORDS: Final = (
    "authentication failed",
    "no password supplied",
    "requires a password",
    "(sqlstate 28",  # invalid authorization, in messages of JDBC drivers
    "invalid username",
)
_NO_ENTRY: Final = "no pg_hba.conf entry"
_USER_WORDS: Final = (
    'role "',
    "is not permitted to log in",
    _NO_ENTRY,
    "permission denied for database",
)
_LOGIN_CODES: Final = frozenset({1045, 1698, 1862, 2059, 3118, 4151})
_USER_CODES: Final = frozenset({1044, 1130})
_NO_DATABASE: Final = 1049


def _unconnected(config: Config, url: Url, error: PenstockError) -> Iterator[Finding]:
    """Why connecting failed, as findings about the settings that can fix it."""
    text = " ".join(str(error).split())
    if isinstance(error, DatabaseRefused):
        message, code = text.lower(), error_code(error)
        if code == _NO_DATABASE and url.options.get("create_database"):
            return  # the first task will create it
        if code in _LOGIN_CODES or any(words in message for words in _LOGIN_WORDS):
            yield from _wrong_login(config, url, text)
            return
        if code in _USER_CODES or any(words in message for words in _USER_WORDS):
            advice = "Use another user, or grant the privilege."
            if _NO_ENTRY in message:
                advice = "Use another user, or add an entry to the server's pg_hba.conf."
            yield Finding(user_setting(config), f"{text}. {advice}")
            return
        yield Finding(keys.CONNECTION_URL.name, f"{text}. Check connection.url.")
        return
    if isinstance(error, ConfigInvalid):  # a file that the URL names
        yield Finding(keys.CONNECTION_URL.name, text)
        return
    advice = "Check that the database is running, and its host and port."
    if url.kind is Kind.SQLITE:
        advice = "Check the path."
    yield Finding(keys.CONNECTION_URL.name, f"{text}. {advice}")


def _wrong_login(config: Config, url: Url, text: str) -> Iterator[Finding]:
    """Findings about user and password: databases do not report which of them is wrong."""
    if url.password is None and url.user is not None:
        yield Finding(
            keys.CONNECTION_PASSWORD.name,
            f"{text}. The database requires a password; set connection.password.",
        )
        return
    names = [
        key.name
        for key in (keys.CONNECTION_USER, keys.CONNECTION_PASSWORD)
        if config[key] is not None
    ]
    for name in names or [keys.CONNECTION_URL.name]:
        yield Finding(name, f"{text}. The user or the password is wrong.")


def error_code(error: BaseException) -> int | None:
    """The error number of MySQL's driver."""
    args = getattr(error.__cause__, "args", ())
    return args[0] if args and isinstance(args[0], int) else None

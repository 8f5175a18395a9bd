"""The privileges that writing needs, and whether the user has them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from penstock.api import DataError, PenstockError
from penstock.api.settings import Config
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.drivers.url import Kind
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.validation.connecting import error_code
from penstock.connectors.jdbc.validation.words import capital, user
from penstock.connectors.jdbc.write.dialect import Dialect, TableFound, TableName, Write
from penstock.connectors.jdbc.write.settings import WriteSettings

_DENIED: Final = frozenset({1044, 1142, 1370})
"""Errors of MySQL that say that a privilege is lacking altogether, not only for a column."""


class Privileges:
    """What the user may do, as far as the database tells without anything being done."""

    def __init__(
        self, config: Config, connection: Connection, dialect: Dialect, settings: WriteSettings
    ) -> None:
        self._config = config
        self._connection = connection
        self._dialect = dialect
        self._settings = settings
        self._who = user(connection)

    def not_creatable(self, table: TableName) -> str | None:
        """Why a table cannot be created; None: it can, as far as is known."""
        connection = self._connection
        match connection.kind:
            case Kind.POSTGRESQL:
                schema = table.schema
                if schema is not None and not self._dialect.quoting:
                    schema = schema.lower()
                rows = connection.rows(
                    "SELECT nspname, has_schema_privilege(oid, 'CREATE') FROM pg_namespace "
                    "WHERE nspname = COALESCE(%s, current_schema())",
                    (schema,),
                )
                if not rows:
                    where = f"schema '{schema}'" if schema else "schema in the search path"
                    return f"Table {table} cannot be created: there is no {where}"
                name, may = rows[0]
                if not may:
                    return f"{capital(self._who)} may not create table {table} in schema '{name}'"
            case Kind.MYSQL:
                error = self._refusal(
                    f"CREATE TABLE IF NOT EXISTS {self._dialect.qualified(table)} (penstock INT)"
                )
                if error is not None:
                    return f"{capital(self._who)} may not create table {table}: {error}"
            case Kind.SQLITE:
                path = self._read_only()
                if path is not None:
                    return f"Table {table} cannot be created: '{path}' may not be written to"
        return None

    def needs(self, found: TableFound) -> list[str]:
        """The privileges that the dialects' ways to write need."""
        needs: list[str] = []
        match self._settings.write:
            case Write.INSERT:
                needs += ["INSERT"]
            case Write.UPSERT:
                needs += ["INSERT", "UPDATE", "SELECT"]
                if self._connection.kind is Kind.POSTGRESQL:
                    needs += ["TEMPORARY"]
                    names = self._settings.key_names
                    if names is not None and len(names) >= len(found.columns):
                        needs.remove("UPDATE")  # there is nothing but keys
            case Write.UPDATE:
                needs += ["UPDATE", "SELECT", "TEMPORARY"]
        if self._settings.deletes:
            needs += ["DELETE", "SELECT", "TEMPORARY"]
        return list(dict.fromkeys(needs))

    def lacks(self, table: TableName, found: TableFound, needs: Sequence[str]) -> list[str]:
        """Those of the privileges that the user has not even for one column."""
        match self._connection.kind:
            case Kind.POSTGRESQL:
                return [each for each in needs if not self._granted(table, each)]
            case Kind.MYSQL:
                return [each for each in needs if self._denied(table, found, each)]
            case Kind.SQLITE:
                path = self._read_only()
                return [] if path is None else [f"write access to '{path}'"]
        return []

    def _granted(self, table: TableName, privilege: str) -> bool:
        """What PostgreSQL says itself."""
        qualified = self._dialect.qualified(table)
        match privilege:
            case "TEMPORARY":
                sql = "SELECT has_database_privilege(current_database(), 'TEMPORARY')"
                return bool(self._connection.rows(sql)[0][0])
            case "DELETE":
                function = "has_table_privilege"
            case _:
                function = "has_any_column_privilege"
        sql = f"SELECT {function}(to_regclass(%s), '{privilege}')"
        return bool(self._connection.rows(sql, (qualified,))[0][0])

    def _denied(self, table: TableName, found: TableFound, privilege: str) -> bool:
        """Whether MySQL will not prepare a statement for which the privilege is needed."""
        name = self._dialect.qualified(table)
        column = self._dialect.quoted(found.columns[0].name) if found.columns else "1"
        statement = {
            "INSERT": f"INSERT INTO {name} () VALUES ()",
            "UPDATE": f"UPDATE {name} SET {column} = NULL",
            "DELETE": f"DELETE FROM {name}",
            "SELECT": f"SELECT 1 FROM {name}",
            "TEMPORARY": "CREATE TEMPORARY TABLE penstock_look (penstock INT)",
        }[privilege]
        error = self._refusal(statement)
        return error is not None and error_code(error) in _DENIED

    def _refusal(self, statement: str) -> PenstockError | None:
        """What MySQL has against a statement, by preparing it: privileges are checked by then."""
        connection = self._connection
        connection.execute("SET @penstock_look = %s", (statement,))
        try:
            connection.execute("PREPARE penstock_look FROM @penstock_look")
        except (DatabaseRefused, DataError) as error:
            return error
        connection.execute("DEALLOCATE PREPARE penstock_look")
        return None

    def _read_only(self) -> str | None:
        """What keeps an SQLite file from being written: itself or its folder; None: nothing."""
        file = keys.database_of(self._config).url.database
        if file.startswith("file:"):
            return None  # its parameters are SQLite's business
        folder = os.path.dirname(file) or "."
        for path in (folder, file):
            if os.path.exists(path) and not os.access(path, os.W_OK):
                return path
        return None

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
from penstock.connectors.jdbc.write.dialect import Dialect, ExistingTable, TableName, Write
from penstock.connectors.jdbc.write.settings import WriteSettings

_DENIED: Final = frozenset({1044, 1142, 1370})
"""Errors of MySQL for a privilege that is missing altogether, not only for a column."""


class Privileges:
    """The user's privileges, as far as the database reports them without a write."""

    def __init__(
        self, config: Config, connection: Connection, dialect: Dialect, settings: WriteSettings
    ) -> None:
        self._config = config
        self._connection = connection
        self._dialect = dialect
        self._settings = settings
        self._who = user(connection)

    def not_creatable(self, table: TableName) -> str | None:
        """Why a table cannot be created; None: no obstacle is known."""
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
                    absent = f"schema '{schema}'" if schema else "a schema in the search path"
                    return f"Table {table} cannot be created: {absent} does not exist"
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
                    return f"Table {table} cannot be created: '{path}' is not writable"
        return None

    def needs(self, existing: ExistingTable) -> list[str]:
        """The privileges that the dialects need for writing to a table."""
        needs: list[str] = []
        match self._settings.write:
            case Write.INSERT:
                needs += ["INSERT"]
            case Write.UPSERT:
                needs += ["INSERT", "UPDATE", "SELECT"]
                if self._connection.kind is Kind.POSTGRESQL:
                    needs += ["TEMPORARY"]
                    names = self._settings.key_names
                    if names is not None and len(names) >= len(existing.columns):
                        needs.remove("UPDATE")  # all columns are keys
            case Write.UPDATE:
                needs += ["UPDATE", "SELECT", "TEMPORARY"]
        if self._settings.deletes:
            needs += ["DELETE", "SELECT", "TEMPORARY"]
        return list(dict.fromkeys(needs))

    def missing(self, table: TableName, existing: ExistingTable, needs: Sequence[str]) -> list[str]:
        """The privileges that the user does not have for any column."""
        match self._connection.kind:
            case Kind.POSTGRESQL:
                return [privilege for privilege in needs if not self._granted(table, privilege)]
            case Kind.MYSQL:
                return [
                    privilege for privilege in needs if self._denied(table, existing, privilege)
                ]
            case Kind.SQLITE:
                path = self._read_only()
                return [] if path is None else [f"write access to '{path}'"]
        return []

    def _granted(self, table: TableName, privilege: str) -> bool:
        """Whether the user has a privilege, according to PostgreSQL's own functions."""
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

    def _denied(self, table: TableName, existing: ExistingTable, privilege: str) -> bool:
        """Whether MySQL refuses to prepare a statement that needs the privilege."""
        name = self._dialect.qualified(table)
        column = self._dialect.quoted(existing.columns[0].name) if existing.columns else "1"
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
        """MySQL's error on preparing a statement, which checks privileges; None: it is allowed."""
        connection = self._connection
        connection.execute("SET @penstock_look = %s", (statement,))
        try:
            connection.execute("PREPARE penstock_look FROM @penstock_look")
        except (DatabaseRefused, DataError) as error:
            return error
        connection.execute("DEALLOCATE PREPARE penstock_look")
        return None

    def _read_only(self) -> str | None:
        """The path without write access, an SQLite file or its folder; None: neither."""
        file = keys.database_of(self._config).url.database
        if file.startswith("file:"):
            return None  # only SQLite knows the meaning of its parameters
        folder = os.path.dirname(file) or "."
        for path in (folder, file):
            if os.path.exists(path) and not os.access(path, os.W_OK):
                return path
        return None

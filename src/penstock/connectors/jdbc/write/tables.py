"""The tables that records go to: found, created and altered as the settings allow."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused, RowRefused
from penstock.connectors.jdbc.write.dialect import Dialect, TableFound, TableName, Wanted
from penstock.connectors.jdbc.write.settings import WriteSettings

log = logging.getLogger(__name__)


class TableMismatch(PenstockError):
    """A table does not have what records need, and may not be changed, or cannot be."""

    code = "jdbc.table"


class Tables:
    """The tables of one connection, as they were found or made on it."""

    def __init__(self, connection: Connection, dialect: Dialect, settings: WriteSettings) -> None:
        self._connection = connection
        self._dialect = dialect
        self._settings = settings
        self._known: dict[TableName, TableFound] = {}

    def fitting(self, table: TableName, wanted: Sequence[Wanted]) -> TableFound:
        """The table, with all the columns that are wanted."""
        found = self._known.get(table) or self._dialect.table(self._connection, table)
        if found is None:
            found = self._created(table, wanted)
        unfit = self._settings.shut_out(table, found)
        if unfit is not None:
            raise TableMismatch(unfit)
        missing = [each for each in wanted if found.column(each.name) is None]
        if missing:
            found = self._evolved(table, found.type, missing)
        self._known[table] = found
        return found

    def _created(self, table: TableName, wanted: Sequence[Wanted]) -> TableFound:
        if not self._settings.auto_create:
            raise TableMismatch(
                f"Table {table} is missing and auto-creation is disabled: create it, or set "
                "auto.create"
            )
        statement = self._dialect.create(table, wanted)
        log.info("creating table %s: %s", table, statement)
        try:
            self._connection.execute(statement)
        except (DatabaseRefused, RowRefused) as error:
            # Another task may have been faster; IF NOT EXISTS does not see all of that.
            if self._dialect.table(self._connection, table) is None:
                raise DatabaseRefused(f"Table {table} cannot be created: {error}") from error
        found = self._dialect.table(self._connection, table)
        if found is None:
            raise TableMismatch(f"Table {table} was created, and is not found")
        return found

    def _evolved(self, table: TableName, type: str, missing: Sequence[Wanted]) -> TableFound:
        names = ", ".join(f"'{each.name}'" for each in missing)
        if type == "VIEW":
            raise TableMismatch(
                f"View {table} is missing fields ({names}) and views cannot be altered"
            )
        for each in missing:
            if not each.schema.optional and each.schema.default is None:
                raise TableMismatch(
                    f"Cannot ALTER TABLE {table} to add missing field '{each.name}' "
                    f"({each.schema.type.name}), as the field is not optional and does not have a "
                    "default value"
                )
        if not self._settings.auto_evolve:
            raise TableMismatch(
                f"Table {table} is missing fields ({names}) and auto-evolution is disabled: add "
                "them, leave them out with fields.whitelist, or set auto.evolve"
            )
        try:
            for statement in self._dialect.add(table, missing):
                log.info("amending table %s: %s", table, statement)
                self._connection.execute(statement)
        except (DatabaseRefused, RowRefused) as error:
            found = self._dialect.table(self._connection, table)
            if found is None or any(found.column(each.name) is None for each in missing):
                raise DatabaseRefused(f"Table {table} cannot be altered: {error}") from error
        found = self._dialect.table(self._connection, table)
        if found is None:
            raise TableMismatch(f"Table {table} was altered, and is not found")
        return found

"""The tables that records are written to: looked up, created and altered as the settings allow."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused, RowRefused
from penstock.connectors.jdbc.write.dialect import Dialect, ExistingTable, TableName, Wanted
from penstock.connectors.jdbc.write.settings import WriteSettings

log = logging.getLogger(__name__)


class TableMismatch(PenstockError):
    """A table lacks columns or keys that records need, and cannot or may not be changed."""


class Tables:
    """The tables of one connection, cached when looked up or created."""

    def __init__(self, connection: Connection, dialect: Dialect, settings: WriteSettings) -> None:
        self._connection = connection
        self._dialect = dialect
        self._settings = settings
        self._known: dict[TableName, ExistingTable] = {}

    def fitting(self, table: TableName, wanted: Sequence[Wanted]) -> ExistingTable:
        """The table with all wanted columns, created or altered if necessary. Raises TableMismatch
        or DatabaseRefused if impossible."""
        existing = self._known.get(table) or self._dialect.table(self._connection, table)
        if existing is None:
            existing = self._created(table, wanted)
        refusal = self._settings.refusal(table, existing)
        if refusal is not None:
            raise TableMismatch(refusal)
        missing = [column for column in wanted if existing.column(column.name) is None]
        if missing:
            existing = self._evolved(table, existing.type, missing)
        self._known[table] = existing
        return existing

    def _created(self, table: TableName, wanted: Sequence[Wanted]) -> ExistingTable:
        if not self._settings.auto_create:
            raise TableMismatch(
                f"Table {table} is missing and auto-creation is disabled: create it, or set "
                "auto.create"
            )
        statement = self._dialect.create(table, wanted)
        log.info("Creating table %s: %s", table, statement)
        try:
            self._connection.execute(statement)
        except (DatabaseRefused, RowRefused) as error:
            # Another task may have been faster, which IF NOT EXISTS does not always detect.
            if self._dialect.table(self._connection, table) is None:
                raise DatabaseRefused(f"Table {table} cannot be created: {error}") from error
        existing = self._dialect.table(self._connection, table)
        if existing is None:
            raise TableMismatch(f"Table {table} was created, but cannot be found")
        return existing

    def _evolved(self, table: TableName, type: str, missing: Sequence[Wanted]) -> ExistingTable:
        names = ", ".join(f"'{column.name}'" for column in missing)
        if type == "VIEW":
            raise TableMismatch(
                f"View {table} is missing fields ({names}) and views cannot be altered"
            )
        for column in missing:
            if not column.schema.optional and column.schema.default is None:
                raise TableMismatch(
                    f"Cannot ALTER TABLE {table} to add missing field '{column.name}' "
                    f"({column.schema.type.name}), as the field is not optional and does not have "
                    "a default value"
                )
        if not self._settings.auto_evolve:
            raise TableMismatch(
                f"Table {table} is missing fields ({names}) and auto-evolution is disabled: add "
                "them, exclude them with fields.whitelist, or set auto.evolve"
            )
        try:
            for statement in self._dialect.add(table, missing):
                log.info("Altering table %s: %s", table, statement)
                self._connection.execute(statement)
        except (DatabaseRefused, RowRefused) as error:
            # Another task may have added some of them in the meantime.
            existing = self._dialect.table(self._connection, table)
            still = [
                column
                for column in missing
                if existing is None or existing.column(column.name) is None
            ]
            if len(still) == len(missing):
                raise DatabaseRefused(f"Table {table} cannot be altered: {error}") from error
            if still:
                return self._evolved(table, type, still)
        existing = self._dialect.table(self._connection, table)
        if existing is None:
            raise TableMismatch(f"Table {table} was altered, but cannot be found")
        return existing

"""The JDBC source: selects the tables to read and divides them among tasks
(connectors.md §2). The package `read` reads them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from penstock.api import (
    VERSION,
    Finding,
    Offsets,
    PenstockError,
    Plugin,
    Primitive,
    Props,
    SourceConnector,
    SourceContext,
)
from penstock.api.settings import Config
from penstock.connectors.jdbc.drivers.database import JDBC
from penstock.connectors.jdbc.read import offsets
from penstock.connectors.jdbc.read.pool import ReadingPool
from penstock.connectors.jdbc.read.reader import JdbcReader
from penstock.connectors.jdbc.read.shapes import Unit, written
from penstock.connectors.jdbc.read.tables import refuse_same_names, selected, tables_of
from penstock.connectors.jdbc.settings import source as k
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.validation.source import source_findings

log = logging.getLogger(__name__)


class JdbcSource(SourceConnector):
    """Sends the rows of tables, or of a query, to topics, and continues with new rows."""

    plugin = Plugin(
        class_name="io.confluent.connect.jdbc.JdbcSourceConnector",
        version=VERSION,
        config=k.JDBC_SOURCE,
        task_class="io.confluent.connect.jdbc.source.JdbcSourceTask",
        also=("io.aiven.connect.jdbc.JdbcSourceConnector",),
        extra=JDBC,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return database_of(config).modules

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return source_findings(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        if config[k.QUERY].strip():
            return [config.props]
        with contextlib.closing(ReadingPool(config)) as pool, pool.reading() as reading:
            tables = selected(config, tables_of(config, reading))
        refuse_same_names(tables)
        if not tables:
            log.warning("No tables to read yet; the source checks again periodically")
        parts = config[k.TABLE_PARTS]
        units = [Unit(table, part, parts) for table in tables for part in range(parts)]
        groups = _groups(units, min(max_tasks, len(units)))
        return [{**config.props, k.TABLES.name: written(group)} for group in groups]

    def replan_ms(self, config: Config) -> int | None:
        return None if config[k.QUERY].strip() else config[k.TABLE_POLL_INTERVAL]

    def exactly_once(self, config: Config) -> bool:
        return config[k.MODE] != k.BULK  # the current rows of a table cannot be read again later

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for stored in offsets:
            if stored.offset is None:
                continue  # any offset may be deleted
            if "table" not in stored.partition and "query" not in stored.partition:
                raise PenstockError(
                    "Partition objects should contain the key 'table' or the key 'query'"
                )
            _check_offset(stored.offset)
        return True

    def open(self, config: Config, context: SourceContext) -> JdbcReader:
        return JdbcReader(config, context)


def _check_offset(offset: Mapping[str, Primitive]) -> None:
    known = {offsets.INCREMENTING, offsets.TIMESTAMP, offsets.NANOS, offsets.POLLED}
    if not known & set(offset):
        raise PenstockError(
            "Offset objects should either be null or contain one of the keys "
            f"{', '.join(repr(key) for key in sorted(known))}"
        )
    offsets.position(offset)
    offsets.polled(offset)


def _groups(units: Sequence[Unit], count: int) -> list[Sequence[Unit]]:
    """Splits the units into consecutive groups; the first ones may be one larger."""
    groups: list[Sequence[Unit]] = []
    start = 0
    for remaining_groups in range(count, 0, -1):
        stop = start + -(-(len(units) - start) // remaining_groups)
        groups.append(units[start:stop])
        start = stop
    return groups

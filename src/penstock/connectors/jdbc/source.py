"""The JDBC source: which tables there are to read, and the tasks that share them (reference,
connectors §2). `reader` reads them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence

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
from penstock.api.settings import Config, compile_java
from penstock.connectors.jdbc import offsets
from penstock.connectors.jdbc import source_keys as k
from penstock.connectors.jdbc.offsets import TableId
from penstock.connectors.jdbc.reader import JdbcReader
from penstock.connectors.jdbc.reading import Reading
from penstock.connectors.jdbc.session import Session
from penstock.connectors.jdbc.shapes import Unfit, Unit, table_names, written

log = logging.getLogger(__name__)


class JdbcSource(SourceConnector):
    """Sends the rows of tables, or of a query, to topics, and goes on as rows are added."""

    plugin = Plugin(
        class_name="io.confluent.connect.jdbc.JdbcSourceConnector",
        version=VERSION,
        config=k.JDBC_SOURCE,
        task_class="io.confluent.connect.jdbc.source.JdbcSourceTask",
        also=("io.aiven.connect.jdbc.JdbcSourceConnector",),
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        from penstock.connectors.jdbc.live import source_findings  # it looks by what is here

        return source_findings(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        if config[k.QUERY].strip():
            return [config.props]
        with contextlib.closing(Session(config)) as session, session.reading() as reading:
            tables = selected(config, tables_of(config, reading))
        refuse_same_names(tables)
        if not tables:
            log.warning("there is no table to read yet; it is looked again now and then")
        parts = config[k.TABLE_PARTS]
        units = [Unit(table, part, parts) for table in tables for part in range(parts)]
        groups = _groups(units, min(max_tasks, len(units)))
        return [{**config.props, k.TABLES.name: written(group)} for group in groups]

    def replan_ms(self, config: Config) -> int | None:
        return None if config[k.QUERY].strip() else config[k.TABLE_POLL_INTERVAL]

    def exactly_once(self, config: Config) -> bool:
        return config[k.MODE] != k.BULK  # what a table holds now cannot be read again

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for each in offsets:
            if each.offset is None:
                continue  # whatever it is of, it may be forgotten
            if "table" not in each.partition and "query" not in each.partition:
                raise PenstockError(
                    "Partition objects should contain the key 'table' or the key 'query'"
                )
            _check_offset(each.offset)
        return True

    def open(self, config: Config, context: SourceContext) -> JdbcReader:
        return JdbcReader(config, context)


def _check_offset(offset: Mapping[str, Primitive]) -> None:
    known = {offsets.INCREMENTING, offsets.TIMESTAMP, offsets.NANOS, offsets.POLLED}
    if not known & set(offset):
        raise PenstockError(
            "Offset objects should either be null or contain one of the keys "
            f"{', '.join(repr(each) for each in sorted(known))}"
        )
    offsets.position(offset)
    offsets.polled(offset)


# ── which tables ─────────────────────────────────────────────────────────────────────────────────


def tables_of(config: Config, reading: Reading) -> list[TableId]:
    """The tables there are, of the kinds and where the configuration wants them."""
    kinds = [each.upper() for each in config[k.TABLE_TYPES]]
    schema, catalog = config[k.SCHEMA_PATTERN] or None, config[k.CATALOG_PATTERN] or None
    return reading.tables(kinds, schema, catalog)


def selected(config: Config, tables: Sequence[TableId]) -> list[TableId]:
    """The tables that the configuration wants, of those there are, in their order."""
    wanted, unwanted = set(config[k.TABLE_WHITELIST]), set(config[k.TABLE_BLACKLIST])
    include = [compile_java(each) for each in config[k.TABLE_INCLUDE]]
    exclude = [compile_java(each) for each in config[k.TABLE_EXCLUDE]]
    found = []
    for table in sorted(tables):
        called = table_names(table)
        if wanted and not wanted & set(called):
            continue
        if unwanted & set(called):
            continue
        if include and not any(each.fullmatch(name) for each in include for name in called[:2]):
            continue
        if any(each.fullmatch(name) for each in exclude for name in called[:2]):
            continue
        found.append(table)
    return found


def refuse_same_names(tables: Sequence[TableId]) -> None:
    """Raises Unfit if tables would share a topic."""
    names: dict[str, list[TableId]] = {}
    for table in tables:
        names.setdefault(table.name, []).append(table)
    twice = [str(each) for same in names.values() if len(same) > 1 for each in same]
    if twice:
        raise Unfit(
            "The topic of a table is named after the table alone, and several of these have "
            f"the same name: {', '.join(twice)}. Name the ones to read in 'table.whitelist', "
            "or set 'schema.pattern'.",
            k.TABLE_WHITELIST.name,
        )


def _groups(units: Sequence[Unit], count: int) -> list[Sequence[Unit]]:
    """Neighbours together, the first groups one larger where it does not come out even."""
    groups: list[Sequence[Unit]] = []
    start = 0
    for left in range(count, 0, -1):
        stop = start + -(-(len(units) - start) // left)
        groups.append(units[start:stop])
        start = stop
    return groups

"""Selects the tables to read."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.api.settings import Config, compile_java
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reading import Reading
from penstock.connectors.jdbc.read.shapes import Unfit, table_names
from penstock.connectors.jdbc.settings import source as k


def tables_of(config: Config, reading: Reading) -> list[TableId]:
    """The existing tables of the configured types, in the configured schemas and catalogs."""
    kinds = [kind.upper() for kind in config[k.TABLE_TYPES]]
    schema, catalog = config[k.SCHEMA_PATTERN] or None, config[k.CATALOG_PATTERN] or None
    return reading.tables(kinds, schema, catalog)


def selected(config: Config, tables: Sequence[TableId]) -> list[TableId]:
    """Those of the tables that the configuration selects, sorted."""
    whitelist, blacklist = set(config[k.TABLE_WHITELIST]), set(config[k.TABLE_BLACKLIST])
    include = [compile_java(pattern) for pattern in config[k.TABLE_INCLUDE]]
    exclude = [compile_java(pattern) for pattern in config[k.TABLE_EXCLUDE]]
    chosen = []
    for table in sorted(tables):
        names = table_names(table)
        whole_names = names[:2]
        if whitelist and not whitelist & set(names):
            continue
        if blacklist & set(names):
            continue
        if include and not any(p.fullmatch(name) for p in include for name in whole_names):
            continue
        if any(p.fullmatch(name) for p in exclude for name in whole_names):
            continue
        chosen.append(table)
    return chosen


def refuse_same_names(tables: Sequence[TableId]) -> None:
    """Raises Unfit if tables would share a topic."""
    by_name: dict[str, list[TableId]] = {}
    for table in tables:
        by_name.setdefault(table.name, []).append(table)
    ambiguous = [str(table) for same in by_name.values() if len(same) > 1 for table in same]
    if ambiguous:
        raise Unfit(
            "Topics are named after tables without their schemas, and several tables have the "
            f"same name: {', '.join(ambiguous)}. Name the tables to read in 'table.whitelist', or "
            "set 'schema.pattern'.",
            k.TABLE_WHITELIST.name,
        )

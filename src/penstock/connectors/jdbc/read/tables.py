"""Which tables there are to read."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.api.settings import Config, compile_java
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reading import Reading
from penstock.connectors.jdbc.read.shapes import Unfit, table_names
from penstock.connectors.jdbc.settings import source as k


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

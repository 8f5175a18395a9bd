"""The Cassandra source (connectors.md §7.2)."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.api import (
    VERSION,
    ConfigInvalid,
    Finding,
    Offsets,
    Plugin,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
)
from penstock.api.settings import Config
from penstock.connectors.cassandra.client.access import CASSANDRA
from penstock.connectors.cassandra.read.offsets import TABLE, check
from penstock.connectors.cassandra.read.plan import Mode
from penstock.connectors.cassandra.settings import lenses
from penstock.connectors.cassandra.settings import source as k
from penstock.connectors.cassandra.validation.live import source_findings


class CassandraSource(SourceConnector):
    """Sends the rows of Cassandra tables to topics: all rows, or new ones."""

    plugin = Plugin(
        class_name="io.lenses.streamreactor.connect.cassandra.source.CassandraSourceConnector",
        version=VERSION,
        config=k.LENSES_SOURCE,
        task_class="io.lenses.streamreactor.connect.cassandra.source.CassandraSourceTask",
        also=(
            "com.datamountaineer.streamreactor.connect.cassandra.source.CassandraSourceConnector",
        ),
        extra=CASSANDRA,
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        problems = k.problems(config)
        if problems:
            return [Finding(name, text) for name, text in problems]
        return source_findings(lenses.access(config), k.source_plan(config))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        self._check(config)
        tables = [plan.table for plan in k.source_plan(config).tables]
        count = min(max_tasks, len(tables))
        size, rest = divmod(len(tables), count)
        tasks: list[Props] = []
        start = 0
        for number in range(count):
            end = start + size + (number < rest)
            tasks.append({**config.props, TABLE: ",".join(tables[start:end])})
            start = end
        return tasks

    def exactly_once(self, config: Config) -> bool | None:
        # A restart reads whole tables again.
        tables = k.source_plan(config).tables
        return all(table.mode is not Mode.BULK for table in tables)

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for source_offset in offsets:
            check(source_offset)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        from penstock.connectors.cassandra.read.reader import CassandraReader

        self._check(config)
        return CassandraReader(lenses.access(config), k.source_plan(config), context)

    def _check(self, config: Config) -> None:
        problems = k.problems(config)
        if problems:
            raise ConfigInvalid([text for _, text in problems])

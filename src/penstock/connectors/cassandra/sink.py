"""The Cassandra sinks (connectors.md §7)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping

from penstock.api import (
    VERSION,
    ConfigInvalid,
    Finding,
    Plugin,
    Props,
    SinkConnector,
    SinkContext,
    SinkWriter,
)
from penstock.api.settings import Config
from penstock.connectors.cassandra.client.access import CASSANDRA, Access
from penstock.connectors.cassandra.settings import datastax, lenses, lenses_json, lenses_sink
from penstock.connectors.cassandra.validation.live import sink_findings
from penstock.connectors.cassandra.write.plan import SinkPlan


class _CassandraSink(SinkConnector):
    @abstractmethod
    def problems(self, config: Config) -> list[tuple[str, str]]:
        """Problems of the topics' settings: the setting to blame, and the message."""

    @abstractmethod
    def access(self, config: Config) -> Access:
        """Connection parameters of the cluster."""

    @abstractmethod
    def sink_plan(self, config: Config) -> SinkPlan:
        """The plan of a task."""

    def validate_live(self, config: Config) -> Iterable[Finding]:
        problems = self.problems(config)
        if problems:
            return [Finding(name, text) for name, text in problems]
        return sink_findings(self.access(config), self.sink_plan(config))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        self._check(config)
        return [config.props] * max_tasks

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        from penstock.connectors.cassandra.write.writer import CassandraWriter

        self._check(config)
        return CassandraWriter(self.access(config), self.sink_plan(config))

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter:
        from penstock.connectors.cassandra.write.writer import PreviewWriter

        self._check(config)
        return PreviewWriter(self.access(config), self.sink_plan(config), show)

    def _check(self, config: Config) -> None:
        problems = self.problems(config)
        if problems:
            raise ConfigInvalid([text for _, text in problems])


class CassandraSink(_CassandraSink):
    """Writes records as rows to Cassandra tables."""

    plugin = Plugin(
        class_name="com.datastax.oss.kafka.sink.CassandraSinkConnector",
        version=VERSION,
        config=datastax.DATASTAX_SINK,
        task_class="com.datastax.oss.kafka.sink.CassandraSinkTask",
        also=("com.datastax.kafkaconnector.DseSinkConnector",),
        extra=CASSANDRA,
    )

    def problems(self, config: Config) -> list[tuple[str, str]]:
        return datastax.problems(config)

    def access(self, config: Config) -> Access:
        return datastax.access(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return datastax.sink_plan(config)


class LensesSink(_CassandraSink):
    """Writes records as rows to Cassandra tables, mapped by KCQL."""

    plugin = Plugin(
        class_name="io.lenses.streamreactor.connect.cassandra.CassandraSinkConnector",
        version=VERSION,
        config=lenses_sink.LENSES_SINK,
        task_class="io.lenses.streamreactor.connect.cassandra.CassandraSinkTask",
        extra=CASSANDRA,
    )

    def problems(self, config: Config) -> list[tuple[str, str]]:
        return lenses_sink.problems(config)

    def access(self, config: Config) -> Access:
        return lenses_sink.access(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return lenses_sink.sink_plan(config)


class LensesJsonSink(_CassandraSink):
    """Writes records as JSON to Cassandra tables, mapped by KCQL."""

    plugin = Plugin(
        class_name="io.lenses.streamreactor.connect.cassandra.sink.CassandraSinkConnector",
        version=VERSION,
        config=lenses_json.LENSES_JSON_SINK,
        task_class="io.lenses.streamreactor.connect.cassandra.sink.CassandraSinkTask",
        also=("com.datamountaineer.streamreactor.connect.cassandra.sink.CassandraSinkConnector",),
        extra=CASSANDRA,
    )

    def problems(self, config: Config) -> list[tuple[str, str]]:
        return []

    def access(self, config: Config) -> Access:
        return lenses.access(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return lenses_json.sink_plan(config)

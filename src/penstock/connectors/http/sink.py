"""The sinks to HTTP servers (connectors.md §12.1)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping

from penstock.api import VERSION, Plugin, Props, SinkConnector, SinkContext, SinkWriter
from penstock.api.settings import Config
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth
from penstock.connectors.http.settings import aiven, confluent, lenses, shared
from penstock.connectors.http.write.plan import SinkPlan
from penstock.connectors.http.write.preview import PreviewWriter
from penstock.connectors.http.write.reports import Reporter, ReportPlan
from penstock.connectors.http.write.writer import HttpWriter


class _Sink(SinkConnector):
    @abstractmethod
    def sink_plan(self, config: Config) -> SinkPlan:
        """The plan of a task."""

    @abstractmethod
    def options(self, config: Config) -> ClientOptions:
        """Options of connections."""

    @abstractmethod
    def auth(self, config: Config) -> Auth | None:
        """The authentication of requests."""

    def reports(self, config: Config) -> ReportPlan | None:
        """The topics of reports; None without any."""
        return None

    def required_modules(self, config: Config) -> Collection[str]:
        return shared.modules(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        self.sink_plan(config)
        self.options(config)
        self.reports(config)
        return [config.props] * max_tasks

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter:
        return PreviewWriter(self.sink_plan(config), show)

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        reports = self.reports(config)
        return HttpWriter(
            self.sink_plan(config),
            self.options(config),
            self.auth(config),
            context,
            None if reports is None else Reporter(reports),
        )


class ConfluentHttpSink(_Sink):
    """Sends records to a server over HTTP."""

    plugin = Plugin(
        class_name="io.confluent.connect.http.HttpSinkConnector",
        version=VERSION,
        config=confluent.CONFLUENT_SINK,
        task_class="io.confluent.connect.http.HttpSinkTask",
        extra=shared.HTTP,
    )

    def sink_plan(self, config: Config) -> SinkPlan:
        return confluent.sink_plan(config)

    def options(self, config: Config) -> ClientOptions:
        return confluent.client_options(config)

    def auth(self, config: Config) -> Auth | None:
        return confluent.auth(config)

    def reports(self, config: Config) -> ReportPlan | None:
        return confluent.report_plan(config)


class AivenHttpSink(_Sink):
    """Sends records to a server over HTTP, with the settings of Aiven's connector."""

    plugin = Plugin(
        class_name="io.aiven.kafka.connect.http.HttpSinkConnector",
        version=VERSION,
        config=aiven.AIVEN_SINK,
        task_class="io.aiven.kafka.connect.http.HttpSinkTask",
        extra=shared.HTTP,
    )

    def sink_plan(self, config: Config) -> SinkPlan:
        return aiven.sink_plan(config)

    def options(self, config: Config) -> ClientOptions:
        return aiven.client_options(config)

    def auth(self, config: Config) -> Auth | None:
        return aiven.auth(config)


class LensesHttpSink(_Sink):
    """Sends records to a server over HTTP, with the settings and templates of Lenses' connector."""

    plugin = Plugin(
        class_name="io.lenses.streamreactor.connect.http.sink.HttpSinkConnector",
        version=VERSION,
        config=lenses.LENSES_SINK,
        task_class="io.lenses.streamreactor.connect.http.sink.HttpSinkTask",
        extra=shared.HTTP,
    )

    def sink_plan(self, config: Config) -> SinkPlan:
        return lenses.sink_plan(config)

    def options(self, config: Config) -> ClientOptions:
        return lenses.client_options(config)

    def auth(self, config: Config) -> Auth | None:
        return lenses.auth(config)

    def reports(self, config: Config) -> ReportPlan | None:
        return lenses.report_plan(config)

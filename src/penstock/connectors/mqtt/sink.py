"""The MQTT sinks (connectors.md §9)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
    SinkConnector,
    SinkContext,
    SinkWriter,
)
from penstock.api.settings import Config
from penstock.connectors.mqtt.client.options import Options
from penstock.connectors.mqtt.settings import confluent, lenses
from penstock.connectors.mqtt.settings.shared import MQTT
from penstock.connectors.mqtt.validation.live import findings
from penstock.connectors.mqtt.write.plan import SinkPlan


class _MqttSink(SinkConnector):
    @abstractmethod
    def options(self, config: Config) -> Options:
        """Connection parameters."""

    @abstractmethod
    def sink_plan(self, config: Config) -> SinkPlan:
        """The plan of a task."""

    def required_modules(self, config: Config) -> Collection[str]:
        return ("paho",)

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return findings(self.options(config))

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter:
        from penstock.connectors.mqtt.write.writer import PreviewWriter

        return PreviewWriter(self.options(config), self.sink_plan(config), show)

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        from penstock.connectors.mqtt.write.writer import MqttWriter

        options, task = self.options(config), context.task
        client_id = f"connect-{task}"
        if options.client_id:
            client_id = f"{options.client_id}-{task.number}" if task.number else options.client_id
        return MqttWriter(options, self.sink_plan(config), context, client_id)


class MqttSink(_MqttSink):
    """Publishes records to MQTT, under the name of Confluent's connector."""

    plugin = Plugin(
        class_name="io.confluent.connect.mqtt.MqttSinkConnector",
        version=VERSION,
        config=confluent.CONFLUENT_SINK,
        task_class="io.confluent.connect.mqtt.MqttSinkTask",
        extra=MQTT,
    )

    def options(self, config: Config) -> Options:
        return confluent.options_of(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return confluent.sink_plan(config)


class LensesMqttSink(_MqttSink):
    """Publishes records to MQTT as KCQL specifies, under the name of Lenses' connector."""

    plugin = Plugin(
        class_name="io.lenses.streamreactor.connect.mqtt.sink.MqttSinkConnector",
        version=VERSION,
        config=lenses.LENSES_SINK,
        task_class="io.lenses.streamreactor.connect.mqtt.sink.MqttSinkTask",
        extra=MQTT,
    )

    def options(self, config: Config) -> Options:
        return lenses.options_of(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return lenses.sink_plan(config)


class DatamountaineerMqttSink(LensesMqttSink):
    """The same as Lenses' connector, under its older name."""

    plugin = Plugin(
        class_name="com.datamountaineer.streamreactor.connect.mqtt.sink.MqttSinkConnector",
        version=VERSION,
        config=lenses.LENSES_SINK,
        task_class="com.datamountaineer.streamreactor.connect.mqtt.sink.MqttSinkTask",
        extra=MQTT,
    )

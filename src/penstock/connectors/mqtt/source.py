"""The MQTT sources (connectors.md §9)."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence

from penstock.api import (
    VERSION,
    Finding,
    Offsets,
    PenstockError,
    Plugin,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
    TaskId,
)
from penstock.api.settings import Config
from penstock.connectors.mqtt.client.options import Options
from penstock.connectors.mqtt.client.topics import is_shared
from penstock.connectors.mqtt.read.plan import SourcePlan
from penstock.connectors.mqtt.settings import confluent, lenses
from penstock.connectors.mqtt.settings.shared import MQTT, spread
from penstock.connectors.mqtt.validation.live import findings


def client_id_of(options: Options, task: TaskId) -> str:
    """The client id of a task. It is stable if the user has set one, or if the session is
    persistent; else random, so that a task and its predecessor do not disconnect each other."""
    if options.client_id:
        return f"{options.client_id}-{task.number}" if task.number else options.client_id
    stable = f"connect-{task}"
    return f"{stable}-{uuid.uuid4().hex[:8]}" if options.clean else stable


class _MqttSource(SourceConnector):
    @abstractmethod
    def options(self, config: Config) -> Options:
        """Connection parameters."""

    @abstractmethod
    def source_plan(self, config: Config) -> SourcePlan:
        """The plan of a task."""

    def required_modules(self, config: Config) -> Collection[str]:
        return ("paho",)

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return findings(self.options(config))

    def exactly_once(self, config: Config) -> bool | None:
        return False  # a broker repeats unacknowledged messages

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for source_offset in offsets:
            if "client.id" not in source_offset.partition:
                raise PenstockError("Partition objects should contain the key 'client.id'")
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        from penstock.connectors.mqtt.read.reader import MqttReader

        options, plan = self.options(config), self.source_plan(config)
        filters = list(dict.fromkeys(route.topic_filter for route in plan.routes))
        return MqttReader(options, plan, filters, context, client_id_of(options, context.task))


class MqttSource(_MqttSource):
    """Sends MQTT messages to a topic, under the name of Confluent's connector."""

    plugin = Plugin(
        class_name="io.confluent.connect.mqtt.MqttSourceConnector",
        version=VERSION,
        config=confluent.CONFLUENT_SOURCE,
        task_class="io.confluent.connect.mqtt.MqttSourceTask",
        extra=MQTT,
    )

    def options(self, config: Config) -> Options:
        return confluent.options_of(config)

    def source_plan(self, config: Config) -> SourcePlan:
        return confluent.source_plan(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        filters = list(dict.fromkeys(config[confluent.TOPICS]))
        parts = spread(filters, [is_shared(topic_filter) for topic_filter in filters], max_tasks)
        return [{**config.props, confluent.TOPICS.name: ",".join(part)} for part in parts]


class LensesMqttSource(_MqttSource):
    """Sends MQTT messages to topics as KCQL specifies, under the name of Lenses' connector."""

    plugin = Plugin(
        class_name="io.lenses.streamreactor.connect.mqtt.source.MqttSourceConnector",
        version=VERSION,
        config=lenses.LENSES_SOURCE,
        task_class="io.lenses.streamreactor.connect.mqtt.source.MqttSourceTask",
        extra=MQTT,
    )

    def options(self, config: Config) -> Options:
        return lenses.options_of(config)

    def source_plan(self, config: Config) -> SourcePlan:
        return lenses.source_plan(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        texts: Sequence[str] = [statement.text for statement in lenses.statements(config)]
        parts = spread(texts, lenses.shared_flags(config), max_tasks)
        return [{**config.props, lenses.SOURCE_KCQL.name: ";".join(part)} for part in parts]


class DatamountaineerMqttSource(LensesMqttSource):
    """The same as Lenses' connector, under its older name."""

    plugin = Plugin(
        class_name="com.datamountaineer.streamreactor.connect.mqtt.source.MqttSourceConnector",
        version=VERSION,
        config=lenses.LENSES_SOURCE,
        task_class="com.datamountaineer.streamreactor.connect.mqtt.source.MqttSourceTask",
        extra=MQTT,
    )

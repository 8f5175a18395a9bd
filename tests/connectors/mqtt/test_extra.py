"""penstock without the packages of its extra `mqtt`, in a process that cannot import them."""

from __future__ import annotations

import json

from penstock.connectors.mqtt.settings.shared import MQTT
from tests.connectors.absent import extras, without

PACKAGES = ("paho",)
SCRIPT = """
import json
from penstock.api import NotInstalled
from penstock.connectors.mqtt.sink import LensesMqttSink, MqttSink
from penstock.connectors.mqtt.source import LensesMqttSource, MqttSource

told = []
CONFLUENT = {"mqtt.server.uri": "tcp://h"}
LENSES = {
    "connect.mqtt.hosts": "tcp://h",
    "connect.mqtt.service.quality": "1",
    "connect.mqtt.kcql": "INSERT INTO a SELECT * FROM b",
}
for cls, given in (
    (MqttSink, CONFLUENT),
    (MqttSource, {**CONFLUENT, "mqtt.topics": "a"}),
    (LensesMqttSink, LENSES),
    (LensesMqttSource, LENSES),
):
    config = cls.plugin.config.parse(given)
    try:
        cls().check_installed(config)
    except NotInstalled as error:
        told.append(str(error))
print(json.dumps(told))
"""


def test_without_its_packages_a_configuration_is_refused_with_the_command() -> None:
    reported = json.loads(without(PACKAGES, SCRIPT))
    assert len(reported) == 4
    assert all(f"install them with: {MQTT.command}" in each for each in reported)
    assert all("paho" in each for each in reported)


def test_the_extra_is_the_projects() -> None:
    declared = extras()
    assert [each.partition(">")[0] for each in declared[MQTT.name]] == ["paho-mqtt"]
    assert f"penstock[{MQTT.name}]" in declared["all"]

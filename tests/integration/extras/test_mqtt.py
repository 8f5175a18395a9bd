"""penstock without the packages of its extra `mqtt`, in a process that cannot import them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from penstock.connectors.mqtt.settings.shared import MQTT

SCRIPT = """
import json, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "paho":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Absent())
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
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) == 4
    assert all(f"install them with: {MQTT.command}" in each for each in told)
    assert all("paho" in each for each in told)


def test_the_extra_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert [each.partition(">")[0] for each in extras[MQTT.name]] == ["paho-mqtt"]
    assert f"penstock[{MQTT.name}]" in extras["all"]

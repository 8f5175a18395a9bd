"""penstock without the packages of its extra `mongodb`, in a process that cannot import them."""

from __future__ import annotations

import json

from penstock.connectors.mongodb.client.access import MONGODB
from tests.connectors.absent import extras, without

PACKAGES = ("bson", "pymongo")
SCRIPT = """
import json
from penstock.api import NotInstalled
from penstock.connectors.mongodb.sink import MongoSink
from penstock.connectors.mongodb.source import MongoSource

told = []
for cls, given in ((MongoSink, {"database": "d"}), (MongoSource, {})):
    config = cls.plugin.config.parse({"connection.uri": "mongodb://h/", **given})
    try:
        cls().check_installed(config)
    except NotInstalled as error:
        told.append(str(error))
print(json.dumps(told))
"""


def test_without_its_packages_a_configuration_is_refused_with_the_command() -> None:
    reported = json.loads(without(PACKAGES, SCRIPT))
    assert len(reported) == 2
    assert all(f"install them with: {MONGODB.command}" in each for each in reported)
    assert all("pymongo" in each for each in reported)


def test_the_extra_is_the_projects() -> None:
    declared = extras()
    assert [each.partition(">")[0] for each in declared[MONGODB.name]] == ["pymongo"]
    assert f"penstock[{MONGODB.name}]" in declared["all"]

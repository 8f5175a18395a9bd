"""penstock without the package of its extra `couchbase`."""

from __future__ import annotations

import json

from penstock.connectors.couchbase.client.access import COUCHBASE
from tests.connectors.absent import extras, without

PACKAGES = ("couchbase",)
SCRIPT = """
import json
from penstock.api import NotInstalled
from penstock.connectors.couchbase.sink import CouchbaseSink
from penstock.connectors.couchbase.source import CouchbaseSource

told = []
common = {f"couchbase.{name}": "x" for name in ("seed.nodes", "username", "password", "bucket")}
handler = "com.couchbase.connect.kafka.handler.source.RawJsonSourceHandler"
for cls, given in ((CouchbaseSink, {}), (CouchbaseSource, {"couchbase.source.handler": handler})):
    config = cls.plugin.config.parse({**common, **given})
    try:
        cls().check_installed(config)
    except NotInstalled as error:
        told.append(str(error))
print(json.dumps(told))
"""


def test_without_its_package_a_configuration_is_refused_with_the_command() -> None:
    reported = json.loads(without(PACKAGES, SCRIPT))
    assert len(reported) == 2
    assert all(f"install them with: {COUCHBASE.command}" in each for each in reported)


def test_the_extra_is_the_projects() -> None:
    declared = extras()
    assert [each.partition(">")[0] for each in declared[COUCHBASE.name]] == ["couchbase"]
    assert f"penstock[{COUCHBASE.name}]" in declared["all"]

"""penstock without the packages of its extra `files`, in processes that cannot import them."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

from penstock.connectors.files.settings.extra import AZURE, FILES, GCS
from tests.connectors.absent import extras, without

PACKAGES = ("boto3", "botocore", "fastavro", "asyncssh", "google", "azure")


def without_extra(script: str, *arguments: str) -> Any:
    """The last line that a script prints without the packages, as JSON."""
    return json.loads(without(PACKAGES, textwrap.dedent(script), *arguments).splitlines()[-1])


def test_files_that_need_no_package_are_written(tmp_path: Path) -> None:
    failed = without_extra(
        """
        import json
        from penstock.api import NotInstalled
        from penstock.connectors.files.local import LocalFileSink
        from penstock.testing.conformance import records_of
        from penstock.testing.contexts import SinkContextStub

        sink = LocalFileSink()
        props = {"store.url": sys.argv[1], "format.class": "JsonFormat", "flush.size": "2"}
        config = sink.plugin.config.parse(props)
        sink.check_installed(config)
        writer = sink.open(config, SinkContextStub())
        writer.write(records_of([1, 2]), {})
        writer.flush()
        writer.close()
        try:
            sink.check_installed(sink.plugin.config.parse({**props, "format.class": "AvroFormat"}))
        except NotInstalled as error:
            print(json.dumps(str(error)))
        """,
        str(tmp_path),
    )
    assert failed == (
        "Connectors to files need packages that are not installed (fastavro); install them with: "
        "pip install 'penstock[files]'"
    )
    (file,) = tmp_path.rglob("*.json")
    assert file.read_text() == "1\n2\n"


def test_the_extra_that_is_declared_is_the_one_that_installs_them() -> None:
    declared = extras()
    names = [re.split(r"\W", each)[0] for each in declared[FILES.name]]
    assert names == ["boto3", "fastavro", "asyncssh", "JPype1"]
    assert FILES.modules == ("boto3", "fastavro", "asyncssh", "jpype")
    assert f"penstock[{FILES.name}]" in declared["all"]
    assert FILES.missing() == []
    assert names_of(declared["gcs"]) == ["google-cloud-storage", "fastavro"]
    assert names_of(declared["azure"]) == ["azure-storage-blob", "fastavro"]
    for extra in (GCS, AZURE):
        assert f"penstock[{extra.name}]" in declared["all"]
        assert extra.missing() == []


def names_of(requirements: list[str]) -> list[str]:
    return [re.split(r"[^\w-]", each)[0] for each in requirements]

"""A plugin of the suite's own, for what Kafka Connect's connectors do not do: it fails."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Final

from penstock.host import jars
from penstock.host.janino import compiled_jar

BROKEN: Final = "suite.Broken"
_SOURCE: Final = Path(__file__).with_name("Broken.java")


def compiled_plugin(folder: Path) -> None:
    """Compiles the plugin into a folder, as if it were one of `plugin.path`."""
    classpath = sorted(jars.folder("java-host").glob("*.jar"))
    jar = compiled_jar("suite-plugin", {"Broken": _SOURCE.read_text()}, classpath)
    folder.mkdir(parents=True)
    shutil.copy(jar, folder / "broken.jar")
    with zipfile.ZipFile(folder / "broken.jar", "a") as archive:
        archive.writestr(
            "META-INF/services/org.apache.kafka.connect.source.SourceConnector", BROKEN
        )

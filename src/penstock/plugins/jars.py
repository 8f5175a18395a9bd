"""Finds the Kafka Connect plugins in jars, which penstock does not run."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

_JAVA_INTERFACES: Final = (
    "org.apache.kafka.connect.source.SourceConnector",
    "org.apache.kafka.connect.sink.SinkConnector",
    "org.apache.kafka.connect.storage.Converter",
    "org.apache.kafka.connect.storage.HeaderConverter",
    "org.apache.kafka.connect.transforms.Transformation",
    "org.apache.kafka.connect.transforms.predicates.Predicate",
    "org.apache.kafka.common.config.provider.ConfigProvider",
)


def plugins_of_jars(path: Path) -> list[str]:
    """The class names of the Kafka Connect plugins that a jar, or the jars in a folder, declare
    (`META-INF/services`, kafka-connect.md §15.2). Unreadable files declare none."""
    jars = [path] if path.is_file() else sorted({*path.glob("*.jar"), *path.glob("*/*.jar")})
    classes: dict[str, None] = {}
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                names = set(archive.namelist())
                for interface in _JAVA_INTERFACES:
                    name = f"META-INF/services/{interface}"
                    if name in names:
                        lines = archive.read(name).decode("utf-8", "replace").splitlines()
                        classes |= dict.fromkeys(filter(None, map(_class_named, lines)))
        except (OSError, zipfile.BadZipFile):
            continue
    return list(classes)


def _class_named(line: str) -> str:
    return line.partition("#")[0].strip()

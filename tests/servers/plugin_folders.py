"""Plugins in folders, as users install them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

PLUGIN = """
from penstock.api import Plugin, SinkConnector
from penstock.api.settings import ConfigDef
{more}

class {name}(SinkConnector):
    plugin = Plugin("{package}.{name}Connector", "{version}", ConfigDef())

    def plan_tasks(self, config, max_tasks):
        return [config.props]

    def open(self, config, context):
        raise NotImplementedError
"""


def code(name: str, *, package: str = "org.example", version: str = "1.0", more: str = "") -> str:
    """A module with one sink."""
    return PLUGIN.format(name=name, package=package, version=version, more=more)


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def described(
    name: str, entries: Mapping[str, str], files: Mapping[str, str], *, purelib: bool = True
) -> dict[str, str]:
    """The files of an installed distribution, including its metadata."""
    info = f"{name}-1.0.dist-info"
    lines = "".join(f"{entry} = {value}\n" for entry, value in entries.items())
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(purelib).lower()}\n",
    }
    if entries:
        metadata[f"{info}/entry_points.txt"] = f"[penstock.plugins]\n{lines}"
    installed = {**files, **metadata}
    return {**installed, f"{info}/RECORD": "".join(f"{file},,\n" for file in installed)}


def wheel(path: Path, files: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def jar(path: Path, *classes: str) -> Path:
    """A jar that declares these sinks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        if classes:
            archive.writestr(
                "META-INF/services/org.apache.kafka.connect.sink.SinkConnector",
                "# made by hand\n" + "\n".join(classes),
            )
    return path

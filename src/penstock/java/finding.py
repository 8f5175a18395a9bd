"""Finds the connectors written in Java in `plugin.path`.

Kafka Connect's own `Plugins` looks for them, in a JVM that ends afterwards. What it found is kept
below the penstock home, until a jar changes: a worker without Java connectors starts no JVM for
them. Transforms, predicates and converters are found too, for the connectors written in Java; only
connectors become part of the registry.
"""

from __future__ import annotations

import hashlib
import logging
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.api import Plugin, SinkConnector, SourceConnector
from penstock.config.define import (
    KINDS,
    REQUIRED,
    STRING,
    ConfigDef,
    Importance,
    Key,
    Required,
    Width,
)
from penstock.config.worker_keys import PLUGIN_DISCOVERY, PLUGIN_PATH
from penstock.errors import StartupFailed
from penstock.host import class_archive, jars
from penstock.java import messages as m
from penstock.java.process import HostProcess, HostSettings
from penstock.plugins import path as plugin_path
from penstock.plugins.jars import plugins_of_jars
from penstock.plugins.path import LocationForm
from penstock.plugins.registry import CLASSPATH, InstalledPlugin, PluginKind, Registry

log = logging.getLogger(__name__)

Row = dict[str, Any]

_SCAN_HEAP: Final = "256m"
_KINDS: Final = {"source": PluginKind.SOURCE, "sink": PluginKind.SINK}


def registry(props: Mapping[str, str]) -> Registry:
    """The plugins of a worker with these settings: those of `plugins.path`, and the connectors
    written in Java. See there for what it raises."""
    return plugin_path.registry(props).with_java(lambda: found(props))


def found(props: Mapping[str, str]) -> Sequence[InstalledPlugin]:
    """The connectors in jars. Logs what is wrong with the others; without Java, finds none."""
    files = _jars(props)
    if not files:
        return ()
    try:
        rows = _known(props, files)
    except StartupFailed as error:
        log.error("plugins written in Java are not available: %s", error)
        return ()
    entries: list[InstalledPlugin] = []
    for row in rows:
        if row["location"] == CLASSPATH:
            continue  # Kafka Connect's own, which penstock has in Python
        if cause := row.get("error"):
            log.error(
                "plugin %s in %s cannot be used: %s: %s",
                row["class"],
                row["location"],
                cause["class"],
                cause["message"],
            )
        elif row["type"] in _KINDS:
            entries.append(_entry(row))
    newest = Registry(entries)
    for copies in newest.shadowed:
        _say_several(*copies)
    log.info("connectors written in Java: %d", len(newest.found))
    return newest.found


def _say_several(*entries: InstalledPlugin) -> None:
    copies = ", ".join(f"{entry.plugin.version} in {entry.location}" for entry in entries)
    name = entries[0].plugin.class_name
    log.warning("there are several copies of plugin %s: %s; the newest is used", name, copies)


def host_settings(props: Mapping[str, str]) -> Mapping[str, str]:
    """A worker's settings for its host. Where manifests declare every plugin that was found, the
    host reads only these, and starts in half the time: it need not search the whole class path."""
    files = _jars(props)
    if not files:
        return props
    declared = {name for jar in files for name in plugins_of_jars(jar)}
    plugins = {row["class"] for row in _known(props, files) if row["location"] != CLASSPATH}
    if not plugins <= declared:
        return props
    return {**props, PLUGIN_DISCOVERY.name: plugin_path.Discovery.SERVICE_LOAD.value}


def _jars(props: Mapping[str, str]) -> list[Path]:
    """The jars of `plugin.path` with classes, in every location that is not Python's."""
    locations = (
        location
        for path in plugin_path.listed(props)
        for location in plugin_path.locations_in(path)
        if location.form is LocationForm.JARS
    )
    return [jar for location in locations for jar in _in(location.path) if _has_classes(jar)]


def _has_classes(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return any(name.endswith(".class") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile) as error:
        log.warning("%s cannot be read: %s", jar, error)
        return False


def _in(path: Path) -> Iterable[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.jar"))


def _known(props: Mapping[str, str], files: Sequence[Path]) -> list[Row]:
    discovery = props.get(PLUGIN_DISCOVERY.name, "")
    parts = [discovery, jars.set_name("java-host"), props[PLUGIN_PATH.name]]
    for jar in files:
        status = jar.stat()
        parts.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    kept = class_archive.place() / f"java-plugins-{fingerprint}.json"
    if kept.is_file():
        known: list[Row] = orjson.loads(kept.read_bytes())
        return known
    log.info("looking for plugins in jars (files: %d)", len(files))
    rows = _searched(props)
    try:
        making = kept.with_suffix(f".{hashlib.sha256(str(rows).encode()).hexdigest()[:8]}")
        making.write_bytes(orjson.dumps(rows))
        making.rename(kept)
    except OSError as error:
        log.warning("what was found is not kept in %s: %s", kept.parent, error.strerror)
    return rows


def _searched(props: Mapping[str, str]) -> list[Row]:
    names = (PLUGIN_PATH.name, PLUGIN_DISCOVERY.name)
    wanted = {name: props[name] for name in names if props.get(name)}
    reasons: list[str] = []
    host = HostProcess(HostSettings(_SCAN_HEAP), lambda event: None, reasons.append)
    try:
        rows: list[Row] = host.client.order(m.FindPlugins(wanted))
    except m.JavaError as error:
        raise StartupFailed(f"The search of plugin.path failed: {error}") from error
    finally:
        host.close()
    return rows


def _entry(row: Row) -> InstalledPlugin:
    kind = _KINDS[row["type"]]
    config = ConfigDef(*map(_key, row["config"]))
    plugin = Plugin(row["class"], row["version"], config, task_class=row["taskClass"])
    base = SourceConnector if kind is PluginKind.SOURCE else SinkConnector
    cls = type(plugin.simple_name, (base,), {"plugin": plugin, "__doc__": "Written in Java."})
    return InstalledPlugin(kind, cls, plugin, row["location"], java=True)


def _key(info: Row) -> Key[object]:
    """A setting as Java describes it. The plugin's own code checks values."""
    kind = KINDS.get(info["type"], STRING)
    text = info["default_value"]
    default: object | Required = None
    if info["required"]:
        default = REQUIRED
    elif text is not None:
        default = kind.read(text)
    return Key(
        info["name"],
        kind,
        default=default,
        importance=Importance[info["importance"]],
        doc=info["documentation"] or "",
        group=info["group"],
        order=info["order_in_group"],
        width=Width[info["width"]],
        display_name=info["display_name"],
        dependents=tuple(info["dependents"]),
    )

"""Connectors in jars become part of the registry; they are searched once, in a JVM."""

from __future__ import annotations

import logging
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.config.define import LOW, REQUIRED, STRING
from penstock.host import class_archive
from penstock.java import finding
from penstock.plugins.registry import PluginKind, UnknownConnectorClass

ACME = "com.acme.OrdersSource"
FILE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def key(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "STRING",
        "required": False,
        "default_value": None,
        "importance": "LOW",
        "documentation": "Says what.",
        "group": None,
        "order_in_group": -1,
        "width": "NONE",
        "display_name": name,
        "dependents": [],
        **more,
    }


def row(cls: str, **more: Any) -> dict[str, Any]:
    return {
        "class": cls,
        "type": "source",
        "version": "9.9",
        "location": "file:/plugins/acme/",
        "taskClass": f"{cls}Task",
        "config": [],
        **more,
    }


class Search:
    """Stands for the JVM that searches: counts, and finds what it is told."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows = rows
        self.searches = 0

    def __call__(self, props: Mapping[str, str]) -> list[dict[str, Any]]:
        self.searches += 1
        return list(self.rows)


@pytest.fixture
def props(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Settings of a worker with one jar in `plugin.path`."""
    (tmp_path / "classes").mkdir()
    monkeypatch.setattr(class_archive, "place", lambda: tmp_path / "classes")
    folder = tmp_path / "plugins" / "acme"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "acme.jar", "w") as archive:
        archive.writestr("com/acme/OrdersSource.class", b"")
    return {"plugin.path": str(folder.parent)}


def searching(monkeypatch: pytest.MonkeyPatch, *rows: dict[str, Any]) -> Search:
    search = Search(*rows)
    monkeypatch.setattr(finding, "_searched", search)
    return search


def test_a_connector_in_a_jar_is_in_the_registry_with_its_settings(
    props: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = [key("topic", required=True), key("rows", type="INT", default_value="5")]
    searching(monkeypatch, row(ACME, config=config))
    entry = finding.registry(props).connector("OrdersSource")
    assert entry.java
    assert entry.kind is PluginKind.SOURCE
    assert (entry.plugin.class_name, entry.plugin.version) == (ACME, "9.9")
    assert entry.plugin.task_class == f"{ACME}Task"
    topic, rows = entry.plugin.config.keys
    assert (topic.kind, topic.default, topic.importance) == (STRING, REQUIRED, LOW)
    assert rows.default == 5


def test_jars_are_searched_again_only_when_one_has_changed(
    props: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = searching(monkeypatch, row(ACME))
    assert finding.registry(props).connector(ACME).java
    assert finding.registry(props).connector(ACME).java
    assert search.searches == 1
    jar = Path(props["plugin.path"]) / "acme" / "acme.jar"
    os.utime(jar, (1, 1))
    assert finding.registry(props).connector(ACME).java
    assert search.searches == 2


def test_without_jars_nothing_is_searched(
    props: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    search = searching(monkeypatch, row(ACME))
    for path in ("", str(tmp_path / "classes")):
        with pytest.raises(UnknownConnectorClass):
            finding.registry({"plugin.path": path}).connector(ACME)
    assert search.searches == 0


def test_penstocks_own_connector_is_used_unless_a_configuration_asks_for_javas(
    props: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    searching(monkeypatch, row(FILE))
    registry = finding.registry(props)
    listed = [each for each in registry.found if each.plugin.class_name == FILE]
    assert [each.java for each in listed] == [False]
    for text, java in (("true", True), (" TRUE ", True), ("false", False), ("yes", False)):
        config = {"connector.class": "FileStreamSource", "penstock.java.plugin": text}
        assert registry.connector_of(config).java is java
    with pytest.raises(UnknownConnectorClass):
        registry.connector_of({"connector.class": "FileStreamSink", "penstock.java.plugin": "true"})


def test_a_broken_plugin_is_named_and_hides_no_other(
    props: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    error = {"class": "java.lang.NoClassDefFoundError", "message": "com/acme/Lib", "trace": ""}
    searching(monkeypatch, row("com.acme.Broken", error=error), row(ACME))
    with caplog.at_level(logging.INFO):
        found = finding.registry(props).found
    assert [each.plugin.class_name for each in found if each.java] == [ACME]
    assert (
        "plugin com.acme.Broken in file:/plugins/acme/ cannot be used: "
        "java.lang.NoClassDefFoundError: com/acme/Lib"
    ) in caplog.text


def test_other_kinds_and_kafka_connects_own_are_not_the_registrys(
    props: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    searching(
        monkeypatch,
        row("com.acme.Mask", type="transformation"),
        row("org.apache.kafka.connect.tools.VerifiableSink", type="sink", location="classpath"),
    )
    assert not [each for each in finding.registry(props).found if each.java]


@pytest.mark.parametrize(("declared", "discovery"), [(True, "service_load"), (False, None)])
def test_a_host_reads_manifests_alone_where_they_declare_every_plugin(
    props: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    declared: bool,
    discovery: str | None,
) -> None:
    jar = Path(props["plugin.path"]) / "acme" / "acme.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        interface = "org.apache.kafka.connect.source.SourceConnector"
        archive.writestr(f"META-INF/services/{interface}", ACME if declared else "com.acme.Other")
        archive.writestr("com/acme/OrdersSource.class", b"")
    searching(monkeypatch, row(ACME), row("org.apache.kafka.X", location="classpath"))
    assert finding.host_settings(props).get("plugin.discovery") == discovery
    assert finding.host_settings({"group.id": "g"}) == {"group.id": "g"}


def test_of_several_copies_of_a_plugin_the_newest_is_used_and_all_are_named(
    props: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    copies = [
        row(ACME, version=version, location=f"file:/plugins/{version}/")
        for version in ("1.9", "1.10", "1.2")
    ]
    searching(monkeypatch, *copies)
    entry = finding.registry(props).connector(ACME)
    assert (entry.plugin.version, entry.location) == ("1.10", "file:/plugins/1.10/")
    assert "1.9 in file:/plugins/1.9/, 1.10 in file:/plugins/1.10/" in caplog.text
    assert "1.2 in file:/plugins/1.2/" in caplog.text


def test_jars_without_classes_and_broken_ones_start_no_search(
    props: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    search = searching(monkeypatch, row(ACME))
    jar = Path(props["plugin.path"]) / "acme" / "acme.jar"
    for content in (b"no archive", b"PK\x05\x06" + bytes(18)):  # the second: an empty archive
        jar.write_bytes(content)
        assert not [each for each in finding.registry(props).found if each.java]
    assert search.searches == 0
    assert f"{jar} cannot be read: File is not a zip file" in caplog.text

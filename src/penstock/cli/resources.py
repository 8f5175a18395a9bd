"""Connectors that should exist, as files of a repository describe them: JSON, properties, YAML, and
the `KafkaConnector` resources of Strimzi.

Only YAML needs the package PyYAML, which the extra `yaml` installs.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.cli import files
from penstock.cli.exits import Unusable
from penstock.config.properties import ConnectorFile

CLUSTER_LABEL: Final = "strimzi.io/cluster"
"""The label that names the `KafkaConnect` resource a `KafkaConnector` belongs to."""

SUFFIXES: Final = (".json", ".properties", ".yaml", ".yml")
"""Suffixes of the files that are read in a folder."""

_YAML: Final = (".yaml", ".yml")
_RESOLVED: Final = ("bool", "null", "merge")
_GROUP: Final = "kafka.strimzi.io/"
_KIND: Final = "KafkaConnector"
_PAUSED: Final = "strimzi.io/pause-reconciliation"
_SPEC: Final = frozenset(
    "class tasksMax config state pause autoRestart version listOffsets alterOffsets".split()
)
_OPERATORS: Final = ("autoRestart", "listOffsets", "alterOffsets")
"""Members of a spec that tell Strimzi's operator what to do, not the cluster what to run."""

_OWN: Final = ("name", "connector.class", "tasks.max")
"""Settings that a resource has members for; Strimzi ignores them in `config`."""

_STATES: Final = ("running", "paused", "stopped")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A connector that should exist, and the file that says so.

    `state` is the target state it should always have, `initial_state` the one to create it with;
    None leaves the choice to the cluster.
    """

    name: str
    config: Mapping[str, str]
    source: str
    state: str | None = None  # RUNNING, PAUSED or STOPPED
    initial_state: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resources:
    """The connectors of all files in their order, and notes about documents that were passed over.
    `skipped` names connectors that must not be changed."""

    wanted: tuple[Wanted, ...]
    notes: tuple[str, ...] = ()
    skipped: frozenset[str] = frozenset()


def read(
    paths: Sequence[str], *, recursive: bool = False, selector: Mapping[str, str] | None = None
) -> Resources:
    """The connectors that the files, and the files in the folders, describe.

    With a `selector`, resources without these labels are left out. Raises Unusable for unreadable
    files, for a name that two files have, and for resources of several Kafka Connect clusters.
    """
    connectors: list[Wanted] = []
    notes: list[str] = []
    skipped: set[str] = set()
    for path in _expanded(paths, recursive):
        for document in documents(files.read_bytes(path), path):
            if not _is_resource(document):
                connectors.append(_plain(files.connector_in(document, path), path))
                continue
            if (passed := _passed_over(document, path)) is not None:
                notes.append(passed)
                if document["kind"] == _KIND:
                    skipped.add(str(_metadata(document).get("name")))
                continue
            connectors.append(connector_resource(document, path))
    chosen = [connector for connector in connectors if _selected(connector, selector or {})]
    _demand_unique(chosen)
    _demand_one_cluster(chosen)
    return Resources(tuple(chosen), tuple(notes), frozenset(skipped))


def documents(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    """The documents in a file, a list's items one by one; scalars are texts, as written, except for
    booleans and nulls."""
    suffix = Path(path).suffix.lower()
    text = data.removeprefix(codecs.BOM_UTF8)
    # A resource begins with its apiVersion; no properties file does.
    if suffix in _YAML or (suffix not in SUFFIXES and _looks_like_yaml(text)):
        parsed: Iterable[Any] = _yaml(text, path)
    else:
        parsed = [files.document_of(text, path)]
    for document in parsed:
        if document is None:
            continue  # nothing between two separators
        if not isinstance(document, dict):
            raise Unusable(f"'{path}' does not contain a mapping, but: {str(document)[:40]!r}.")
        if str(document.get("kind", "")).endswith("List") and isinstance(
            document.get("items"), list
        ):
            yield from document["items"]
        else:
            yield document


def connector_resource(document: Mapping[str, Any], path: str) -> Wanted:
    """The connector of a `KafkaConnector`, as Strimzi's operator would create it.

    Raises Unusable for a resource that Strimzi's schema refuses.
    """
    metadata = _metadata(document)
    name, spec = metadata.get("name"), document.get("spec")
    if not isinstance(name, str) or not name:
        raise Unusable(f"A {_KIND} in '{path}' lacks metadata.name.")
    title = f"{_KIND} '{name}' in '{path}'"
    if not isinstance(spec, dict):
        raise Unusable(f"{title} lacks spec.")
    if unknown := sorted(set(spec) - _SPEC):
        raise Unusable(
            f"{title} has an unknown spec.{unknown[0]}; known: {', '.join(sorted(_SPEC))}."
        )
    if not spec.get("class"):
        raise Unusable(f"{title} lacks spec.class, the connector's class.")
    settings = spec.get("config") or {}
    if not isinstance(settings, dict):
        raise Unusable(f"{title}: spec.config is not a mapping.")
    config = {key: text for key, text in files.texts(settings, path).items() if text is not None}
    notes = [
        f"{title}: spec.config.{key} is ignored, as by Strimzi; the resource has a member for it."
        for key in _OWN
        if config.pop(key, None) is not None
    ]
    notes += [
        f"{title}: spec.{member} is for Strimzi's operator and is ignored here."
        for member in _OPERATORS
        if member in spec
    ]
    config |= {"name": name, "connector.class": str(spec["class"])}
    if spec.get("tasksMax") is not None:
        config["tasks.max"] = str(spec["tasksMax"])
    if spec.get("version") is not None:
        config["connector.plugin.version"] = str(spec["version"])
    labels = {key: str(value) for key, value in (metadata.get("labels") or {}).items()}
    return Wanted(name, config, path, _target(spec, title), None, labels, tuple(notes))


def _target(spec: Mapping[str, Any], title: str) -> str:
    paused = spec.get("pause") in (True, "true")
    declared = spec.get("state")
    state = str(declared) if declared is not None else "paused" if paused else "running"
    if state.lower() not in _STATES:
        raise Unusable(f"{title}: spec.state is '{state}'; it can be {', '.join(_STATES)}.")
    return state.upper()


def _plain(read: ConnectorFile, path: str) -> Wanted:
    config = {key: text for key, text in read.config.items() if text is not None}
    return Wanted(read.name, config, path, None, read.initial_state)


def _is_resource(document: Mapping[str, Any]) -> bool:
    return "apiVersion" in document and "kind" in document


def _metadata(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _passed_over(document: Mapping[str, Any], path: str) -> str | None:
    """Why a resource is not applied; None if it is."""
    kind, metadata = document["kind"], _metadata(document)
    title = f"{kind} '{metadata.get('name')}' in '{path}'"
    if kind != _KIND or not str(document["apiVersion"]).startswith(_GROUP):
        return f"{title} is skipped: only {_GROUP}* {_KIND} is applied."
    annotations = metadata.get("annotations") or {}
    if files.texts({"it": annotations.get(_PAUSED)}, path)["it"] == "true":
        return f"{title} is skipped: {_PAUSED} is true."
    return None


def _selected(connector: Wanted, selector: Mapping[str, str]) -> bool:
    return all(connector.labels.get(key) == value for key, value in selector.items())


def _demand_unique(connectors: Sequence[Wanted]) -> None:
    sources: dict[str, str] = {}
    for connector in connectors:
        if connector.name in sources:
            raise Unusable(
                f"'{sources[connector.name]}' and '{connector.source}' both describe "
                f"'{connector.name}'."
            )
        sources[connector.name] = connector.source


def _demand_one_cluster(connectors: Sequence[Wanted]) -> None:
    clusters = sorted(
        {
            connector.labels[CLUSTER_LABEL]
            for connector in connectors
            if CLUSTER_LABEL in connector.labels
        }
    )
    if len(clusters) > 1:
        raise Unusable(
            f"The resources are for several clusters: {', '.join(clusters)}.",
            f"Select those of one: --selector {CLUSTER_LABEL}={clusters[0]}",
        )


def _expanded(paths: Sequence[str], recursive: bool) -> Iterator[str]:
    for path in paths:
        folder = Path(path).expanduser()
        if path == files.STDIN or not folder.is_dir():
            yield path
            continue
        inside = folder.rglob("*") if recursive else folder.glob("*")
        yield from sorted(
            str(file) for file in inside if file.suffix.lower() in SUFFIXES and file.is_file()
        )


def _looks_like_yaml(text: bytes) -> bool:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(b"#")]
    return bool(lines) and lines[0].startswith((b"---", b"apiVersion:", b"kind:"))


def _yaml(text: bytes, path: str) -> list[Any]:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise Unusable(
            f"'{path}' is YAML, and the package PyYAML is not installed.",
            "Install it: pip install 'penstock[yaml]'",
        ) from error

    # Scalars stay as written: a setting's 1.10 is not 1.1, a date is a text.
    resolvers = {
        first: [row for row in rows if row[0].rpartition(":")[2] in _RESOLVED]
        for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    loader = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": resolvers})
    try:
        return list(yaml.load_all(text, loader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise Unusable(f"'{path}' is not YAML: {error}") from error

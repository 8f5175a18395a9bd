"""REST response bodies (kafka-connect.md §1.5), built from a worker's state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock import KAFKA_COMMIT, KAFKA_VERSION
from penstock.cluster.events import Restarting
from penstock.cluster.herder.state import HerderState
from penstock.cluster.records import VERSIONED, RawProps, Status
from penstock.config import render
from penstock.config.checks import version_range_problem
from penstock.config.connector import SINK, SOURCE
from penstock.config.connector_keys import CONNECTOR_VERSION
from penstock.config.versions import LATEST, mismatch
from penstock.data.java_maps import copy_buckets, hash_map_order
from penstock.errors import BadRequest, NotFound
from penstock.plugins.registry import InstalledPlugin, PluginKind, Registry
from penstock.runtime.validation import always_typed, available

Json = dict[str, Any]


def server_info(cluster_id: str) -> Json:
    """`ServerInfo`"""
    return {
        "version": KAFKA_VERSION,
        "commit": KAFKA_COMMIT,
        "kafka_cluster_id": cluster_id or None,
    }


def connector_info(state: HerderState, registry: Registry, name: str) -> Json | None:
    """`ConnectorInfo`, or None when the connector is not configured."""
    config = state.cluster.config(name)
    if config is None:
        return None
    return {
        "name": name,
        "config": in_stored_order(config),
        "tasks": [
            {"connector": task.connector, "task": task.number} for task in state.cluster.tasks(name)
        ],
        "type": connector_type(state, registry, name),
    }


def connector_type(state: HerderState, registry: Registry, name: str) -> str:
    """`source`, `sink`, or `unknown` when the class cannot be loaded here."""
    entry = _plugin(state, registry, name)
    return entry.kind.value if entry else "unknown"


def connector_status(state: HerderState, registry: Registry, name: str) -> Json | None:
    """`ConnectorStateInfo`, or None when no status is known."""
    status = state.statuses.connector(name)
    if status is None:
        return None
    tasks = {task.number: status for task, status in state.statuses.tasks_of(name).items()}
    return _state_info(state, registry, name, status, tasks)


def restarting(state: HerderState, registry: Registry, name: str, instances: Restarting) -> Json:
    """`ConnectorStateInfo` with the instances to be restarted as RESTARTING (KIP-745)."""
    return _state_info(state, registry, name, instances.connector, instances.tasks)


def task_status(state: HerderState, registry: Registry, name: str, number: int) -> Json | None:
    """`TaskState`, or None when no status is known."""
    for task, status in state.statuses.tasks_of(name).items():
        if task.number == number:
            return {"id": number, **_state(status, _plugin(state, registry, name))}
    return None


def task_infos(state: HerderState, name: str) -> list[Json] | None:
    """A list of `TaskInfo`, or None when the connector is not configured."""
    if not state.cluster.contains(name):
        return None
    return [
        {
            "id": {"connector": task.connector, "task": task.number},
            "config": in_stored_order(state.cluster.task_config(task) or {}),
        }
        for task in state.cluster.tasks(name)
    ]


def plugin_infos(registry: Registry, *, connectors_only: bool) -> list[Json]:
    """A list of `PluginInfo`: connectors by default, else all kinds in Kafka Connect's order."""
    listed: list[tuple[PluginKind, list[InstalledPlugin]]] = [
        (kind, registry.of_kind(kind)) for kind in (PluginKind.SINK, PluginKind.SOURCE)
    ]
    if not connectors_only:
        listed += [
            (PluginKind.TRANSFORM, registry.of_kind(PluginKind.TRANSFORM)),
            (PluginKind.PREDICATE, registry.of_kind(PluginKind.PREDICATE)),
            (PluginKind.CONVERTER, registry.of_kind(PluginKind.CONVERTER)),
            # Every converter converts headers, too.
            (
                PluginKind.HEADER_CONVERTER,
                registry.of_kind(PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER),
            ),
        ]
    return [
        {
            "class": entry.plugin.class_name,
            "type": kind.value,
            "version": entry.plugin.version,
        }
        for kind, plugins in listed
        for entry in plugins
    ]


def active_topics(state: HerderState, name: str) -> Json:
    """`ActiveTopics`; an unknown connector has none."""
    return {name: {"topics": list(state.statuses.topics_of(name))}}


def in_stored_order(config: RawProps) -> dict[str, str | None]:
    """The configuration in the order of the map that a Kafka Connect worker reads it into."""
    return {name: config[name] for name in hash_map_order(config)}


def patched(stored: RawProps, patch: RawProps) -> dict[str, str | None]:
    """`stored` with a patch applied (null removes a key), in the order of a Java worker's copy."""
    merged = {**stored, **patch}
    names = [name for name, text in merged.items() if text is not None or name not in patch]
    return {name: merged[name] for name in hash_map_order(names, copy_buckets(len(stored)))}


def plugin_config(registry: Registry, name: str, version: str = LATEST) -> list[Json]:
    """A list of `ConfigKeyInfo`: the plugin's own settings, then for connectors the common ones.
    Raises NotFound, and BadRequest for a plugin of another kind or an unknown version."""
    if version_range_problem(version) is not None:
        raise BadRequest(f"Invalid version specification: {version}")
    entry = registry.any(name)
    if entry is None:
        raise NotFound(f"Unknown plugin {name}.")
    if entry.kind in (
        PluginKind.CONFIG_PROVIDER,
        PluginKind.PRODUCER_INTERCEPTOR,
        PluginKind.CONSUMER_INTERCEPTOR,
    ):
        raise BadRequest(
            f"Invalid plugin class {name}. Valid types are sink, source, converter, "
            "header_converter, transformation, predicate."
        )
    refused = mismatch(entry.plugin.class_name, version, available(entry.cls))
    if refused is not None:
        raise BadRequest(refused)
    definition = entry.plugin.config
    if entry.kind in (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER):
        definition = always_typed(definition)
    keys = list(definition.keys)
    framework = {PluginKind.SOURCE: SOURCE, PluginKind.SINK: SINK}.get(entry.kind)
    if framework is not None:
        own = {key.name for key in keys}
        keys += [
            replace(key, default=entry.plugin.version) if key is CONNECTOR_VERSION else key
            for key in framework.keys
            if key.name not in own
        ]
    return [render.config_key_info(key) for key in keys]


def _state_info(
    state: HerderState, registry: Registry, name: str, status: Status, tasks: Mapping[int, Status]
) -> Json:
    entry = _plugin(state, registry, name)
    return {
        "name": name,
        "connector": _state(status, entry),
        "tasks": [
            {"id": number, **_state(task_status, entry)} for number, task_status in tasks.items()
        ],
        "type": connector_type(state, registry, name),
    }


def _state(status: Status, entry: InstalledPlugin | None) -> Json:
    version = status.version
    if version is None and entry is not None and status.state in VERSIONED:
        version = entry.plugin.version  # written by a worker without versions in its statuses
    shown: Json = {
        "state": status.state.value,
        "worker_id": status.worker_id,
        "version": version,
    }
    if status.trace:
        shown["trace"] = status.trace
    return shown


def _plugin(state: HerderState, registry: Registry, name: str) -> InstalledPlugin | None:
    return registry.find_connector_of(state.cluster.config(name) or {})

"""The routes as a table: method, path, handler, description. To add an endpoint, add a row;
`openapi` is generated from the table.

Paths are matched on the raw request path, segment by segment, so that a connector's name may hold
anything, percent-encoded. Every handler gets a `Call` and returns a `Response`; errors are raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from penstock.cluster.records import Target
from penstock.rest import about, connectors, internal, loggers, offsets, plugins, trace
from penstock.rest.call import Handler
from penstock.rest.shapes import many, ref
from penstock.runtime.metrics import CONTENT_TYPE

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter with its JSON Schema."""

    name: str
    schema: Json
    doc: str


@dataclass(frozen=True, slots=True)
class Route:
    """One row: `{name}` segments are parameters; a `body` is `application/json`.

    `answers` are the bodies by status, None for no body; `errors` are the statuses specific to this
    endpoint.
    """

    method: str
    path: str
    handler: Handler
    summary: str = ""
    query: tuple[Query, ...] = ()
    body: Json | None = None
    answers: Mapping[int, Json | None] = field(default_factory=dict)
    errors: tuple[int, ...] = ()
    media: str = "application/json"  # of the response
    any_type: bool = False  # ignores the Content-Type, as Kafka Connect's `/` does

    @property
    def takes_body(self) -> bool:
        """Whether a request must have the Content-Type of JSON."""
        return self.body is not None

    @property
    def admin(self) -> bool:
        """An admin endpoint: `admin.listeners` says where it is served (kafka-connect.md §1.1)."""
        return self.path.startswith("/admin/")

    def match(self, segments: list[str]) -> dict[str, str] | None:
        """The parameters if the path matches; otherwise None."""
        own = self.path.strip("/").split("/") if self.path.strip("/") else []
        if len(own) != len(segments):
            return None
        params: dict[str, str] = {}
        for pattern, segment in zip(own, segments, strict=True):
            if pattern.startswith("{"):
                params[pattern[1:-1]] = _decoded(segment)
            elif pattern != _decoded(segment):
                return None
        return params


def _decoded(segment: str) -> str:
    """A path segment as text, without its matrix parameters."""
    return unquote(segment.split(";")[0])


_EXPAND: Final = Query(
    "expand",
    {"type": "array", "items": {"type": "string", "enum": ["status", "info"]}},
    "What to include about each connector, besides its name.",
)
_CONNECTORS_ONLY: Final = Query(
    "connectorsOnly", {"type": "boolean", "default": True}, "false: plugins of all kinds."
)
_VERSION: Final = Query(
    "version",
    {"type": "string", "default": "latest"},
    "A version of the plugin, or a Maven version range (KIP-891).",
)
_SCOPE: Final = Query(
    "scope",
    {"type": "string", "enum": ["worker", "cluster"], "default": "worker"},
    "Which workers: the one that receives the request, or all.",
)
_RESTART: Final = (
    Query("includeTasks", {"type": "boolean", "default": False}, "Its tasks, too."),
    Query("onlyFailed", {"type": "boolean", "default": False}, "Only what has failed."),
)

_TRACE: Final = (
    Query(
        "records",
        {"type": "integer", "minimum": 1, "maximum": trace.MOST_RECORDS, "default": 1},
        "How many records.",
    ),
    Query("task", {"type": "integer", "minimum": 0, "default": 0}, "The number of the task."),
    Query(
        "timeout",
        {"type": "integer", "minimum": 1, "maximum": trace.LONGEST_MS, "default": 10_000},
        "How long to wait for them, in milliseconds.",
    ),
)

_INFO: Final = ref("ConnectorInfo")
_STATUS: Final = ref("ConnectorStateInfo")
_GIVEN: Final = ref("GivenConfig")
_MESSAGE: Final = ref("Message")

ROUTES: Final = (
    Route(
        "GET",
        "/",
        about.root,
        "The version and the Kafka cluster id",
        answers={200: ref("ServerInfo")},
        any_type=True,
    ),
    Route(
        "GET",
        "/health",
        about.health,
        "The health of the worker (KIP-1017)",
        answers={status: ref("WorkerStatus") for status in (200, 503, 500)},
        any_type=True,
    ),
    Route(
        "GET",
        "/metrics",
        about.metrics,
        "Metrics for Prometheus (penstock's own)",
        answers={200: {"type": "string"}},
        media=CONTENT_TYPE,
        any_type=True,
    ),
    Route(
        "GET",
        "/openapi.json",
        about.description,
        "This description (penstock's own)",
        answers={200: ref("Description")},
        any_type=True,
    ),
    Route(
        "GET",
        "/connectors",
        connectors.list_connectors,
        "All connectors",
        query=(_EXPAND,),
        answers={200: ref("Connectors")},
    ),
    Route(
        "POST",
        "/connectors",
        connectors.create_connector,
        "Creates a connector",
        body=ref("CreateConnectorRequest"),
        answers={201: _INFO},
        errors=(409,),
    ),
    Route(
        "GET",
        "/connectors/{connector}",
        connectors.get_connector,
        "A connector",
        answers={200: _INFO},
        errors=(404,),
    ),
    Route(
        "DELETE",
        "/connectors/{connector}",
        connectors.delete_connector,
        "Deletes a connector; its offsets stay",
        answers={204: None},
        errors=(404, 409),
    ),
    Route(
        "GET",
        "/connectors/{connector}/config",
        connectors.get_config,
        "A connector's configuration",
        answers={200: ref("Config")},
        errors=(404,),
    ),
    Route(
        "PUT",
        "/connectors/{connector}/config",
        connectors.put_config,
        "Replaces a connector's configuration, or creates the connector",
        body=_GIVEN,
        answers={200: _INFO, 201: _INFO},
        errors=(409,),
    ),
    Route(
        "PATCH",
        "/connectors/{connector}/config",
        connectors.patch_config,
        "Changes single settings; null removes one (KIP-477)",
        body=_GIVEN,
        answers={200: _INFO},
        errors=(404, 409),
    ),
    Route(
        "GET",
        "/connectors/{connector}/status",
        connectors.get_status,
        "The status of a connector and its tasks",
        answers={200: _STATUS},
        errors=(404,),
    ),
    Route(
        "POST",
        "/connectors/{connector}/restart",
        connectors.restart_connector,
        "Restarts a connector, and optionally its tasks (KIP-745)",
        query=_RESTART,
        answers={204: None, 202: _STATUS},
        errors=(404, 409),
    ),
    Route(
        "PUT",
        "/connectors/{connector}/pause",
        connectors.set_target(Target.PAUSED, 202),
        "Pauses a connector; its tasks stay assigned",
        answers={202: None},
        errors=(404, 409),
    ),
    Route(
        "PUT",
        "/connectors/{connector}/resume",
        connectors.set_target(Target.STARTED, 202),
        "Resumes a paused or stopped connector",
        answers={202: None},
        errors=(404, 409),
    ),
    Route(
        "PUT",
        "/connectors/{connector}/stop",
        connectors.set_target(Target.STOPPED, 204),
        "Stops a connector and shuts down its tasks",
        answers={204: None},
        errors=(404, 409),
    ),
    Route(
        "GET",
        "/connectors/{connector}/tasks",
        connectors.get_tasks,
        "The tasks of a connector, with their configurations",
        answers={200: many("TaskInfo")},
        errors=(404,),
    ),
    Route(
        "POST",
        "/connectors/{connector}/tasks",
        internal.put_tasks,
        "Internal: submits a task set to the leader",
        body=ref("TaskConfigs"),
        answers={204: None},
        errors=(403, 404, 409, 503),
    ),
    Route(
        "PUT",
        "/connectors/{connector}/fence",
        internal.fence,
        "Internal: fences zombie source tasks (KIP-618)",
        answers={204: None},
        errors=(403, 404, 409, 503),
    ),
    Route(
        "GET",
        "/connectors/{connector}/tasks/{task}/status",
        connectors.get_task_status,
        "The state of a task",
        answers={200: ref("TaskState")},
        errors=(404,),
    ),
    Route(
        "POST",
        "/connectors/{connector}/tasks/{task}/restart",
        connectors.restart_task,
        "Restarts a task",
        answers={204: None},
        errors=(404, 409),
    ),
    Route(
        "GET",
        "/connectors/{connector}/trace",
        trace.trace,
        "A task's next records, step by step (penstock's own)",
        query=_TRACE,
        answers={200: ref("RecordTrace")},
        errors=(400, 404, 409),
    ),
    Route(
        "GET",
        "/connectors/{connector}/topics",
        connectors.get_topics,
        "The active topics of a connector (KIP-558)",
        answers={200: ref("ActiveTopics")},
        errors=(403,),
    ),
    Route(
        "PUT",
        "/connectors/{connector}/topics/reset",
        connectors.reset_topics,
        "Resets the active topics of a connector",
        answers={202: None},
        errors=(403, 404, 409),
    ),
    Route(
        "GET",
        "/connectors/{connector}/offsets",
        offsets.get_offsets,
        "The offsets of a connector (KIP-875)",
        answers={200: ref("ConnectorOffsets")},
        errors=(404,),
    ),
    Route(
        "PATCH",
        "/connectors/{connector}/offsets",
        offsets.patch_offsets,
        "Alters the offsets of a stopped connector",
        body=ref("ConnectorOffsets"),
        answers={200: _MESSAGE},
        errors=(404, 409),
    ),
    Route(
        "DELETE",
        "/connectors/{connector}/offsets",
        offsets.delete_offsets,
        "Resets the offsets of a stopped connector",
        answers={200: _MESSAGE},
        errors=(404, 409),
    ),
    Route(
        "GET",
        "/connector-plugins",
        plugins.list_plugins,
        "The installed plugins",
        query=(_CONNECTORS_ONLY,),
        answers={200: many("PluginInfo")},
    ),
    Route(
        "GET",
        "/connector-plugins/{plugin}/config",
        plugins.plugin_config,
        "A plugin's settings",
        query=(_VERSION,),
        answers={200: many("ConfigKeyInfo")},
        errors=(400, 404),
    ),
    Route(
        "PUT",
        "/connector-plugins/{plugin}/config/validate",
        plugins.validate_plugin,
        "Validates a configuration",
        body=_GIVEN,
        answers={200: ref("ConfigInfos")},
    ),
    Route(
        "GET",
        "/admin/loggers",
        loggers.list_loggers,
        "Loggers with a level of their own",
        answers={200: ref("LoggerLevels")},
    ),
    Route(
        "GET",
        "/admin/loggers/{logger}",
        loggers.get_logger,
        "The level of a logger",
        answers={200: ref("LoggerLevel")},
        errors=(404,),
    ),
    Route(
        "PUT",
        "/admin/loggers/{logger}",
        loggers.set_logger,
        "Sets the level of a logger and of those below it (KIP-495, KIP-976)",
        query=(_SCOPE,),
        body=ref("GivenLevel"),
        answers={200: ref("Names"), 204: None},
        errors=(404, 409),
    ),
)

ALWAYS: Final = frozenset(
    {about.root, about.health, about.metrics, about.description, plugins.list_plugins}
)
"""Handlers that need no internal topic, and so respond while the worker is starting."""

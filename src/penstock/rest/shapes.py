"""The shapes of bodies as JSON Schema: the names are those of kafka-connect.md §1.5, the
descriptions are ours. `model` builds the bodies; a test checks every response of a live worker
against these schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
_NUMBER: Final[Json] = {"type": "integer", "format": "int32", "minimum": 0}
_TYPE: Final[Json] = {"type": "string", "enum": ["source", "sink", "unknown"]}
_STATES: Final[Json] = {
    "type": "string",
    "enum": ["UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "RESTARTING", "STOPPED"],
}


def ref(name: str) -> Json:
    """The shape with this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def many(name: str) -> Json:
    """A list of shapes with this name."""
    return {"type": "array", "items": ref(name)}


def _object(
    members: Mapping[str, Json], *, optional: tuple[str, ...] = (), doc: str | None = None
) -> Json:
    """An object with these members and no others; all are required unless they are `optional`."""
    shape: Json = {
        "type": "object",
        "properties": dict(members),
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
    }
    return shape if doc is None else {"description": doc, **shape}


def _map(values: Json, doc: str) -> Json:
    return {"type": "object", "description": doc, "additionalProperties": values}


_TASK_ID: Final = {"connector": _TEXT, "task": _NUMBER}
_PLACE: Final = {
    "state": _STATES,
    "worker_id": {"type": "string", "description": "Host and port of the worker."},
    "version": {"type": ["string", "null"], "description": "The plugin's version."},
    "trace": {"type": "string", "description": "The reason, if there is one."},
}

SCHEMAS: Final[Mapping[str, Json]] = {
    "Error": _object({"error_code": {"type": "integer"}, "message": _TEXT}),
    "ServerInfo": _object(
        {
            "version": {
                "type": "string",
                "description": "The compatible version of Kafka Connect.",
            },
            "commit": _TEXT,
            "kafka_cluster_id": _TEXT_OR_NULL,
        }
    ),
    "WorkerStatus": _object(
        {
            "status": {"type": "string", "enum": ["healthy", "starting", "unhealthy"]},
            "message": _TEXT,
        }
    ),
    "Config": _map(
        _TEXT_OR_NULL,
        "Settings as they are stored: placeholders not resolved, passwords not hidden.",
    ),
    "GivenConfig": _map(
        {"type": ["string", "number", "boolean", "null"]},
        "Settings; numbers and booleans become strings. A null is refused in a new "
        "configuration, and removes a setting in a patch.",
    ),
    "CreateConnectorRequest": _object(
        {
            "name": {"type": ["string", "null"]},
            "config": ref("GivenConfig"),
            "initial_state": {
                "type": ["string", "null"],
                "description": "RUNNING (the default), PAUSED or STOPPED, in any case (KIP-980).",
                "pattern": "^(?i:RUNNING|PAUSED|STOPPED)$",
            },
        },
        optional=("name", "initial_state"),
    ),
    "ConnectorTaskId": _object(_TASK_ID),
    "ConnectorInfo": _object(
        {
            "name": _TEXT,
            "config": ref("Config"),
            "tasks": many("ConnectorTaskId"),
            "type": _TYPE,
        }
    ),
    "TaskInfo": _object({"id": ref("ConnectorTaskId"), "config": ref("Config")}),
    "ConnectorState": _object(_PLACE, optional=("trace",)),
    "TaskState": _object({"id": _NUMBER, **_PLACE}, optional=("trace",)),
    "ConnectorStateInfo": _object(
        {
            "name": _TEXT,
            "connector": ref("ConnectorState"),
            "tasks": many("TaskState"),
            "type": _TYPE,
        }
    ),
    "Connectors": {
        "description": "Names; with `expand` a map by name.",
        "oneOf": [
            {"type": "array", "items": _TEXT},
            {
                "type": "object",
                "additionalProperties": _object(
                    {"status": ref("ConnectorStateInfo"), "info": ref("ConnectorInfo")},
                    optional=("status", "info"),
                ),
            },
        ],
    },
    "ActiveTopics": _map(
        _object({"topics": {"type": "array", "items": _TEXT}}), "One member: the connector."
    ),
    "ConnectorOffset": _object(
        {
            "partition": {"type": ["object", "null"]},
            "offset": {"type": ["object", "null"], "description": "null: reset it."},
        },
        optional=("offset",),
        doc="A source partition and its offset. For sinks: "
        "`kafka_topic`, `kafka_partition`; `kafka_offset`.",
    ),
    "ConnectorOffsets": _object({"offsets": many("ConnectorOffset")}),
    "Message": _object({"message": _TEXT}),
    "PluginInfo": _object(
        {
            "class": _TEXT,
            "type": {
                "type": "string",
                "enum": [
                    "sink",
                    "source",
                    "transformation",
                    "predicate",
                    "converter",
                    "header_converter",
                ],
            },
            "version": _TEXT_OR_NULL,
        },
        optional=("version",),
    ),
    "ConfigKeyInfo": _object(
        {
            "name": _TEXT,
            "type": {
                "type": "string",
                "enum": [
                    "BOOLEAN",
                    "STRING",
                    "INT",
                    "SHORT",
                    "LONG",
                    "DOUBLE",
                    "LIST",
                    "CLASS",
                    "PASSWORD",
                ],
            },
            "required": {"type": "boolean"},
            "default_value": _TEXT_OR_NULL,
            "importance": {"type": "string", "enum": ["HIGH", "MEDIUM", "LOW"]},
            "documentation": _TEXT,
            "group": _TEXT_OR_NULL,
            "order_in_group": {"type": "integer"},
            "width": {"type": "string", "enum": ["NONE", "SHORT", "MEDIUM", "LONG"]},
            "display_name": _TEXT,
            "dependents": {"type": "array", "items": _TEXT},
        }
    ),
    "ConfigValueInfo": _object(
        {
            "name": _TEXT,
            "value": _TEXT_OR_NULL,
            "recommended_values": {"type": "array", "items": _TEXT_OR_NULL},
            "errors": {"type": "array", "items": _TEXT},
            "visible": {"type": "boolean"},
        }
    ),
    "ConfigInfo": _object(
        {
            "definition": {"oneOf": [ref("ConfigKeyInfo"), {"type": "null"}]},
            "value": {"oneOf": [ref("ConfigValueInfo"), {"type": "null"}]},
        }
    ),
    "ConfigInfos": _object(
        {
            "name": _TEXT_OR_NULL,
            "error_count": {"type": "integer", "minimum": 0},
            "groups": {"type": "array", "items": _TEXT},
            "configs": many("ConfigInfo"),
        }
    ),
    "LoggerLevel": _object(
        {
            "level": _TEXT,
            "last_modified": {
                "type": ["integer", "null"],
                "format": "int64",
                "description": "When the level was last set here, in milliseconds since 1970.",
            },
        }
    ),
    "LoggerLevels": _map(ref("LoggerLevel"), "Loggers by name."),
    "GivenLevel": {
        "type": "object",
        "properties": {
            "level": {
                "type": "string",
                "enum": ["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL"],
            }
        },
        "required": ["level"],
    },
    "RecordTrace": _object(
        {"connector": _TEXT, "task": _NUMBER, "records": many("TracedRecord")},
        doc="Fewer records than were asked for, if no more were read in time.",
    ),
    "TracedRecord": _object(
        {
            "steps": {
                "description": "As it was read, and after each step.",
                "type": "array",
                "items": ref("TracedStep"),
            },
            "outcome": {
                "type": "string",
                "enum": ["converted", "written", "dropped", "failed"],
                "description": "converted: ready for Kafka; dropped: by a transform.",
            },
            "by": {"type": "object", "description": "The step that dropped it or failed."},
            "error": _TEXT,
        },
        optional=("by", "error"),
    ),
    "TracedStep": _object(
        {
            "step": {"type": "string", "description": "READ, or the step's stage."},
            "alias": {"type": "string", "description": "Of a transform."},
            "class": _TEXT,
            "topic": _TEXT_OR_NULL,
            "partition": {"type": ["integer", "null"]},
            "offset": {"type": "integer", "description": "Of a consumed record."},
            "timestamp": {"type": ["integer", "null"], "format": "int64"},
            "key": {"description": "Bytes as JSON or text, otherwise their number."},
            "value": {"description": "As the key."},
            "headers": {"type": "array", "items": {"type": "array"}},
            "key_schema": _TEXT_OR_NULL,
            "value_schema": _TEXT_OR_NULL,
        },
        optional=("alias", "class", "offset"),
    ),
    "Names": {"type": "array", "items": _TEXT},
    "TaskConfigs": many("GivenConfig"),
    "Description": {"type": "object", "required": ["openapi", "info", "paths"]},
}

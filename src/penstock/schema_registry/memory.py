"""A Schema Registry in memory, for `mock://` and the test server.

`answer` takes a request of the REST API of Confluent's Schema Registry and returns status and body.
Equal schemas have the same id in all subjects; version numbers are not reused; a soft deletion
hides a version, a permanent one removes it. Compatibility is checked (`compatibility`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from penstock.schema_registry.compatibility import (
    avro_obstacles,
    json_obstacles,
    parse_avro,
    parse_json,
    parse_protobuf,
    protobuf_obstacles,
)
from penstock.schema_registry.memory_store import (
    TYPES,
    Body,
    Refused,
    Store,
    StoredSchema,
    Subject,
    Version,
    no_subject,
    no_version,
)

Query = Mapping[str, str]

LEVELS: Final = (
    *("NONE", "BACKWARD", "FORWARD", "FULL"),
    *("BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE"),
)
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")


@dataclass(frozen=True, slots=True)
class Response:
    """The registry's response to a request."""

    status: int
    body: Any


class MemoryRegistry:
    """Subjects, versions, settings. Thread-safe."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._store = Store()
        self._levels: dict[str | None, str] = {None: "BACKWARD"}
        self._modes: dict[str | None, str] = {None: "READWRITE"}

    def answer(self, method: str, path: str, query: Query, body: Body | None = None) -> Response:
        """The response to a request; `path` is encoded as in a URL, and may have a query."""
        path, _, more = path.partition("?")
        if more:
            query = {**query, "&": more}
        known = False
        for verb, pattern, respond in _ROUTES:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            known = True
            if verb != method:
                continue
            parts = {name: unquote(text) for name, text in match.groupdict().items()}
            try:
                with self._lock:
                    return Response(200, respond(self, parts, query, body or {}))
            except Refused as refused:
                return _refusal(refused.code, str(refused))
        code, text = (405, "Method Not Allowed") if known else (404, "Not Found")
        return _refusal(code, f"HTTP {code} {text}")

    def subjects(self, parts: Body, query: Query, body: Body) -> Any:
        prefix = query.get("subjectPrefix", "")
        return sorted(
            name
            for name, subject in self._store.subjects.items()
            if name.startswith(prefix) and subject.living(_true(query, "deleted"))
        )

    def versions(self, parts: Body, query: Query, body: Body) -> Any:
        versions = self._store.living(parts["subject"], _true(query, "deleted"))
        return [version.number for version in versions]

    def version(self, parts: Body, query: Query, body: Body) -> Any:
        version = self._store.version(parts["subject"], parts["version"], _true(query, "deleted"))
        return self._placed(parts["subject"], version, query.get("format"))

    def version_text(self, parts: Body, query: Query, body: Body) -> Any:
        version = self._store.version(parts["subject"], parts["version"], _true(query, "deleted"))
        return _text_body(version.schema)

    def referenced_by(self, parts: Body, query: Query, body: Body) -> Any:
        version = self._store.version(parts["subject"], parts["version"], True)
        return sorted(self._store.users(parts["subject"], version.number))

    def metadata(self, parts: Body, query: Query, body: Body) -> Any:
        pairs = parse_qsl(query.get("&", ""))
        required = dict(
            zip(
                [text for name, text in pairs if name == "key"],
                [text for name, text in pairs if name == "value"],
                strict=False,
            )
        )
        for version in reversed(self._store.living(parts["subject"], _true(query, "deleted"))):
            properties = json.loads(version.schema.metadata or "{}").get("properties") or {}
            if all(properties.get(name) == value for name, value in required.items()):
                return self._placed(parts["subject"], version)
        raise no_version("latest")

    def register(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts["subject"]
        self._may_write(subject)
        schema = self._store.read(body, normalize=_true(query, "normalize"))
        place = self._store.subjects.setdefault(subject, Subject())
        same = next(
            (version for version in place.living() if version.schema.key == schema.key), None
        )
        if same is None:
            problems = self._problems(subject, schema, place.living())
            if problems:
                raise Refused(
                    409,
                    "Schema being registered is incompatible with an earlier schema for subject "
                    f'"{subject}", details: [{", ".join(problems)}]',
                )
            known = self._store.with_id(schema, body.get("id"))
            place.last_number += 1
            same = Version(place.last_number, known)
            place.versions[same.number] = same
        return {"id": same.schema.id}

    def lookup(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts["subject"]
        deleted = _true(query, "deleted")
        if not (subject in self._store.subjects and self._store.subjects[subject].living(deleted)):
            raise no_subject(subject)
        schema = self._store.read(body, normalize=_true(query, "normalize"))
        for version in reversed(self._store.living(subject, deleted)):
            if version.schema.key == schema.key:
                return self._placed(subject, version)
        raise Refused(40403, "Schema not found")

    def delete_subject(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts["subject"]
        self._may_write(subject)
        place = self._store.subjects.get(subject)
        if place is None or not place.versions:
            raise no_subject(subject)
        permanent, living = _true(query, "permanent"), place.living()
        if not permanent and not living:
            raise Refused(
                40404,
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
            )
        if permanent and living:
            raise Refused(
                40405,
                f"Subject '{subject}' was not deleted first before being permanently deleted",
            )
        chosen = list(place.versions.values()) if permanent else living
        for version in chosen:
            self._store.check_unused(subject, version)
        for version in chosen:
            version.deleted = True
        numbers = [version.number for version in chosen]
        if permanent:
            del self._store.subjects[subject]
            self._levels.pop(subject, None)
            self._modes.pop(subject, None)
            self._store.sweep()
        return numbers

    def delete_version(self, parts: Body, query: Query, body: Body) -> Any:
        subject, permanent = parts["subject"], _true(query, "permanent")
        self._may_write(subject)
        version = self._store.version(subject, parts["version"], True)
        if version.deleted and not permanent:
            raise Refused(
                40406,
                f"Subject '{subject}' Version {version.number} was soft deleted. "
                "Set permanent=true to delete permanently",
            )
        if permanent and not version.deleted:
            raise Refused(
                40407,
                f"Subject '{subject}' Version {version.number} was not deleted first before being "
                "permanently deleted",
            )
        self._store.check_unused(subject, version)
        version.deleted = True
        if permanent:
            del self._store.subjects[subject].versions[version.number]
            self._store.sweep()
        return version.number

    def types(self, parts: Body, query: Query, body: Body) -> Any:
        return list(TYPES)

    def by_id(self, parts: Body, query: Query, body: Body) -> Any:
        schema = self._store.by_id(parts["id"])
        return _in_format(schema, query.get("format"))

    def by_id_text(self, parts: Body, query: Query, body: Body) -> Any:
        return _text_body(self._store.by_id(parts["id"]))

    def id_versions(self, parts: Body, query: Query, body: Body) -> Any:
        schema = self._store.by_id(parts["id"])
        return [
            {"subject": name, "version": version.number}
            for name, subject in sorted(self._store.subjects.items())
            for version in subject.living(_true(query, "deleted"))
            if version.schema is schema
        ]

    def id_subjects(self, parts: Body, query: Query, body: Body) -> Any:
        return list(dict.fromkeys(e["subject"] for e in self.id_versions(parts, query, body)))

    def test_version(self, parts: Body, query: Query, body: Body) -> Any:
        version = self._store.version(parts["subject"], parts["version"], False)
        return self._tested(parts["subject"], body, query, [version], latest_only=True)

    def test_all(self, parts: Body, query: Query, body: Body) -> Any:
        subject = self._store.subjects.get(parts["subject"], Subject())
        return self._tested(parts["subject"], body, query, subject.living(), latest_only=False)

    def _tested(
        self, subject: str, body: Body, query: Query, earlier: list[Version], *, latest_only: bool
    ) -> Any:
        schema = self._store.read(body, normalize=_true(query, "normalize"))
        level = self._level(subject)
        if latest_only:
            level = level.removesuffix("_TRANSITIVE")
        problems = self._problems(subject, schema, earlier, level)
        answer: dict[str, Any] = {"is_compatible": not problems}
        if _true(query, "verbose"):
            answer["messages"] = problems
        return answer

    def _level(self, subject: str) -> str:
        return self._levels.get(subject) or self._levels[None] or "BACKWARD"

    def _problems(
        self, subject: str, schema: StoredSchema, earlier: list[Version], level: str | None = None
    ) -> list[str]:
        """Why `schema` is incompatible with the versions in `earlier`."""
        level = level or self._level(subject)
        if level == "NONE" or not earlier:
            return []
        for version in reversed(earlier if level.endswith("_TRANSITIVE") else earlier[-1:]):
            problems: list[str] = []
            kind = level.removesuffix("_TRANSITIVE")
            if kind in ("BACKWARD", "FULL"):
                problems += self._obstacles(schema, version.schema)
            if kind in ("FORWARD", "FULL"):
                problems += self._obstacles(version.schema, schema)
            if problems:
                return [
                    *(f"{{{problem}}}" for problem in problems),
                    f"{{oldSchemaVersion: {version.number}}}",
                    f"{{oldSchema: '{version.schema.text}'}}",
                    f"{{compatibility: '{level}'}}",
                ]
        return []

    def _obstacles(self, reader: StoredSchema, writer: StoredSchema) -> list[str]:
        if reader.type != writer.type:
            return [f"TYPE_CHANGED from {writer.type} to {reader.type}"]
        ours = self._store.built_on(reader.references)
        theirs = self._store.built_on(writer.references)
        if reader.type == "AVRO":
            return avro_obstacles(parse_avro(reader.text, ours), parse_avro(writer.text, theirs))
        if reader.type == "JSON":
            return json_obstacles(parse_json(reader.text), parse_json(writer.text), (ours, theirs))
        one, other = parse_protobuf(reader.text), parse_protobuf(writer.text)
        if one is None or other is None:
            return [] if reader.key == writer.key else ["The .proto text was changed"]
        return protobuf_obstacles(one, other)

    def get_level(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts.get("subject")
        level = self._levels.get(subject)
        if level is None and _true(query, "defaultToGlobal"):
            level = self._levels[None]
        if level is None:
            raise Refused(
                40408,
                f"Subject '{subject}' does not have subject-level compatibility configured",
            )
        return {"compatibilityLevel": level}

    def put_level(self, parts: Body, query: Query, body: Body) -> Any:
        level = str(body.get("compatibility", "")).upper()
        if level not in LEVELS:
            raise Refused(
                42203,
                "Invalid compatibility level. Valid values are none, backward, forward, full, "
                "backward_transitive, forward_transitive, and full_transitive",
            )
        self._levels[parts.get("subject")] = level
        return {"compatibility": level}

    def delete_level(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts.get("subject")
        level = self._levels.get(subject)
        if level is None:
            raise no_subject(str(subject))
        if subject is None:
            self._levels[None] = "BACKWARD"
        else:
            del self._levels[subject]
        return {"compatibilityLevel": level}

    def get_mode(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts.get("subject")
        mode = self._modes.get(subject)
        if mode is None and _true(query, "defaultToGlobal"):
            mode = self._modes[None]
        if mode is None:
            raise Refused(40409, f"Subject '{subject}' does not have subject-level mode configured")
        return {"mode": mode}

    def put_mode(self, parts: Body, query: Query, body: Body) -> Any:
        mode = str(body.get("mode", "")).upper()
        if mode not in MODES:
            raise Refused(
                42204,
                "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT",
            )
        self._modes[parts.get("subject")] = mode
        return {"mode": mode}

    def delete_mode(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts.get("subject")
        mode = self._modes.get(subject)
        if mode is None:
            raise no_subject(str(subject))
        if subject is None:
            self._modes[None] = "READWRITE"
        else:
            del self._modes[subject]
        return {"mode": mode}

    def hello(self, parts: Body, query: Query, body: Body) -> Any:
        return {}

    def _may_write(self, subject: str) -> None:
        mode = self._modes.get(subject) or self._modes[None]
        if mode.startswith("READONLY"):
            raise Refused(42205, f"Subject {subject} in context . is in read-only mode")

    def _placed(self, subject: str, version: Version, format: str | None = None) -> dict[str, Any]:
        return {
            "subject": subject,
            "version": version.number,
            "id": version.schema.id,
            **_in_format(version.schema, format),
        }


def _refusal(code: int, message: str) -> Response:
    status = code // 100 if code >= 1000 else code
    return Response(status, {"error_code": code, "message": message})


def _true(query: Query, name: str) -> bool:
    return query.get(name, "").lower() == "true"


def _text_body(schema: StoredSchema) -> Any:
    """A schema without an envelope; JSON as such, not as a string."""
    try:
        return json.loads(schema.text)
    except ValueError:
        return schema.text


def _in_format(schema: StoredSchema, format: str | None) -> dict[str, Any]:
    if format == "serialized" and schema.type == "PROTOBUF" and not parse_protobuf(schema.text):
        raise Refused(
            42201,
            "This registry for tests serves a Protobuf schema in serialized form only if it was "
            "registered in it",
        )
    return schema.body()


_R = MemoryRegistry
_SUBJECT: Final = r"/subjects/(?P<subject>[^/]+)"
_VERSION: Final = rf"{_SUBJECT}/versions/(?P<version>[^/]+)"
_BY_ID: Final = r"/schemas/ids/(?P<id>[^/]+)"
_COMPATIBILITY: Final = rf"/compatibility{_SUBJECT}/versions"

Respond = Callable[[MemoryRegistry, Mapping[str, Any], Query, Body], Any]
_ROUTES: Final[tuple[tuple[str, re.Pattern[str], Respond], ...]] = tuple(
    (method, re.compile(pattern + "/?"), respond)
    for method, pattern, respond in (
        ("GET", "", _R.hello),
        ("GET", "/subjects", _R.subjects),
        ("POST", _SUBJECT, _R.lookup),
        ("DELETE", _SUBJECT, _R.delete_subject),
        ("GET", rf"{_SUBJECT}/metadata", _R.metadata),
        ("GET", rf"{_SUBJECT}/versions", _R.versions),
        ("POST", rf"{_SUBJECT}/versions", _R.register),
        ("GET", _VERSION, _R.version),
        ("DELETE", _VERSION, _R.delete_version),
        ("GET", rf"{_VERSION}/schema", _R.version_text),
        ("GET", rf"{_VERSION}/referencedby", _R.referenced_by),
        ("GET", "/schemas/types", _R.types),
        ("GET", _BY_ID, _R.by_id),
        ("GET", rf"{_BY_ID}/schema", _R.by_id_text),
        ("GET", rf"{_BY_ID}/subjects", _R.id_subjects),
        ("GET", rf"{_BY_ID}/versions", _R.id_versions),
        ("POST", _COMPATIBILITY, _R.test_all),
        ("POST", rf"{_COMPATIBILITY}/(?P<version>[^/]+)", _R.test_version),
        *(
            (method, path, respond)
            for paths, responds in (
                (("/config", r"/config/(?P<subject>[^/]+)"),
                 (_R.get_level, _R.put_level, _R.delete_level)),
                (("/mode", r"/mode/(?P<subject>[^/]+)"),
                 (_R.get_mode, _R.put_mode, _R.delete_mode)),
            )
            for path in paths
            for method, respond in zip(("GET", "PUT", "DELETE"), responds, strict=True)
        ),
    )
)  # fmt: skip
"""The API: method, path, handler."""

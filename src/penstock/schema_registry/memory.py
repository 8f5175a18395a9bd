"""A Schema Registry that lives in memory: what `mock://` talks to and the test server serves.

One method, `answer`, takes a request as the REST API of Confluent's Schema Registry has it and
returns status and body. Equal schemas have one id, in whichever subjects they stand; numbers of
versions are never given twice; soft deletion hides a version, a permanent one removes it.
Compatibility is really checked, see `compatibility`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from penstock.schema_registry.compatibility import (
    InvalidSchema,
    avro_obstacles,
    json_obstacles,
    parse_avro,
    parse_json,
    parse_protobuf,
    protobuf_obstacles,
)

Body = Mapping[str, Any]
Query = Mapping[str, str]

LEVELS: Final = (
    *("NONE", "BACKWARD", "FORWARD", "FULL"),
    *("BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE"),
)
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
TYPES: Final = ("JSON", "PROTOBUF", "AVRO")
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Response:
    """What the registry says to a request."""

    status: int
    body: Any


class _No(Exception):
    """The request is refused with one of the API's error codes."""

    def __init__(self, code: int, message: str) -> None:
        self.answer = Response(
            code // 100 if code >= 1000 else code, {"error_code": code, "message": message}
        )
        super().__init__(message)


def _no_subject(subject: str) -> _No:
    return _No(40401, f"Subject '{subject}' not found.")


def _no_version(version: int | str) -> _No:
    return _No(40402, f"Version {version} not found.")


@dataclass(frozen=True, slots=True)
class _Schema:
    """A schema as it was registered. Two are the same one when `key` is equal."""

    id: int
    type: str
    text: str
    references: tuple[tuple[str, str, int], ...]
    metadata: str | None  # as JSON, so that it can be compared
    rules: str | None
    key: object

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if self.type != "AVRO":
            body["schemaType"] = self.type
        if self.references:
            body["references"] = [
                {"name": name, "subject": subject, "version": version}
                for name, subject, version in self.references
            ]
        for name, text in (("metadata", self.metadata), ("ruleSet", self.rules)):
            if text is not None:
                body[name] = json.loads(text)
        body["schema"] = self.text
        return body


@dataclass(slots=True)
class _Version:
    number: int
    schema: _Schema
    deleted: bool = False


@dataclass(slots=True)
class _Subject:
    versions: dict[int, _Version] = field(default_factory=dict)
    last_number: int = 0

    def living(self, deleted: bool = False) -> list[_Version]:
        return [each for each in self.versions.values() if deleted or not each.deleted]


class MemoryRegistry:
    """Subjects, versions, settings. One lock: it may be asked from several threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._subjects: dict[str, _Subject] = {}
        self._by_key: dict[object, _Schema] = {}
        self._by_id: dict[int, _Schema] = {}
        self._levels: dict[str | None, str] = {None: "BACKWARD"}
        self._modes: dict[str | None, str] = {None: "READWRITE"}

    def answer(self, method: str, path: str, query: Query, body: Body | None = None) -> Response:
        """The answer to one request; `path` is as in the URL, encoded, and may hold a query."""
        path, _, more = path.partition("?")
        if more:
            query = {**query, "&": more}
        known = False
        for verb, pattern, respond in _ROUTES:
            found = pattern.fullmatch(path)
            if found is None:
                continue
            known = True
            if verb != method:
                continue
            parts = {name: unquote(text) for name, text in found.groupdict().items()}
            try:
                with self._lock:
                    return Response(200, respond(self, parts, query, body or {}))
            except _No as no:
                return no.answer
        code, text = (405, "Method Not Allowed") if known else (404, "Not Found")
        return Response(code, {"error_code": code, "message": f"HTTP {code} {text}"})

    # Subjects and versions

    def subjects(self, parts: Body, query: Query, body: Body) -> Any:
        prefix = query.get("subjectPrefix", "")
        return sorted(
            name
            for name, subject in self._subjects.items()
            if name.startswith(prefix) and subject.living(_true(query, "deleted"))
        )

    def versions(self, parts: Body, query: Query, body: Body) -> Any:
        return [each.number for each in self._living(parts["subject"], _true(query, "deleted"))]

    def version(self, parts: Body, query: Query, body: Body) -> Any:
        found = self._version(parts["subject"], parts["version"], _true(query, "deleted"))
        return self._placed(parts["subject"], found, query.get("format"))

    def version_text(self, parts: Body, query: Query, body: Body) -> Any:
        found = self._version(parts["subject"], parts["version"], _true(query, "deleted"))
        return _text_body(found.schema)

    def referenced_by(self, parts: Body, query: Query, body: Body) -> Any:
        found = self._version(parts["subject"], parts["version"], True)
        return sorted(self._users(parts["subject"], found.number))

    def metadata(self, parts: Body, query: Query, body: Body) -> Any:
        pairs = parse_qsl(query.get("&", ""))
        wanted = dict(
            zip(
                [text for name, text in pairs if name == "key"],
                [text for name, text in pairs if name == "value"],
                strict=False,
            )
        )
        for each in reversed(self._living(parts["subject"], _true(query, "deleted"))):
            properties = json.loads(each.schema.metadata or "{}").get("properties") or {}
            if all(properties.get(name) == value for name, value in wanted.items()):
                return self._placed(parts["subject"], each)
        raise _no_version("latest")

    def register(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts["subject"]
        self._may_write(subject)
        schema = self._read(body, normalize=_true(query, "normalize"))
        place = self._subjects.setdefault(subject, _Subject())
        same = next((each for each in place.living() if each.schema.key == schema.key), None)
        if same is None:
            problems = self._problems(subject, schema, place.living())
            if problems:
                raise _No(
                    409,
                    "Schema being registered is incompatible with an earlier schema for subject "
                    f'"{subject}", details: [{", ".join(problems)}]',
                )
            known = self._by_key.get(schema.key)
            if known is None:
                known = self._with_id(schema, body.get("id"))
            place.last_number += 1
            same = _Version(place.last_number, known)
            place.versions[same.number] = same
        return {"id": same.schema.id}

    def lookup(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts["subject"]
        deleted = _true(query, "deleted")
        if not (subject in self._subjects and self._subjects[subject].living(deleted)):
            raise _no_subject(subject)
        schema = self._read(body, normalize=_true(query, "normalize"))
        for each in reversed(self._living(subject, deleted)):
            if each.schema.key == schema.key:
                return self._placed(subject, each)
        raise _No(40403, "Schema not found")

    def delete_subject(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts["subject"]
        self._may_write(subject)
        place = self._subjects.get(subject)
        if place is None or not place.versions:
            raise _no_subject(subject)
        permanent, living = _true(query, "permanent"), place.living()
        if not permanent and not living:
            raise _No(
                40404,
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
            )
        if permanent and living:
            raise _No(
                40405,
                f"Subject '{subject}' was not deleted first before being permanently deleted",
            )
        chosen = list(place.versions.values()) if permanent else living
        for each in chosen:
            self._unused(subject, each)
        for each in chosen:
            each.deleted = True
        numbers = [each.number for each in chosen]
        if permanent:
            del self._subjects[subject]
            self._levels.pop(subject, None)
            self._modes.pop(subject, None)
            self._sweep()
        return numbers

    def delete_version(self, parts: Body, query: Query, body: Body) -> Any:
        subject, permanent = parts["subject"], _true(query, "permanent")
        self._may_write(subject)
        found = self._version(subject, parts["version"], True)
        if found.deleted and not permanent:
            raise _No(
                40406,
                f"Subject '{subject}' Version {found.number} was soft deleted. "
                "Set permanent=true to delete permanently",
            )
        if permanent and not found.deleted:
            raise _No(
                40407,
                f"Subject '{subject}' Version {found.number} was not deleted first before being "
                "permanently deleted",
            )
        self._unused(subject, found)
        found.deleted = True
        if permanent:
            del self._subjects[subject].versions[found.number]
            self._sweep()
        return found.number

    # Schemas by id

    def types(self, parts: Body, query: Query, body: Body) -> Any:
        return list(TYPES)

    def by_id(self, parts: Body, query: Query, body: Body) -> Any:
        schema = self._id(parts["id"])
        return _in_format(schema, query.get("format"))

    def by_id_text(self, parts: Body, query: Query, body: Body) -> Any:
        return _text_body(self._id(parts["id"]))

    def id_versions(self, parts: Body, query: Query, body: Body) -> Any:
        schema = self._id(parts["id"])
        return [
            {"subject": name, "version": each.number}
            for name, subject in sorted(self._subjects.items())
            for each in subject.living(_true(query, "deleted"))
            if each.schema is schema
        ]

    def id_subjects(self, parts: Body, query: Query, body: Body) -> Any:
        return list(dict.fromkeys(e["subject"] for e in self.id_versions(parts, query, body)))

    # Compatibility

    def test_version(self, parts: Body, query: Query, body: Body) -> Any:
        found = self._version(parts["subject"], parts["version"], False)
        return self._tested(parts["subject"], body, query, [found], latest_only=True)

    def test_all(self, parts: Body, query: Query, body: Body) -> Any:
        subject = self._subjects.get(parts["subject"], _Subject())
        return self._tested(parts["subject"], body, query, subject.living(), latest_only=False)

    def _tested(
        self, subject: str, body: Body, query: Query, earlier: list[_Version], *, latest_only: bool
    ) -> Any:
        schema = self._read(body, normalize=_true(query, "normalize"))
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
        self, subject: str, schema: _Schema, earlier: list[_Version], level: str | None = None
    ) -> list[str]:
        """Why `schema` may not follow the versions in `earlier`."""
        level = level or self._level(subject)
        if level == "NONE" or not earlier:
            return []
        for each in reversed(earlier if level.endswith("_TRANSITIVE") else earlier[-1:]):
            problems: list[str] = []
            kind = level.removesuffix("_TRANSITIVE")
            if kind in ("BACKWARD", "FULL"):
                problems += self._obstacles(schema, each.schema)
            if kind in ("FORWARD", "FULL"):
                problems += self._obstacles(each.schema, schema)
            if problems:
                return [
                    *(f"{{{problem}}}" for problem in problems),
                    f"{{oldSchemaVersion: {each.number}}}",
                    f"{{oldSchema: '{each.schema.text}'}}",
                    f"{{compatibility: '{level}'}}",
                ]
        return []

    def _obstacles(self, reader: _Schema, writer: _Schema) -> list[str]:
        if reader.type != writer.type:
            return [f"TYPE_CHANGED from {writer.type} to {reader.type}"]
        ours, theirs = self._built_on(reader.references), self._built_on(writer.references)
        if reader.type == "AVRO":
            return avro_obstacles(parse_avro(reader.text, ours), parse_avro(writer.text, theirs))
        if reader.type == "JSON":
            return json_obstacles(parse_json(reader.text), parse_json(writer.text), (ours, theirs))
        one, other = parse_protobuf(reader.text), parse_protobuf(writer.text)
        if one is None or other is None:
            return [] if reader.key == writer.key else ["The .proto text was changed"]
        return protobuf_obstacles(one, other)

    # Settings

    def get_level(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts.get("subject")
        level = self._levels.get(subject)
        if level is None and _true(query, "defaultToGlobal"):
            level = self._levels[None]
        if level is None:
            raise _No(
                40408,
                f"Subject '{subject}' does not have subject-level compatibility configured",
            )
        return {"compatibilityLevel": level}

    def put_level(self, parts: Body, query: Query, body: Body) -> Any:
        level = str(body.get("compatibility", "")).upper()
        if level not in LEVELS:
            raise _No(
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
            raise _no_subject(str(subject))
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
            raise _No(40409, f"Subject '{subject}' does not have subject-level mode configured")
        return {"mode": mode}

    def put_mode(self, parts: Body, query: Query, body: Body) -> Any:
        mode = str(body.get("mode", "")).upper()
        if mode not in MODES:
            raise _No(
                42204,
                "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT",
            )
        self._modes[parts.get("subject")] = mode
        return {"mode": mode}

    def delete_mode(self, parts: Body, query: Query, body: Body) -> Any:
        subject = parts.get("subject")
        mode = self._modes.get(subject)
        if mode is None:
            raise _no_subject(str(subject))
        if subject is None:
            self._modes[None] = "READWRITE"
        else:
            del self._modes[subject]
        return {"mode": mode}

    def hello(self, parts: Body, query: Query, body: Body) -> Any:
        return {}

    # What they are made of

    def _living(self, subject: str, deleted: bool) -> list[_Version]:
        place = self._subjects.get(subject)
        living = place.living(deleted) if place is not None else []
        if not living:
            raise _no_subject(subject)
        return living

    def _version(self, subject: str, text: str, deleted: bool) -> _Version:
        """The version a path names; `latest` and -1 are the last one that is not deleted."""
        number = -1 if text == "latest" else int(text) if re.fullmatch(r"-?\d+", text) else 0
        if number != -1 and not 0 < number <= _MOST:
            raise _No(
                42202,
                f"The specified version '{text}' is not a valid version id. Allowed values are "
                'between [1, 2^31-1] and the string "latest"',
            )
        if number == -1:
            return self._living(subject, False)[-1]
        for each in self._living(subject, deleted):
            if each.number == number:
                return each
        raise _no_version(number)

    def _id(self, text: str) -> _Schema:
        schema = self._by_id.get(int(text)) if text.isdecimal() else None
        if schema is None:
            raise _No(40403, f"Schema {text} not found")
        return schema

    def _with_id(self, schema: _Schema, asked: object) -> _Schema:
        number = max(self._by_id, default=0) + 1
        if isinstance(asked, int) and asked > 0:
            if asked in self._by_id:
                raise _No(42205, f"Overwrite new schema with id {asked} is not permitted.")
            number = asked
        named = _Schema(
            number,
            *(schema.type, schema.text, schema.references, schema.metadata, schema.rules),
            schema.key,
        )
        self._by_key[schema.key] = self._by_id[number] = named
        return named

    def _sweep(self) -> None:
        """Forgets the schemas that no subject has any more."""
        used = {
            each.schema.id
            for subject in self._subjects.values()
            for each in subject.versions.values()
        }
        for number in [number for number in self._by_id if number not in used]:
            del self._by_key[self._by_id.pop(number).key]

    def _users(self, subject: str, number: int) -> Iterator[int]:
        """Ids of the schemas that refer to a version and are not deleted."""
        for other in self._subjects.values():
            for each in other.living():
                if any(ref[1:] == (subject, number) for ref in each.schema.references):
                    yield each.schema.id

    def _unused(self, subject: str, version: _Version) -> None:
        if any(True for _ in self._users(subject, version.number)):
            raise _No(
                42206,
                "One or more references exist to the schema "
                f"{{magic=1,keytype=SCHEMA,subject={subject},version={version.number}}}.",
            )

    def _may_write(self, subject: str) -> None:
        mode = self._modes.get(subject) or self._modes[None]
        if mode.startswith("READONLY"):
            raise _No(42205, f"Subject {subject} in context . is in read-only mode")

    def _placed(self, subject: str, found: _Version, format: str | None = None) -> dict[str, Any]:
        return {
            "subject": subject,
            "version": found.number,
            "id": found.schema.id,
            **_in_format(found.schema, format),
        }

    def _read(self, body: Body, *, normalize: bool) -> _Schema:
        """The schema a request's body holds, checked; it has no id yet."""
        text, kind = body.get("schema"), body.get("schemaType") or "AVRO"
        if not isinstance(text, str) or not text.strip():
            raise _No(42201, "Empty schema")
        if kind not in TYPES:
            raise _No(42201, f"Invalid schema type {kind}")
        references = tuple(self._reference(each) for each in body.get("references") or ())
        built_on = self._built_on(references)
        try:
            if kind == "AVRO":
                parse_avro(text, built_on)
                text = _compact(_bare(json.loads(text)))
                same: object = _compact(_spelled_out(json.loads(text), ""), sort=True)
            elif kind == "JSON":
                parsed = parse_json(text)
                text = _compact(parsed)
                same = _compact(parsed, sort=normalize)
            else:
                same = re.sub(r"\s+", " ", text).strip() if normalize else text
        except InvalidSchema as invalid:
            raise _No(42201, f"Invalid schema of type {kind}, details: {invalid}") from invalid
        metadata, rules = (
            None if body.get(name) is None else _compact(body[name], sort=True)
            for name in ("metadata", "ruleSet")
        )
        key = (kind, same, references, metadata, rules)
        return _Schema(0, kind, text, references, metadata, rules, key)

    def _reference(self, given: Any) -> tuple[str, str, int]:
        try:
            name, subject, version = given["name"], given["subject"], int(given["version"])
        except (TypeError, KeyError, ValueError) as cause:
            raise _No(42201, "A reference needs name, subject and version") from cause
        place = self._subjects.get(subject, _Subject())
        if version == -1 and place.living():
            version = place.living()[-1].number
        if version not in place.versions:
            raise _No(
                42201,
                f"Invalid schema: no schema reference found for subject {subject!r} and version "
                f"{version}",
            )
        return name, subject, version

    def _built_on(self, references: tuple[tuple[str, str, int], ...]) -> dict[str, str]:
        """Texts of the schemas that are referred to, each after those it refers to."""
        found: dict[str, str] = {}
        for name, subject, version in references:
            schema = self._subjects[subject].versions[version].schema
            for inner, text in self._built_on(schema.references).items():
                found.setdefault(inner, text)
            found.setdefault(name, schema.text)
        return found


def _true(query: Query, name: str) -> bool:
    return query.get(name, "").lower() == "true"


def _text_body(schema: _Schema) -> Any:
    """A schema that is asked for bare; JSON ones are not a text but themselves."""
    try:
        return json.loads(schema.text)
    except ValueError:
        return schema.text


def _in_format(schema: _Schema, format: str | None) -> dict[str, Any]:
    if format == "serialized" and schema.type == "PROTOBUF" and not parse_protobuf(schema.text):
        raise _No(
            42201,
            "This registry for tests serves a Protobuf schema serialized only if it was "
            "registered so",
        )
    return schema.body()


def _compact(value: Any, *, sort: bool = False) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=sort, ensure_ascii=False)


def _bare(node: Any) -> Any:
    """An Avro schema without the braces around types that need none."""
    match node:
        case {"type": str(kind), **rest} if not rest:
            return kind
        case dict():
            return {
                name: _bare(each) if name in ("type", "items", "values", "fields") else each
                for name, each in node.items()
            }
        case list():
            return [_bare(each) for each in node]
        case _:
            return node


_NAMED: Final = frozenset(("record", "error", "enum", "fixed"))
_PRIMITIVE: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)


def _spelled_out(node: Any, namespace: str) -> Any:
    """An Avro schema with every name in full, so that two ways to write one are equal."""
    if isinstance(node, str):
        return node if node in _PRIMITIVE or "." in node else _full(node, namespace)
    if isinstance(node, list):
        return [_spelled_out(each, namespace) for each in node]
    if not isinstance(node, dict):
        return node
    out = dict(node)
    kind = out.get("type")
    if kind in _NAMED:
        given = out.pop("namespace", None)
        out["name"] = _full(out["name"], namespace if given is None else given)
        namespace = out["name"].rpartition(".")[0]
        if "fields" in out:
            out["fields"] = [
                {**each, "type": _spelled_out(each["type"], namespace)} for each in out["fields"]
            ]
    elif isinstance(kind, dict | list):
        out["type"] = _spelled_out(kind, namespace)
    for name in ("items", "values"):
        if name in out:
            out[name] = _spelled_out(out[name], namespace)
    return out


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


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
"""The whole API: method, path, what answers."""

"""The content of a registry in memory: subjects with their versions, and schemas by id."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.data.avro.schema import parse
from penstock.data.json_text import compact
from penstock.errors import DataError
from penstock.schema_registry.compatibility import (
    parse_avro,
    parse_json,
)

Body = Mapping[str, Any]
TYPES: Final = ("JSON", "PROTOBUF", "AVRO")
_MOST: Final = 2**31 - 1


class Refused(Exception):
    """The request is refused, with one of the API's error codes."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def no_subject(subject: str) -> Refused:
    return Refused(40401, f"Subject '{subject}' not found.")


def no_version(version: int | str) -> Refused:
    return Refused(40402, f"Version {version} not found.")


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema as it was registered. Schemas with equal keys are the same."""

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
class Version:
    number: int
    schema: StoredSchema
    deleted: bool = False


@dataclass(slots=True)
class Subject:
    versions: dict[int, Version] = field(default_factory=dict)
    last_number: int = 0

    def living(self, deleted: bool = False) -> list[Version]:
        return [version for version in self.versions.values() if deleted or not version.deleted]


class Store:
    """Subjects and schemas; its methods raise Refused. Not thread-safe."""

    def __init__(self) -> None:
        self.subjects: dict[str, Subject] = {}
        self._by_key: dict[object, StoredSchema] = {}
        self._schemas: dict[int, StoredSchema] = {}

    def living(self, subject: str, deleted: bool) -> list[Version]:
        """The versions of a subject, at least one; `deleted` includes soft-deleted ones."""
        place = self.subjects.get(subject)
        living = place.living(deleted) if place is not None else []
        if not living:
            raise no_subject(subject)
        return living

    def version(self, subject: str, text: str, deleted: bool) -> Version:
        """The version that a path names; `latest` and -1: the last that is not deleted."""
        number = -1 if text == "latest" else int(text) if re.fullmatch(r"-?\d+", text) else 0
        if number != -1 and not 0 < number <= _MOST:
            raise Refused(
                42202,
                f"The specified version '{text}' is not a valid version id. Allowed values are "
                'between [1, 2^31-1] and the string "latest"',
            )
        if number == -1:
            return self.living(subject, False)[-1]
        for version in self.living(subject, deleted):
            if version.number == number:
                return version
        raise no_version(number)

    def by_id(self, text: str) -> StoredSchema:
        """The schema with an id, as a path names it."""
        schema = self._schemas.get(int(text)) if text.isdecimal() else None
        if schema is None:
            raise Refused(40403, f"Schema {text} not found")
        return schema

    def with_id(self, schema: StoredSchema, requested: object) -> StoredSchema:
        """The equal stored schema; or the new one, with the requested id or the next."""
        known = self._by_key.get(schema.key)
        if known is not None:
            return known
        number = max(self._schemas, default=0) + 1
        if isinstance(requested, int) and requested > 0:
            if requested in self._schemas:
                raise Refused(42205, f"Overwrite new schema with id {requested} is not permitted.")
            number = requested
        named = StoredSchema(
            number,
            *(schema.type, schema.text, schema.references, schema.metadata, schema.rules),
            schema.key,
        )
        self._by_key[schema.key] = self._schemas[number] = named
        return named

    def sweep(self) -> None:
        """Removes the schemas without a subject."""
        used = {
            version.schema.id
            for subject in self.subjects.values()
            for version in subject.versions.values()
        }
        for number in [number for number in self._schemas if number not in used]:
            del self._by_key[self._schemas.pop(number).key]

    def users(self, subject: str, number: int) -> Iterator[int]:
        """Ids of schemas that refer to a version and are not deleted."""
        for other in self.subjects.values():
            for version in other.living():
                if any(ref[1:] == (subject, number) for ref in version.schema.references):
                    yield version.schema.id

    def check_unused(self, subject: str, version: Version) -> None:
        """Raises Refused if a schema refers to the version."""
        if any(True for _ in self.users(subject, version.number)):
            raise Refused(
                42206,
                "One or more references exist to the schema "
                f"{{magic=1,keytype=SCHEMA,subject={subject},version={version.number}}}.",
            )

    def read(self, body: Body, *, normalize: bool) -> StoredSchema:
        """The schema in a request's body, checked; without an id."""
        text, kind = body.get("schema"), body.get("schemaType") or "AVRO"
        if not isinstance(text, str) or not text.strip():
            raise Refused(42201, "Empty schema")
        if kind not in TYPES:
            raise Refused(42201, f"Invalid schema type {kind}")
        references = tuple(self._reference(reference) for reference in body.get("references") or ())
        built_on = self.built_on(references)
        try:
            if kind == "AVRO":
                parse_avro(text, built_on)
                text = compact(unbraced(json.loads(text)))
                same: object = compact(parse(text, built_on)[0], sort=True)
            elif kind == "JSON":
                parsed = parse_json(text)
                text = compact(parsed)
                same = compact(parsed, sort=normalize)
            else:
                same = re.sub(r"\s+", " ", text).strip() if normalize else text
        except DataError as invalid:
            raise Refused(42201, f"Invalid schema of type {kind}, details: {invalid}") from invalid
        metadata, rules = (
            None if body.get(name) is None else compact(body[name], sort=True)
            for name in ("metadata", "ruleSet")
        )
        key = (kind, same, references, metadata, rules)
        return StoredSchema(0, kind, text, references, metadata, rules, key)

    def _reference(self, reference: Any) -> tuple[str, str, int]:
        try:
            name, subject, version = (
                reference["name"],
                reference["subject"],
                int(reference["version"]),
            )
        except (TypeError, KeyError, ValueError) as cause:
            raise Refused(42201, "A reference needs name, subject and version") from cause
        place = self.subjects.get(subject, Subject())
        if version == -1 and place.living():
            version = place.living()[-1].number
        if version not in place.versions:
            raise Refused(
                42201,
                f"Invalid schema: no schema reference found for subject {subject!r} and version "
                f"{version}",
            )
        return name, subject, version

    def built_on(self, references: tuple[tuple[str, str, int], ...]) -> dict[str, str]:
        """Texts of the schemas referred to, each after those it refers to."""
        texts: dict[str, str] = {}
        for name, subject, version in references:
            schema = self.subjects[subject].versions[version].schema
            for inner, text in self.built_on(schema.references).items():
                texts.setdefault(inner, text)
            texts.setdefault(name, schema.text)
        return texts


def unbraced(node: Any) -> Any:
    """An Avro schema without redundant braces around types."""
    match node:
        case {"type": str(kind), **rest} if not rest:
            return kind
        case dict():
            return {
                name: unbraced(member) if name in ("type", "items", "values", "fields") else member
                for name, member in node.items()
            }
        case list():
            return [unbraced(item) for item in node]
        case _:
            return node

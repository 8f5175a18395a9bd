"""Requests of converters to a Schema Registry, with a cache.

    client = RegistryClient(config)
    lookups = Lookups()                                     # one for each batch
    schema = lookups.of(("id", 7), lambda: client.schema(7))

A registry that does not respond costs a batch one wait, not one per record: `Lookups` makes each
look-up once, and stops at the first one without a response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote

from penstock.clock import Clock, SystemClock
from penstock.config.define import Config
from penstock.convert.lru import LruCache
from penstock.errors import DataError, PenstockError, Unavailable
from penstock.schema_registry import settings
from penstock.schema_registry.rules import DataRule, RuleMode, refuse_rules, rules_of
from penstock.schema_registry.transport import Refused, Transport, transport

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to another schema: its name in this one, and its place in the registry."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegistrySchema:
    """A schema as the registry holds it. `type` is AVRO, JSON or PROTOBUF."""

    text: str
    type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    contract: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Its metadata and its rules in the registry."""

    @property
    def rules(self) -> tuple[DataRule, ...]:
        return rules_of(self.contract)

    def body(self) -> dict[str, object]:
        """The body of a request about this schema. Without a type, it is Avro."""
        body: dict[str, object] = {"schema": self.text, **self.contract}
        if self.type != "AVRO":
            body["schemaType"] = self.type
        if self.references:
            body["references"] = [
                {"name": reference.name, "subject": reference.subject, "version": reference.version}
                for reference in self.references
            ]
        return body


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema with its id and its version in a subject (0: not known)."""

    id: int
    subject: str
    version: int
    schema: RegistrySchema


class Lookups:
    """The look-ups of one batch: each is made once, even if it fails.

    After a retriable error, all others fail with it.
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._failures: dict[Hashable, Exception] = {}
        self._down: Exception | None = None

    def of(self, key: Hashable, find: Callable[[], V]) -> V:
        """Calls `find`, a request to the registry, once per `key`; returns or raises its result."""

        def ask() -> V:
            if self._down is not None:
                raise self._down.with_traceback(None)
            try:
                return find()
            except PenstockError as error:
                if error.retriable:
                    self._down = error
                raise

        return self.once(key, ask)

    def once(self, key: Hashable, make: Callable[[], V]) -> V:
        """Calls `make` once per `key`; returns or raises its result. Its requests use `of`."""
        if key in self._results:
            known: V = self._results[key]
            return known
        failure = self._failures.get(key)
        if failure is not None:
            raise failure.with_traceback(None)
        try:
            self._results[key] = result = make()
        except Exception as error:
            self._failures[key] = error
            raise
        return result


class RegistryClient:
    """Requests to the registry in a converter's settings; caches responses that never change.

    Not picklable. Methods raise `Refused` (a DataError) if the registry refuses, and `Unavailable`,
    which is retriable, if it does not respond within the time-outs and retries of the settings.
    """

    def __init__(
        self, config: Config, *, way: Transport | None = None, clock: Clock | None = None
    ) -> None:
        size = config[settings.MAX_SCHEMAS]
        self._way = way or transport(config)
        self._clock = clock or SystemClock()
        self._normalize = config[settings.NORMALIZE]
        self._schemas: LruCache[Hashable, RegistrySchema] = LruCache(size)
        self._ids: LruCache[Hashable, int] = LruCache(size)
        self._places: LruCache[Hashable, Registered] = LruCache(size)
        self._latest: LruCache[Hashable, tuple[int, Registered]] = LruCache(
            config[settings.LATEST_CACHE_SIZE]
        )
        self._latest_ms = config[settings.LATEST_CACHE_TTL] * 1000

    def schema(
        self, schema_id: int, *, subject: str | None = None, format: str | None = None
    ) -> RegistrySchema:
        """The schema with that id; `format="serialized"` asks for Protobuf as a descriptor."""
        key = (schema_id, subject, format)
        known = self._schemas.get(key)
        if known is not None:
            return known
        query = {name: text for name, text in (("subject", subject), ("format", format)) if text}
        body = self._way.request("GET", f"/schemas/ids/{schema_id}", query)
        return self._schemas.put(key, _schema(body))

    def register(self, subject: str, schema: RegistrySchema) -> int:
        """The id of the schema in `subject`; registers it if necessary."""
        key = (subject, schema)
        known = self._ids.get(key)
        if known is not None:
            return known
        body = self._way.request(
            "POST", f"/subjects/{quote(subject, '')}/versions", self._normal(), schema.body()
        )
        refuse_rules(rules_of(body), RuleMode.WRITE)
        return self._ids.put(key, int(body["id"]))

    def lookup(self, subject: str, schema: RegistrySchema, *, deleted: bool = False) -> Registered:
        """The schema's id and version in `subject`; `deleted` includes deleted versions.

        Raises Refused with error code 40403 if it is not registered.
        """
        key = (subject, schema, bool(schema.contract), deleted)
        known = self._places.get(key)
        if known is not None:
            return known
        query = {**self._normal(), **({"deleted": "true"} if deleted else {})}
        body = self._way.request("POST", f"/subjects/{quote(subject, '')}", query, schema.body())
        return self._places.put(key, _registered(body))

    def latest(self, subject: str, metadata: Mapping[str, str] | None = None) -> Registered:
        """The subject's latest version (with that metadata), from the cache within its TTL."""
        key = (subject, tuple((metadata or {}).items()))
        now = self._clock.now()
        known = self._latest.get(key)
        if known is not None and (self._latest_ms < 0 or now - known[0] < self._latest_ms):
            return known[1]
        path = f"/subjects/{quote(subject, '')}"
        if metadata:
            pairs = "&".join(
                f"key={quote(name, '')}&value={quote(value, '')}"
                for name, value in metadata.items()
            )
            body = self._way.request("GET", f"{path}/metadata?{pairs}")
        else:
            body = self._way.request("GET", f"{path}/versions/latest")
        return self._latest.put(key, (now, _registered(body)))[1]

    def version(self, subject: str, version: int, *, format: str | None = None) -> Registered:
        """A version of the subject, deleted or not."""
        key = (subject, version, format)
        known = self._places.get(key)
        if known is not None:
            return known
        query = {"deleted": "true", **({"format": format} if format else {})}
        body = self._way.request("GET", f"/subjects/{quote(subject, '')}/versions/{version}", query)
        return self._places.put(key, _registered(body))

    def referenced(
        self, schema: RegistrySchema, *, format: str | None = None
    ) -> dict[str, RegistrySchema]:
        """The schemas that `schema` refers to, directly or not, by name.

        Each comes after those it refers to, so that they can be parsed in this order.
        """
        schemas: dict[str, RegistrySchema] = {}
        begun: set[str] = set()

        def visit(of: RegistrySchema) -> None:
            for reference in of.references:
                if reference.name in begun:
                    continue  # seen before; or a cycle, which the parser reports
                begun.add(reference.name)
                place = self.version(reference.subject, reference.version, format=format)
                visit(place.schema)
                schemas[reference.name] = place.schema

        visit(schema)
        return schemas

    def _normal(self) -> dict[str, str]:
        return {"normalize": "true"} if self._normalize else {}


def _schema(body: Any) -> RegistrySchema:
    references = tuple(
        Reference(reference["name"], reference["subject"], reference["version"])
        for reference in body.get("references") or ()
    )
    contract = {name: body[name] for name in ("metadata", "ruleSet") if body.get(name)}
    return RegistrySchema(body["schema"], body.get("schemaType") or "AVRO", references, contract)


def _registered(body: Any) -> Registered:
    return Registered(body["id"], body["subject"], body["version"], _schema(body))


Incompatible = Callable[[RegistrySchema, RegistrySchema], str | None]
"""Why data of the second schema cannot be read with the first; None if they can."""


class WriterSchemas:
    """The registry's schema to write records with, by the settings:

    auto.register.schemas      its own, registered if necessary
    use.schema.id              that one
    use.latest.with.metadata   the latest with that metadata
    use.latest.version         the latest
    none of them               its own, which the registry must have
    """

    def __init__(self, client: RegistryClient, config: Config, incompatible: Incompatible) -> None:
        self._client = client
        self._incompatible = incompatible
        self._register = config[settings.AUTO_REGISTER]
        self._id = config[settings.USE_ID]
        self._id_strict = config[settings.ID_STRICT]
        self._metadata = _pairs(config[settings.USE_METADATA])
        self._use_latest = config[settings.USE_LATEST]
        self._latest_strict = config[settings.LATEST_STRICT]
        self._checked: LruCache[Hashable, bool] = LruCache(config[settings.LATEST_CACHE_SIZE])

    def of(self, subject: str, own: RegistrySchema) -> tuple[int, RegistrySchema]:
        """The id and the schema to write with.

        Raises the client's errors, and DataError for a schema that is incompatible with `own`, or
        has a rule that would have to run.
        """
        if self._register:
            return self._client.register(subject, own), own
        id, chosen, schema = self._chosen(subject, own)
        refuse_rules(chosen.rules, RuleMode.WRITE)
        return id, schema

    def _chosen(
        self, subject: str, own: RegistrySchema
    ) -> tuple[int, RegistrySchema, RegistrySchema]:
        """The id, the registry's schema, and the schema to write with."""
        if self._id >= 0:
            chosen = self._client.schema(self._id, subject=subject)
            self._check(chosen, own, self._id_strict, settings.ID_STRICT.name)
            return self._id, chosen, chosen
        if self._metadata:
            place = self._client.latest(subject, self._metadata)
            return place.id, place.schema, place.schema
        if self._use_latest:
            place = self._client.latest(subject)
            self._check(place.schema, own, self._latest_strict, settings.LATEST_STRICT.name)
            return place.id, place.schema, place.schema
        place = self._client.lookup(subject, own)
        return place.id, place.schema, own

    def _check(
        self, chosen: RegistrySchema, own: RegistrySchema, strict: bool, setting: str
    ) -> None:
        if not strict or self._checked.get((chosen, own)):
            return
        reason = self._incompatible(chosen, own)
        if reason is not None:
            raise DataError(
                f"Incompatible schema {chosen.text} with refs {_shown(chosen.references)} of type "
                f"{chosen.type} for schema {own.text} ({reason}). "
                f"Set {setting}=false to disable this check"
            )
        self._checked.put((chosen, own), True)


_PAIR: Final = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,]*))\s*(?:,|$)")


def _pairs(text: str | None) -> dict[str, str]:
    """`key=value` pairs separated by commas; single quotes around one that contains a comma."""
    pairs: dict[str, str] = {}
    for quoted, bare in _PAIR.findall(text or ""):
        name, equals, value = (quoted.replace("''", "'") or bare.strip()).partition("=")
        if equals:
            pairs[name] = value
    return pairs


def _shown(references: tuple[Reference, ...]) -> str:
    inside = ", ".join(
        f"{{name='{reference.name}', subject='{reference.subject}', version={reference.version}}}"
        for reference in references
    )
    return f"[{inside}]"


class Misused(DataError):
    """The registry does not permit this with these settings or credentials."""

    java_name = "org.apache.kafka.common.config.ConfigException"


def explained(cause: Exception, *, network: str, refused: str, failed: str) -> PenstockError:
    """`cause` as Kafka Connect's converters report it.

    No response: `Unavailable` with the prefix `network`. Incompatible, forbidden, invalid:
    `Misused` with `refused`. Others, such as an unknown id: `DataError` with `failed`.
    """
    error: PenstockError
    if isinstance(cause, PenstockError) and cause.retriable:
        error = Unavailable(f"{network} {cause}")
    elif isinstance(cause, Refused) and cause.error_code // 100 == 4:
        error = Misused(f"{refused} {cause}")
    else:
        error = DataError(f"{failed} {cause}")
    error.__cause__ = cause
    return error

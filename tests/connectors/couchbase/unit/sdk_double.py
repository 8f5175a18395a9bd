"""A double of the SDK's cluster, as far as connectors call it: no Couchbase server is available.

Every call goes through the SDK's own code up to the request that its core would send: the SDK reads
the options and specs, and a name or a type that it does not know fails. The double implements the
requests; it answers queries of the shapes that the connectors send.
"""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from couchbase.bucket import Bucket
from couchbase.cluster import Cluster
from couchbase.collection import Collection
from couchbase.constants import FMT_JSON
from couchbase.exceptions import (
    DocumentNotFoundException,
    PathMismatchException,
    TemporaryFailException,
)
from couchbase.logic.collection_multi_req_builder import CollectionMultiRequestBuilder
from couchbase.logic.collection_req_builder import CollectionRequestBuilder
from couchbase.logic.collection_types import CollectionDetails
from couchbase.logic.n1ql import N1QLQuery
from couchbase.scope import Scope
from couchbase.subdocument import StoreSemantics, SubDocOp
from couchbase.transcoder import JSONTranscoder

Place = tuple[str, str, str]


@dataclass
class Server:
    """State of all connections. `cas` increases with every write."""

    documents: dict[Place, dict[str, tuple[int, Any]]] = field(default_factory=dict)
    places: set[Place] = field(default_factory=set)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    refuses: Callable[[str, str], Exception | None] = lambda call, id: None
    away: bool = False
    cas: int = 0
    flags: int = FMT_JSON
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, place: Place, id: str, content: Any) -> None:
        with self.lock:
            self.cas += 1
            self.documents.setdefault(place, {})[id] = self.cas, content
            self.places.add(place)

    def contents(self, place: Place) -> dict[str, Any]:
        return {id: content for id, (_, content) in self.documents.get(place, {}).items()}

    def error(self, call: str, id: str) -> Exception | None:
        if self.away:
            return TemporaryFailException("away")
        return self.refuses(call, id)


def checked(owner: type, name: str, *args: Any, **kwargs: Any) -> None:
    """Fails if the SDK's method does not accept these arguments."""
    inspect.signature(getattr(owner, name)).bind(None, *args, **kwargs)


class FakeCollection:
    def __init__(self, server: Server, place: Place) -> None:
        self.server = server
        self.place = place
        details = CollectionDetails(*place, JSONTranscoder())
        self.single = CollectionRequestBuilder(details)
        self.multi = CollectionMultiRequestBuilder(details)

    def upsert_multi(self, documents: Mapping[str, Any], options: Any) -> Any:
        checked(Collection, "upsert_multi", documents, options)
        built = self.multi.build_upsert_multi_request(documents, None, options)
        assert built.return_exceptions
        errors = {}
        for request in built.request_list:
            self.server.calls.append(("upsert", request))
            error = self.server.error("upsert", request.key)
            if error is not None:
                errors[request.key] = error
                continue
            self.server.put(self.place, request.key, json.loads(request.value))
        return SimpleNamespace(all_ok=not errors, exceptions=errors)

    def remove_multi(self, ids: list[str], options: Any) -> Any:
        checked(Collection, "remove_multi", ids, options)
        built = self.multi.build_remove_multi_request(ids, None, options)
        assert built.return_exceptions
        errors: dict[str, Exception] = {}
        for request in built.request_list:
            id = request.key
            self.server.calls.append(("remove", request))
            error = self.server.error("remove", id)
            stored = self.server.documents.get(self.place, {})
            if error is None and id not in stored:
                error = DocumentNotFoundException("none")
            if error is not None:
                errors[id] = error
            else:
                del stored[id]
        return SimpleNamespace(all_ok=not errors, exceptions=errors)

    def get_multi(self, ids: list[str], options: Any) -> Any:
        checked(Collection, "get_multi", ids, options)
        built = self.multi.build_get_multi_request(ids, None, options)
        assert built.return_exceptions
        results, errors = {}, {}
        for request in built.request_list:
            id = request.key
            error = self.server.error("get", id)
            stored = self.server.documents.get(self.place, {})
            if error is None and id not in stored:
                error = DocumentNotFoundException("none")
            if error is not None:
                errors[id] = error
                continue
            cas, content = stored[id]
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            flags = self.server.flags
            value = built.key_transcoders[id].decode_value(data, flags)
            results[id] = SimpleNamespace(value=value, cas=cas, flags=flags)
        return SimpleNamespace(results=results, exceptions=errors)

    def mutate_in(self, id: str, specs: Any, options: Any) -> None:
        checked(Collection, "mutate_in", id, specs, options)
        request = self.single.build_mutate_in_request(id, specs, None, options)
        self.server.calls.append(("mutate_in", request))
        error = self.server.error("mutate", id)
        if error is not None:
            raise error
        stored = self.server.contents(self.place)
        if id not in stored and request.store_semantics is StoreSemantics.REPLACE:
            raise DocumentNotFoundException("none")
        document = json.loads(json.dumps(stored.get(id, {})))
        (spec,) = request.specs
        *parents, last = spec["path"].split(".")
        at = document
        for name in parents:
            at = at.setdefault(name, {})
        value = json.loads(spec["value"])
        if spec["opcode"] == SubDocOp.DICT_UPSERT:
            at[last] = value
        else:
            if not isinstance(at.setdefault(last, []), list):
                raise PathMismatchException("no array")
            is_last = spec["opcode"] == SubDocOp.ARRAY_PUSH_LAST
            at[last] = [*at[last], value] if is_last else [value, *at[last]]
        self.server.put(self.place, id, document)


class FakeCluster:
    """Like the SDK's `Cluster`."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.closed = False

    def bucket(self, name: str) -> Any:
        checked(Cluster, "bucket", name)
        server = self.server

        def scope(scope: str) -> Any:
            checked(Bucket, "scope", scope)

            def collection(collection: str) -> FakeCollection:
                checked(Scope, "collection", collection)
                return FakeCollection(server, (name, scope, collection))

            return SimpleNamespace(collection=collection)

        def all_scopes() -> list[Any]:
            places = sorted(each for each in server.places if each[0] == name)
            return [
                SimpleNamespace(name=place[1], collections=[SimpleNamespace(name=place[2])])
                for place in places
            ]

        return SimpleNamespace(
            scope=scope,
            collections=lambda: SimpleNamespace(get_all_scopes=all_scopes),
            ping=lambda: None,
        )

    def wait_until_ready(self, within: Any) -> None:
        checked(Cluster, "wait_until_ready", within)
        if self.server.away:
            raise TemporaryFailException("away")

    def query(self, statement: str, options: Any) -> Any:
        checked(Cluster, "query", statement, options)
        query = N1QLQuery.create_query_object(statement, options)
        assert query.params["statement"] == statement
        parameters = options["named_parameters"]
        self.server.calls.append(("query", (statement, parameters, query.params)))
        error = self.server.error("query", parameters.get("id", ""))
        if error is not None:
            raise error
        rows = self._rows(statement, parameters) if statement.startswith("SELECT") else []
        return SimpleNamespace(rows=lambda: iter(rows))

    def close(self) -> None:
        checked(Cluster, "close")
        self.closed = True

    def _rows(self, statement: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The page of documents that the source asks for."""
        keyspace = re.search(r"FROM (\S+)( AS d)?", statement)
        if keyspace is None:
            return [{"mark": self.server.cas}]
        names = re.findall(r"`([^`]+)`", keyspace[1])
        place = (names[0], *(names[1:] or ("_default", "_default")))
        field = re.search(r"ORDER BY (\S+), META\(d\)\.id LIMIT \$most", statement)
        by_field = re.findall(r"`([^`]+)`", field[1]) if field else []
        rows = []
        for id, (cas, content) in self.server.documents.get(place, {}).items():
            mark: Any = cas
            for name in by_field:
                mark = (mark if mark is not cas else content).get(name)
            if mark is None:
                continue
            after = parameters.get("mark")
            if after is None or mark > after or (mark == after and id > parameters["id"]):
                rows.append({"id": id, "mark": mark})
        rows.sort(key=lambda row: (row["mark"], row["id"]))
        return rows[: parameters["most"]]

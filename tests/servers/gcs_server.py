"""A small Google Cloud Storage for tests: the part of its documented JSON API that sinks and
sources use, and the tokens of service accounts.

    python -m tests.servers.gcs_server PORT BUCKET...
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

import google_crc32c

from tests.servers.rest_server import Answer, Request, RestServer, RestStore, serve

TOKEN: Final = "token-of-the-tests"
"""The bearer token of requests with credentials."""
_UNIT: Final = 256 << 10
_PAGE: Final = 200  # at most 1,000 in Google's store


@dataclass(slots=True)
class _Object:
    data: bytes
    generation: int
    metadata: dict[str, str]
    encoding: str | None = None
    updated: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}")


@dataclass(slots=True)
class _Upload:
    bucket: str
    resource: dict[str, Any]
    match: str | None
    data: bytearray = field(default_factory=bytearray)
    stored: dict[str, Any] | None = None


class GcsStore(RestStore):
    """Buckets by name."""

    def __init__(self, buckets: list[str]) -> None:
        self._buckets: dict[str, dict[str, _Object]] = {name: {} for name in buckets}
        self._uploads: dict[str, _Upload] = {}
        self._numbers = count(1)

    def answer(self, request: Request) -> Answer:
        credentials = request.headers.get("authorization")
        if request.path == "/token":
            return _json({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
        if request.path == "/no-token":
            problem = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
            return _json(problem, 400)
        if credentials is not None and credentials != f"Bearer {TOKEN}":
            return _error(401, "authError", "Invalid Credentials")
        match request.parts:
            case ["upload", "storage", "v1", "b", bucket, "o"]:
                return self._upload(request, bucket)
            case ["storage", "v1", "b", bucket, "o"]:
                return self._list(request, bucket)
            case ["download", "storage", "v1", "b", bucket, "o", name]:
                return self._download(request, bucket, name)
            case ["storage", "v1", "b", bucket, "o", name]:
                return self._object(request, bucket, name)
            case ["storage", "v1", "b", bucket, "o", name, "rewriteTo", "b", _, "o", to]:
                return self._rewrite(request, bucket, name, to)
        return _error(404, "notFound", "Not Found")

    def _upload(self, request: Request, bucket: str) -> Answer:
        id = request.query.get("upload_id")
        if id is not None:
            return self._resume(request, id)
        if bucket not in self._buckets:
            return _no_bucket()
        match = request.query.get("ifGenerationMatch")
        if request.query["uploadType"] == "resumable":
            resource = json.loads(request.body)
            if failed := self._check(bucket, resource["name"], match):
                return failed
            id = f"upload-{next(self._numbers)}"
            self._uploads[id] = _Upload(bucket, resource, match)
            host = request.headers["host"]
            return Answer(200, b"", {"Location": f"http://{host}{request.path}?upload_id={id}"})
        boundary = request.headers["content-type"].split("boundary=")[1].strip('"').encode()
        _, first, second, *_ = request.body.split(b"--" + boundary)
        resource = json.loads(first.split(b"\r\n\r\n", 1)[1])
        data = second.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
        return self._store(bucket, resource, match, data)

    def _resume(self, request: Request, id: str) -> Answer:
        upload = self._uploads.get(id)
        if upload is None:
            return _error(404, "notFound", "Not Found")
        if request.method == "DELETE":
            del self._uploads[id]
            return Answer(499)
        if upload.stored is not None:
            return _json(upload.stored)
        part, _, size = request.headers["content-range"].removeprefix("bytes ").partition("/")
        if part != "*":
            begin = int(part.split("-")[0])
            if begin != len(upload.data):
                return _error(400, "invalid", f"Expected byte {len(upload.data)}, not {begin}")
            data = request.body
            # As in Google's store, a part that is not the last one is stored in whole units.
            upload.data += data if size != "*" else data[: len(data) - len(data) % _UNIT]
        if size != "*" and len(upload.data) == int(size):
            answer = self._store(upload.bucket, upload.resource, upload.match, bytes(upload.data))
            if answer.status == 200:
                upload.stored = json.loads(answer.body)
            return answer
        stored = {"Range": f"bytes=0-{len(upload.data) - 1}"} if upload.data else {}
        return Answer(308, b"", stored)

    def _check(self, bucket: str, name: str, match: str | None) -> Answer | None:
        if bucket not in self._buckets:
            return _no_bucket()
        stored = self._buckets[bucket].get(name)
        if match is not None and int(match) != (stored.generation if stored else 0):
            text = "At least one of the pre-conditions you specified did not hold."
            return _error(412, "conditionNotMet", text)
        return None

    def _store(
        self, bucket: str, resource: dict[str, Any], match: str | None, data: bytes
    ) -> Answer:
        name = resource["name"]
        if failed := self._check(bucket, name, match):
            return failed
        metadata, encoding = resource.get("metadata") or {}, resource.get("contentEncoding")
        stored = _Object(data, next(self._numbers), metadata, encoding)
        self._buckets[bucket][name] = stored
        return _json(_resource(bucket, name, stored))

    def _list(self, request: Request, bucket: str) -> Answer:
        if bucket not in self._buckets:
            return _no_bucket()
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        start = max(query.get("startOffset", ""), query.get("pageToken", ""))
        most = int(query.get("maxResults", _PAGE))
        items: list[dict[str, Any]] = []
        folders: dict[str, None] = {}
        for name, stored in sorted(self._buckets[bucket].items()):
            if not name.startswith(prefix) or name < start:
                continue
            if len(items) + len(folders) == most:
                return _json({"items": items, "prefixes": [*folders], "nextPageToken": name})
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folders[prefix + rest[: rest.index(delimiter) + 1]] = None
            else:
                items.append(_resource(bucket, name, stored))
        return _json({"items": items, "prefixes": [*folders]})

    def _download(self, request: Request, bucket: str, name: str) -> Answer:
        stored = self._buckets.get(bucket, {}).get(name)
        if stored is None:
            return _error(404, "notFound", f"No such object: {bucket}/{name}")
        if failed := self._check(bucket, name, request.query.get("ifGenerationMatch")):
            return failed
        if "range" not in request.headers:
            return Answer(200, stored.data)
        begin, _, end = request.headers["range"].removeprefix("bytes=").partition("-")
        data = stored.data[int(begin) : int(end) + 1 if end else None]
        span = f"bytes {begin}-{int(begin) + len(data) - 1}/{len(stored.data)}"
        return Answer(206, data, {"Content-Range": span})

    def _object(self, request: Request, bucket: str, name: str) -> Answer:
        stored = self._buckets.get(bucket, {}).get(name)
        if stored is None:
            return _error(404, "notFound", f"No such object: {bucket}/{name}")
        if failed := self._check(bucket, name, request.query.get("ifGenerationMatch")):
            return failed
        if request.method == "DELETE":
            del self._buckets[bucket][name]
            return Answer(204)
        return _json(_resource(bucket, name, stored))

    def _rewrite(self, request: Request, bucket: str, name: str, to: str) -> Answer:
        stored = self._buckets.get(bucket, {}).get(name)
        if stored is None:
            return _error(404, "notFound", f"No such object: {bucket}/{name}")
        match = request.query.get("ifSourceGenerationMatch")
        if failed := self._check(bucket, name, match):
            return failed
        copy = self._store(bucket, {"name": to, "metadata": stored.metadata}, None, stored.data)
        size = len(stored.data)
        result = {"done": True, "totalBytesRewritten": size, "objectSize": size}
        return _json({**result, "resource": json.loads(copy.body)})


def _resource(bucket: str, name: str, stored: _Object) -> dict[str, Any]:
    return {
        "kind": "storage#object",
        "bucket": bucket,
        "name": name,
        "size": str(len(stored.data)),
        "generation": str(stored.generation),
        "updated": stored.updated,
        "metadata": stored.metadata,
        "contentEncoding": stored.encoding,
        "crc32c": b64encode(google_crc32c.value(stored.data).to_bytes(4, "big")).decode(),
    }


def _json(body: object, status: int = 200) -> Answer:
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def _error(status: int, reason: str, message: str) -> Answer:
    errors = [{"message": message, "domain": "global", "reason": reason}]
    return _json({"error": {"code": status, "message": message, "errors": errors}}, status)


def _no_bucket() -> Answer:
    return _error(404, "notFound", "The specified bucket does not exist.")


def gcs_server(*buckets: str) -> RestServer:
    """A server with these buckets."""
    return RestServer("tests.servers.gcs_server", *buckets)


if __name__ == "__main__":
    serve(GcsStore(sys.argv[2:]))

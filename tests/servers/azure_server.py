"""A small Azure Blob Storage for tests: the part of its documented REST API that sinks and sources
use, with signatures by the account's key.

    python -m tests.servers.azure_server PORT CONTAINER...
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import count
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tests.servers.rest_server import Answer, Request, RestServer, RestStore, serve

ACCOUNT: Final = "devstoreaccount1"
"""The only account. It and its key are those of Microsoft's emulators."""
KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_PAGE: Final = 200  # at most 5,000 in Azure's store
_SIGNED: Final = (
    *("content-encoding", "content-language", "content-length", "content-md5", "content-type"),
    *("date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"),
)
_XML: Final = {"Content-Type": "application/xml"}


@dataclass(slots=True)
class _Blob:
    data: bytes
    etag: str
    metadata: dict[str, str]
    blocks: dict[str, bytes]
    modified: str = field(default_factory=lambda: format_datetime(datetime.now(UTC), usegmt=True))


class AzureStore(RestStore):
    """Containers by name."""

    def __init__(self, containers: list[str]) -> None:
        self._containers: dict[str, dict[str, _Blob]] = {name: {} for name in containers}
        self._staged: dict[tuple[str, str], dict[str, bytes]] = {}
        self._numbers = count(1)

    def answer(self, request: Request) -> Answer:
        if not _is_signed(request):
            return _error(403, "AuthenticationFailed", "Server failed to authenticate the request.")
        account, container, *parts = request.parts
        if account != ACCOUNT:
            return _error(404, "ResourceNotFound", "There is no such account.")
        if container not in self._containers:
            return _error(404, "ContainerNotFound", "The specified container does not exist.")
        name = "/".join(parts)
        if not name:
            return self._list(request, container)
        match request.method, request.query.get("comp"):
            case "PUT", "block":
                staged = self._staged.setdefault((container, name), {})
                staged[request.query["blockid"]] = request.body
                return Answer(201)
            case "PUT", "blocklist":
                return self._commit(request, container, name)
            case "GET", "blocklist":
                return Answer(200, self._uncommitted(container, name), dict(_XML))
            case "PUT", None:
                return self._store(request, container, name, request.body, {})
            case "DELETE", None:
                if failed := self._check(request, container, name):
                    return failed
                del self._containers[container][name]
                return Answer(202)
        return self._get(request, container, name)

    def _commit(self, request: Request, container: str, name: str) -> Answer:
        committed = self._containers[container].get(name)
        available = dict(committed.blocks) if committed is not None else {}
        available |= self._staged.get((container, name), {})
        ids = [element.text or "" for element in ElementTree.fromstring(request.body)]
        if any(id not in available for id in ids):
            return _error(400, "InvalidBlockList", "The specified block list is invalid.")
        blocks = {id: available[id] for id in ids}
        return self._store(request, container, name, b"".join(blocks.values()), blocks)

    def _uncommitted(self, container: str, name: str) -> bytes:
        blocks = self._staged.get((container, name), {})
        items = "".join(
            f"<Block><Name>{id}</Name><Size>{len(block)}</Size></Block>"
            for id, block in blocks.items()
        )
        return f"<BlockList><UncommittedBlocks>{items}</UncommittedBlocks></BlockList>".encode()

    def _store(
        self, request: Request, container: str, name: str, data: bytes, blocks: dict[str, bytes]
    ) -> Answer:
        if request.headers.get("if-none-match") == "*" and name in self._containers[container]:
            return _error(409, "BlobAlreadyExists", "The specified blob already exists.")
        if "if-match" in request.headers and (failed := self._check(request, container, name)):
            return failed
        prefix = "x-ms-meta-"
        metadata = {
            header.removeprefix(prefix): value
            for header, value in request.headers.items()
            if header.startswith(prefix)
        }
        blob = _Blob(data, f'"0x{next(self._numbers):08X}"', metadata, blocks)
        self._containers[container][name] = blob
        self._staged.pop((container, name), None)  # of all clients
        return Answer(201, b"", {"ETag": blob.etag, "Last-Modified": blob.modified})

    def _check(self, request: Request, container: str, name: str) -> Answer | None:
        blob = self._containers[container].get(name)
        if blob is None:
            return _error(404, "BlobNotFound", "The specified blob does not exist.")
        etag = request.headers.get("if-match")
        if etag is not None and etag not in ("*", blob.etag):
            return _error(412, "ConditionNotMet", "The condition is not met.")
        return None

    def _get(self, request: Request, container: str, name: str) -> Answer:
        if failed := self._check(request, container, name):
            return failed
        blob = self._containers[container][name]
        headers = {
            "ETag": blob.etag,
            "Last-Modified": blob.modified,
            "x-ms-blob-type": "BlockBlob",
            **{f"x-ms-meta-{key}": value for key, value in blob.metadata.items()},
        }
        span = request.headers.get("x-ms-range") or request.headers.get("range")
        if span is None:
            return Answer(200, blob.data, headers)
        begin, _, end = span.removeprefix("bytes=").partition("-")
        data = blob.data[int(begin) : int(end) + 1 if end else None]
        content_range = f"bytes {begin}-{int(begin) + len(data) - 1}/{len(blob.data)}"
        return Answer(206, data, {**headers, "Content-Range": content_range})

    def _list(self, request: Request, container: str) -> Answer:
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        most = int(query.get("maxresults", _PAGE))
        items: list[str] = []
        folders: dict[str, None] = {}
        marker = ""
        for name, blob in sorted(self._containers[container].items()):
            if not name.startswith(prefix) or name < query.get("marker", ""):
                continue
            if len(items) + len(folders) == most:
                marker = name
                break
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folders[prefix + rest[: rest.index(delimiter) + 1]] = None
            else:
                items.append(_item(name, blob))
        items += [f"<BlobPrefix><Name>{escape(folder)}</Name></BlobPrefix>" for folder in folders]
        text = (
            '<?xml version="1.0" encoding="utf-8"?>'
            f'<EnumerationResults ContainerName="{container}">'
            f"<Blobs>{''.join(items)}</Blobs><NextMarker>{escape(marker)}</NextMarker>"
            "</EnumerationResults>"
        )
        return Answer(200, text.encode(), dict(_XML))


def _item(name: str, blob: _Blob) -> str:
    return (
        f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{blob.modified}"
        f"</Last-Modified><Etag>{escape(blob.etag)}</Etag>"
        f"<Content-Length>{len(blob.data)}</Content-Length><BlobType>BlockBlob</BlobType>"
        "</Properties></Blob>"
    )


def _is_signed(request: Request) -> bool:
    """Whether the request has the signature of the account's key (SharedKey, since 2015)."""
    headers = request.headers
    length = headers.get("content-length", "")
    lines = [request.method]
    for name in _SIGNED:
        value = headers.get(name, "")
        if name == "content-length":
            value = "" if length == "0" else length
        if name == "date" and "x-ms-date" in headers:
            value = ""
        lines.append(value)
    lines += [f"{name}:{headers[name]}" for name in sorted(headers) if name.startswith("x-ms-")]
    lines.append(f"/{ACCOUNT}{request.path}")
    lines += [f"{name.lower()}:{request.query[name]}" for name in sorted(request.query)]
    text = "\n".join(lines).encode()
    signature = b64encode(hmac.new(b64decode(KEY), text, hashlib.sha256).digest()).decode()
    return headers.get("authorization") == f"SharedKey {ACCOUNT}:{signature}"


def _error(status: int, code: str, message: str) -> Answer:
    text = (
        f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code>'
        f"<Message>{message}</Message></Error>"
    )
    headers = {"x-ms-error-code": code, **_XML}
    return Answer(status, text.encode(), headers)


def azure_server(*containers: str) -> RestServer:
    """A server with these containers; `url` is without the account."""
    return RestServer("tests.servers.azure_server", *containers)


if __name__ == "__main__":
    serve(AzureStore(sys.argv[2:]))

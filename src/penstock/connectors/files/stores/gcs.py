"""Objects of a bucket of Google Cloud Storage.

Small objects are put with one request. Larger ones are uploaded in parts while they are written, by
a resumable upload: one part after the other, each by a thread of the store; the object exists when
the last part has arrived. If a response is lost, the upload is queried for its position. After a
week Google discards what a killed worker has uploaded of an object.

An object with `create_only` is put on the condition that no such object exists
(`ifGenerationMatch=0`), or that it is still the one that may be replaced; see `existing`. The last
offset is known in time for small objects only: one that is uploaded in parts replaces an existing
object.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from uuid import uuid4

from penstock.api.settings import Secret
from penstock.connectors.files.stores.budget import Budget, BudgetedFile
from penstock.connectors.files.stores.connection import CHECK_S, Connection
from penstock.connectors.files.stores.existing import Names, put
from penstock.connectors.files.stores.store import (
    FileLost,
    NewFile,
    Store,
    StoreRefused,
    StoreUnavailable,
)
from penstock.connectors.files.stores.tries import Tries

log = logging.getLogger(__name__)

_CONNECTIONS: Final = 16
_THREADS: Final = 4
_UNIT: Final = 256 << 10  # all parts except the last are multiples of it
_SMALLEST_PART: Final = 1 << 20
_NAMES: Final = Names()
_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_TRANSIENT: Final = frozenset({408, 429})
_INCOMPLETE: Final = 308
_SESSION_GONE: Final = frozenset({404, 410})
CREDENTIALS: Final = "credentials"
"""The reason of refusals that concern credentials."""


@dataclass(frozen=True, slots=True)
class GcsOptions:
    """Connection parameters of a bucket."""

    bucket: str
    url: str | None = None
    """The address of a store other than Google's."""
    credentials_path: str | None = None
    credentials_json: Secret | None = None
    anonymous: bool = False
    proxy: str | None = None
    tries: Tries = field(default_factory=Tries)
    part_bytes: int = 26_214_400
    timeout_s: float = 60

    def checking(self) -> GcsOptions:
        """The options for an interactive check: no retries, a short timeout."""
        return replace(self, tries=Tries(0), timeout_s=CHECK_S)


class GcsStore(Store):
    """The objects of a bucket."""

    def __init__(self, options: GcsOptions) -> None:
        self.options = options
        self.connection = connection(options, _THREADS)
        self.budget = Budget()

    @property
    def bucket(self) -> Any:
        """The bucket, shared by all threads; creating it sends no request."""
        return self.connection.client.bucket(self.options.bucket)

    def create(self, path: str) -> NewFile:
        return _Object(path, self)

    @property
    def part_bytes(self) -> int:
        """The size of parts: smaller if many objects are open."""
        size = max(min(self.options.part_bytes, self.budget.share), _SMALLEST_PART)
        return size - size % _UNIT

    def close(self) -> None:
        self.connection.close()

    def check(self, path: str) -> None:
        """Raises what an upload to this name would: begins an upload and cancels it."""
        upload = self.connection.call(lambda: self.begin(path))
        self.connection.call(lambda: self.cancel(upload))

    def begin(self, path: str) -> str:
        """Begins a resumable upload and returns its URL."""
        url: str = self.bucket.blob(path).create_resumable_upload_session(
            content_type=_CONTENT, retry=None, timeout=self.options.timeout_s, checksum=None
        )
        return url

    def cancel(self, upload: str) -> None:
        self.http.delete(upload, timeout=self.options.timeout_s)

    @property
    def http(self) -> Any:
        """The session that sends authenticated requests."""
        return self.bucket.client._http


_CONTENT: Final = "application/octet-stream"


class _Object(BudgetedFile):
    def __init__(self, path: str, store: GcsStore) -> None:
        super().__init__(path, store.budget)
        self._store = store
        self._connection = store.connection
        self._upload: str | None = None
        self._sent = 0  # bytes that the store has received
        self._part = b""  # the next part, which is being uploaded
        self._pending: Future[None] | None = None
        self._unsure = False  # whether the store may have received some of the part
        self._is_last = False  # whether the part is the last one
        self._is_committed = False
        self._writer = uuid4().hex

    def settle(self) -> None:
        """Uploads a full part; waits if the store is slower than the task."""
        part_bytes = self._store.part_bytes
        if self.held_bytes < part_bytes:
            return
        if self._part:
            is_pending = self._pending is not None and not self._pending.done()
            if is_pending and self.held_bytes < 2 * part_bytes:
                return
            self._await()
        if self._upload is None:
            self._upload = self._connection.call(lambda: self._store.begin(self.path))
        data = b"".join(self.held)
        full = part_bytes - part_bytes % _UNIT
        self._part = data[:full]
        self.hold(data[full:])
        self._pending = self._connection.pool.submit(self._send, None)

    def commit(self) -> None:
        self.is_written()
        if self._is_committed:
            return
        if self._upload is None:
            self._put()
        else:
            if not self._is_last:
                if self._part:
                    self._await()
                self._part = b"".join(self.held)
                self.hold(b"")
                self._is_last = True
            self._send(self.size)
        self._is_committed = True
        self.held = []

    def drop(self) -> None:
        self.is_written()
        self.held = []
        if self._pending is not None and not self._pending.cancel():
            self._pending.exception()
        if self._upload is not None and not self._is_committed:
            with suppress(Exception):
                self._store.cancel(self._upload)
        self._part = b""

    def _await(self) -> None:
        """Waits until the part is uploaded. Retries if the last attempt failed."""
        pending = self._pending or self._connection.pool.submit(self._send, None)
        self._pending = None
        pending.result()

    def _send(self, total: int | None) -> None:
        """Sends the part; with `total`, the last one of an object of `total` bytes."""

        def request() -> None:
            if self._unsure and not self._request(None, total):
                return
            self._unsure = True
            while self._part or total is not None:
                unsent = len(self._part)
                if not self._request(self._part, total):
                    break
                if len(self._part) == unsent:
                    raise StoreUnavailable(
                        f"The upload of '{self.path}' does not accept more bytes now"
                    )
            self._unsure = False

        self._connection.call(request)

    def _request(self, data: bytes | None, total: int | None) -> bool:
        """Sends bytes, or queries how many the store has; returns whether the upload continues."""
        store = self._store
        size = "*" if total is None else str(total)
        end = self._sent + len(data or b"")
        content_range = f"{self._sent}-{end - 1}/{size}" if data else f"*/{size}"
        response = store.http.put(
            self._upload,
            data=data or b"",
            headers={"Content-Range": f"bytes {content_range}", "Content-Type": _CONTENT},
            timeout=store.options.timeout_s,
            allow_redirects=False,
        )
        if response.status_code in (200, 201):
            self._part = b""
            return False
        if response.status_code != _INCOMPLETE:
            if response.status_code in _SESSION_GONE:
                raise FileLost(
                    f"The upload of '{self.path}' no longer exists: {response.status_code}"
                )
            raise _error(store.options, response.status_code, "", response.text[:200])
        received = response.headers.get("Range")
        sent = int(received.rpartition("-")[2]) + 1 if received else 0
        if sent < self._sent or sent > self._sent + len(self._part):
            raise FileLost(f"The upload of '{self.path}' has {sent} bytes, not {self._sent}")
        self._part = self._part[sent - self._sent :]
        self._sent = sent
        return True

    def _put(self) -> None:
        data = b"".join(self.held)
        if self.create_only:
            put(self, self._writer, _NAMES, partial(self._put_if, data), self._look)
        else:
            self._connection.call(lambda: self._put_once(data))

    def _put_once(self, data: bytes, **condition: Any) -> None:
        timeout_s = self._store.options.timeout_s
        blob = self._store.bucket.blob(self.path)
        if condition:
            blob.metadata = _NAMES.of(self, self._writer)
        blob.upload_from_string(
            data, content_type=_CONTENT, retry=None, timeout=timeout_s, **condition
        )

    def _put_if(self, data: bytes, generation: int | None) -> bool:
        """Puts the object if the existing one has this generation, or if there is none."""
        try:
            self._connection.call(lambda: self._put_once(data, if_generation_match=generation or 0))
        except StoreRefused as error:
            if error.reason == "412" or (generation and error.reason == "404"):
                return False
            raise
        return True

    def _look(self) -> tuple[int, Mapping[str, str]] | None:
        arguments = {"retry": None, "timeout": self._store.options.timeout_s}
        blob = self._connection.call(lambda: self._store.bucket.get_blob(self.path, **arguments))
        return None if blob is None else (int(blob.generation), blob.metadata or {})


def connection(options: GcsOptions, threads: int) -> Connection:
    """The connection to Google Cloud Storage; opens only a credentials file. Its client is a
    `google.cloud.storage.Client`."""
    make, errors = partial(_client, options), partial(_store_errors, options)
    return Connection(make, errors, threads=threads, name="gcs-parts", tries=options.tries)


def _client(options: GcsOptions) -> Any:
    from google.api_core.client_options import ClientOptions
    from google.auth.transport.requests import AuthorizedSession, Request
    from google.cloud.storage import Client
    from requests import Session
    from requests.adapters import HTTPAdapter

    credentials = credentials_of(options)
    auth_session = Session()
    make: Any = AuthorizedSession
    authorized = make(credentials, auth_request=Request(auth_session))
    for session in (authorized, auth_session):
        adapter = HTTPAdapter(pool_connections=_CONNECTIONS, pool_maxsize=_CONNECTIONS)
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        if options.proxy:
            session.proxies = {"http": options.proxy, "https": options.proxy}
    client: Any = Client(
        project="none",  # the name of a bucket identifies it
        credentials=credentials,
        _http=authorized,
        client_options=ClientOptions(api_endpoint=options.url) if options.url else None,
    )
    # Otherwise its threads query the bucket for traces, which needs another permission.
    client._bucket_metadata_cache = None
    return client


def credentials_of(options: GcsOptions) -> Any:
    """The credentials of the options; else Google's application default credentials. Raises
    StoreRefused."""
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import GoogleAuthError

    if options.anonymous:
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    try:
        if options.credentials_json is not None:
            return _credentials_from(json.loads(options.credentials_json.value))
        if options.credentials_path:
            with open(options.credentials_path, encoding="utf-8") as file:
                return _credentials_from(json.load(file))
        return google.auth.default(scopes=[_SCOPE])[0]
    except (GoogleAuthError, OSError, ValueError, AttributeError) as error:
        # Messages of decoding errors may show the key.
        text = "They are not a key in JSON" if isinstance(error, ValueError) else str(error)
        path = options.credentials_path
        subject = f"The credentials in '{path}'" if path else "The credentials"
        raise StoreRefused(f"{subject} cannot be used: {text}", CREDENTIALS) from error


def _credentials_from(info: Any) -> Any:
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.identity_pool import Credentials as PoolCredentials
    from google.oauth2.credentials import Credentials as UserCredentials
    from google.oauth2.service_account import Credentials as ServiceCredentials

    makers: dict[str, Any] = {
        "service_account": ServiceCredentials.from_service_account_info,
        "authorized_user": UserCredentials.from_authorized_user_info,
        "external_account": PoolCredentials.from_info,
    }
    kind = info.get("type")
    if kind not in makers:
        make: Any = DefaultCredentialsError
        raise make(f"Their type is {kind!r}, which is not one of {', '.join(makers)}")
    return makers[kind](info, scopes=[_SCOPE])


@contextmanager
def _store_errors(options: GcsOptions) -> Iterator[None]:
    """Translates errors of the client into StoreUnavailable and StoreRefused."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
    from requests import RequestException

    try:
        yield
    except GoogleAPICallError as error:
        details = [detail for detail in error.errors if isinstance(detail, dict)]
        reasons = [str(detail.get("reason", "")) for detail in details]
        raise _error(options, int(error.code or 0), " ".join(reasons), error.message) from error
    except InvalidResponse as error:
        raise _error(options, error.response.status_code, "", str(error.args[0])) from error
    except TransportError as error:
        raise StoreUnavailable(f"{_place(options)} does not answer: {error}") from error
    except GoogleAuthError as error:
        if error.retryable:
            raise StoreUnavailable(f"{_place(options)}: {error}") from error
        text = f"{_place(options)}: the credentials were rejected: {error.args[0]}"
        raise StoreRefused(text, CREDENTIALS) from error
    except (RequestException, ConnectionError, DataCorruption) as error:
        raise StoreUnavailable(f"{_place(options)} does not answer: {error}") from error


def _error(
    options: GcsOptions, status: int, reason: str, message: str
) -> StoreUnavailable | StoreRefused:
    about = ", ".join(part for part in (reason, str(status)) if part)
    text = f"{_place(options)}: {message or 'no message'} ({about})"
    if status >= 500 or status < 400 or status in _TRANSIENT:  # below: a damaged transfer
        return StoreUnavailable(text)
    return StoreRefused(text, CREDENTIALS if status == 401 else str(status))


def _place(options: GcsOptions) -> str:
    at = options.url or "Google Cloud Storage"
    return f"Bucket '{options.bucket}' at {at}"

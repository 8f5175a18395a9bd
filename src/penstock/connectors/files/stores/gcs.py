"""The operations of a bucket of Google Cloud Storage.

An upload is resumable: parts are sent one after the other. If a response is lost, the upload is
queried for its position. After a week Google discards an upload that was not completed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from penstock.api.settings import Secret
from penstock.connectors.files.stores.connection import CHECK_S
from penstock.connectors.files.stores.objects import (
    Condition,
    ObjectClient,
    Page,
    Part,
    Stored,
    Upload,
)
from penstock.connectors.files.stores.reading import ListedFile
from penstock.connectors.files.stores.store import FileLost, StoreRefused, StoreUnavailable
from penstock.connectors.files.stores.tries import Tries

_CONNECTIONS: Final = 16
_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_CONTENT: Final = "application/octet-stream"
_LISTED: Final = "prefixes,nextPageToken,items(name,size,updated,generation)"
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

    content_encoding: str | None = None
    """The encoding that new objects declare."""

    def checking(self) -> GcsOptions:
        """The options for an interactive check: no retries, a short timeout."""
        return replace(self, tries=Tries(0), timeout_s=CHECK_S)


class GcsClient(ObjectClient):
    """The operations of a bucket. Its client is a `google.cloud.storage.Client`."""

    smallest_part: ClassVar[int] = 1 << 20
    part_unit: ClassVar[int] = 256 << 10
    in_order: ClassVar[bool] = True
    gone: ClassVar[frozenset[str]] = frozenset({"404"})
    changed: ClassVar[frozenset[str]] = frozenset({"412"})
    exists: ClassVar[frozenset[str]] = changed

    def __init__(self, options: GcsOptions) -> None:
        super().__init__("gcs-parts", options.tries)
        self.options = options
        self.part_bytes = options.part_bytes
        self._common: dict[str, Any] = {"retry": None, "timeout": options.timeout_s}

    def blob(self, path: str) -> Any:
        """An object; creating it sends no request."""
        return self.client.bucket(self.options.bucket).blob(path)

    def _new(self, path: str) -> Any:
        """An object to be written."""
        blob = self.blob(path)
        if self.options.content_encoding is not None:
            blob.content_encoding = self.options.content_encoding
        return blob

    def put(
        self,
        path: str,
        data: bytes,
        about: Mapping[str, str],
        condition: Condition | None = None,
    ) -> None:
        blob, arguments = self._new(path), {}
        if condition is not None:
            blob.metadata = condition.metadata
            arguments["if_generation_match"] = int(condition.version or 0)
        blob.upload_from_string(data, content_type=_CONTENT, **arguments, **self._common)

    def begin(self, path: str) -> Upload:
        url: str = self._new(path).create_resumable_upload_session(
            content_type=_CONTENT, checksum=None, **self._common
        )
        return _GcsUpload(self, path, url)

    def head(self, path: str) -> Stored | None:
        blob = self.client.bucket(self.options.bucket).get_blob(path, **self._common)
        return None if blob is None else Stored(_found(blob), blob.metadata or {})

    def page(self, prefix: str, after: str, token: str | None, *, recursive: bool) -> Page:
        arguments = {"start_offset": after} if after else {}
        arguments |= {} if recursive else {"delimiter": "/"}
        listing = self.client.list_blobs(
            self.options.bucket,
            prefix=prefix,
            fields=_LISTED,
            page_token=token,
            **arguments,
            **self._common,
        )
        page = next(listing.pages, None)
        if page is None:
            return Page((), (), listing.next_page_token)
        return Page([_found(blob) for blob in page], sorted(page.prefixes), listing.next_page_token)

    def get(self, found: ListedFile, begin: int, end: int) -> bytes:
        data: bytes = self.blob(found.path).download_as_bytes(
            start=begin,
            end=end - 1,
            raw_download=True,
            if_generation_match=int(found.version),
            checksum=None,
            **self._common,
        )
        return data

    @property
    def http(self) -> Any:
        """The session that sends authenticated requests."""
        return self.client._http

    def make(self) -> Any:
        return _client(self.options)

    @contextmanager
    def errors(self) -> Iterator[None]:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError, TransportError
        from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
        from requests import RequestException

        try:
            yield
        except GoogleAPICallError as error:
            details = [detail for detail in error.errors if isinstance(detail, dict)]
            reasons = [str(detail.get("reason", "")) for detail in details]
            raise self.error(int(error.code or 0), " ".join(reasons), error.message) from error
        except InvalidResponse as error:
            raise self.error(error.response.status_code, "", str(error.args[0])) from error
        except TransportError as error:
            raise StoreUnavailable(f"{self._place} does not answer: {error}") from error
        except GoogleAuthError as error:
            if error.retryable:
                raise StoreUnavailable(f"{self._place}: {error}") from error
            text = f"{self._place}: the credentials were rejected: {error.args[0]}"
            raise StoreRefused(text, CREDENTIALS) from error
        except (RequestException, ConnectionError, DataCorruption) as error:
            raise StoreUnavailable(f"{self._place} does not answer: {error}") from error

    def error(self, status: int, reason: str, message: str) -> StoreUnavailable | StoreRefused:
        """The error of an answer with this status."""
        about = ", ".join(part for part in (reason, str(status)) if part)
        text = f"{self._place}: {message or 'no message'} ({about})"
        if status >= 500 or status < 400 or status in _TRANSIENT:  # below: a damaged transfer
            return StoreUnavailable(text)
        return StoreRefused(text, CREDENTIALS if status == 401 else str(status))

    @property
    def _place(self) -> str:
        return f"Bucket '{self.options.bucket}' at {self.options.url or 'Google Cloud Storage'}"


class _GcsUpload(Upload):
    def __init__(self, client: GcsClient, path: str, url: str) -> None:
        self._client = client
        self._path = path
        self._url = url
        self._received = 0  # bytes that the store has
        self._unsure = False  # whether the store may have more of them
        self._is_complete = False

    def send(self, part: Part) -> None:
        end = part.start + len(part.data)
        self._send(part.data, end, end if part.is_last else None)

    def complete(self, condition: Condition | None = None) -> None:
        if not self._is_complete:
            self._send(b"", self._received, self._received)

    def abort(self) -> None:
        self._client.http.delete(self._url, timeout=self._client.options.timeout_s)

    def _send(self, data: bytes, end: int, total: int | None) -> None:
        """Sends what the store does not have of the data, which ends at this position of the
        object; with `total`, the last bytes of an object of that size."""
        if self._unsure:
            self._request(b"", end, total)  # a query
        self._unsure = True
        while self._received < end or (total is not None and not self._is_complete):
            received = self._received
            self._request(data[len(data) - (end - received) :], end, total)
            if self._received == received and not self._is_complete:
                raise StoreUnavailable(
                    f"The upload of '{self._path}' does not accept more bytes now"
                )
        self._unsure = False

    def _request(self, data: bytes, end: int, total: int | None) -> None:
        """Sends bytes, or queries how many the store has."""
        size = "*" if total is None else str(total)
        begin = self._received
        content_range = f"{begin}-{begin + len(data) - 1}/{size}" if data else f"*/{size}"
        response = self._client.http.put(
            self._url,
            data=data,
            headers={"Content-Range": f"bytes {content_range}", "Content-Type": _CONTENT},
            timeout=self._client.options.timeout_s,
            allow_redirects=False,
        )
        status = response.status_code
        if status in (200, 201):
            self._received = end
            self._is_complete = True
            return
        if status != _INCOMPLETE:
            if status in _SESSION_GONE:
                raise FileLost(f"The upload of '{self._path}' no longer exists: {status}")
            raise self._client.error(status, "", response.text[:200])
        range = response.headers.get("Range")
        received = int(range.rpartition("-")[2]) + 1 if range else 0
        if not begin <= received <= end:
            raise FileLost(f"The upload of '{self._path}' has {received} bytes, not {begin}")
        self._received = received


def _found(blob: Any) -> ListedFile:
    modified_ms = int(blob.updated.timestamp() * 1000)
    return ListedFile(blob.name, int(blob.size), modified_ms, str(blob.generation))


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

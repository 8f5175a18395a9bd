"""Objects of a bucket: Amazon S3, or a store that speaks its protocol.

Small objects are put with one request. The store's threads upload parts of larger ones while they
are written; the object exists when the upload is completed. A killed worker leaves an incomplete
upload, which the bucket's lifecycle rules remove.

An object with `create_only` is put on the condition that no such object exists (`If-None-Match`),
or that it is still the one that may be replaced (`If-Match`); see `existing`. The last offset is
known in time for small objects only: one that is uploaded in parts replaces an existing object.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from penstock.api.settings import Secret
from penstock.connectors.files.stores.aside import Aside
from penstock.connectors.files.stores.budget import Budget, BudgetedFile
from penstock.connectors.files.stores.connection import CHECK_S, Connection
from penstock.connectors.files.stores.existing import Names, put
from penstock.connectors.files.stores.store import (
    NewFile,
    Store,
    StoreRefused,
    StoreUnavailable,
)

log = logging.getLogger(__name__)

_CONNECTIONS: Final = 16
_THREADS: Final = 4
_SMALLEST_PART: Final = 5 << 20
_HELD_BESIDE: Final = 96 << 20  # in memory by all objects, if others wait in files
_SMALLEST_ASIDE: Final = 256 << 10
_NAMES: Final = Names()
_CHANGED: Final = frozenset({"PreconditionFailed", "412"})
_GONE: Final = frozenset({"NoSuchKey", "404"})
_UNKNOWN: Final = "NotImplemented"  # the error of a store without conditional writes
_PARTS_AHEAD: Final = 2  # parts of a file that are uploaded at once before its task waits
_TRANSIENT: Final = frozenset(
    """
    ConditionalRequestConflict InternalError OperationAborted RequestLimitExceeded
    RequestThrottled RequestThrottledException
    RequestTimeout RequestTimeoutException ServiceUnavailable SlowDown Throttling
    ThrottlingException TooManyRequestsException PriorRequestNotComplete
    """.split()
)


@dataclass(frozen=True, slots=True)
class Role:
    """A role that is assumed for its credentials."""

    arn: str
    session: str
    external_id: str | None = None
    duration_s: int | None = None
    url: str | None = None  # of the service that issues the credentials


@dataclass(frozen=True, slots=True)
class S3Options:
    """Connection parameters of a bucket, and properties of objects in it."""

    bucket: str
    region: str
    url: str | None = None
    path_style: bool = True
    accelerate: bool = False
    key: str | None = None
    secret: Secret | None = None
    token: Secret | None = None
    profile: str | None = None
    anonymous: bool = False
    role: Role | None = None
    proxy: str | None = None
    retries: int = 3
    part_bytes: int = 26_214_400
    tags: bool = False
    timeout_s: int = 60
    extra: Mapping[str, str] = field(default_factory=dict)
    """Arguments of every upload: encryption, ACL, storage class."""

    def checking(self) -> S3Options:
        """The options for an interactive check: no retries, a short timeout."""
        return replace(self, retries=0, timeout_s=CHECK_S)


class S3Store(Store):
    """The objects of a bucket."""

    def __init__(self, options: S3Options) -> None:
        self.options = options
        self.connection = connection(options, _THREADS)
        self.budget = Budget()

    @property
    def client(self) -> Any:
        """The client of all threads."""
        return self.connection.client

    def create(self, path: str) -> NewFile:
        return _Object(path, self)

    @property
    def part_bytes(self) -> int:
        """The size of parts: smaller if many objects are open, but at least S3's minimum."""
        return max(min(self.options.part_bytes, self.budget.share), _SMALLEST_PART)

    @property
    def aside_bytes(self) -> int | None:
        """The size from which an open object keeps its bytes in a file, because the parts of all
        open objects do not fit into memory; None: they do."""
        if self.budget.share >= _SMALLEST_PART:
            return None
        return max(_HELD_BESIDE // self.budget.files, _SMALLEST_ASIDE)

    def close(self) -> None:
        self.connection.close()

    def check(self, path: str) -> None:
        """Raises what an upload to this name would: begins an upload and aborts it."""
        address = {"Bucket": self.options.bucket, "Key": path}
        with store_errors(self.options):
            upload = self.client.create_multipart_upload(**address, **self.options.extra)
            self.client.abort_multipart_upload(**address, UploadId=upload["UploadId"])


@dataclass(slots=True)
class _Part:
    number: int
    data: bytes  # until it is uploaded
    upload: Future[str] | None = None
    tag: str | None = None


class _Object(BudgetedFile):
    def __init__(self, path: str, store: S3Store) -> None:
        super().__init__(path, store.budget)
        self._store = store
        self._address = {"Bucket": store.options.bucket, "Key": path}
        self._upload: str | None = None
        self._parts: list[_Part] = []
        self._is_committed = False
        self._is_tagged = False
        self._writer = uuid4().hex
        self._aside = Aside()

    def settle(self) -> None:
        """Uploads full parts; waits if the store is slower than the task."""
        part_bytes = self._store.part_bytes
        if self._aside.size + self.held_bytes >= part_bytes:
            self._begin()
            data = self._take()
            full = len(data) - len(data) % part_bytes
            for start in range(0, full, part_bytes):
                self._add_part(data[start : start + part_bytes])
            self.hold(data[full:])
        elif self._needs_file() and self._aside.add(self.held):
            self.hold(b"")
        for part in self._parts[:-_PARTS_AHEAD]:
            self._await(part)

    def commit(self) -> None:
        options = self._store.options
        self.is_written()
        if not self._is_committed and self._upload is None:
            self._put()
        elif not self._is_committed:
            self._complete()
        if options.tags and not self._is_tagged:
            tags = [{"Key": name, "Value": value} for name, value in self.about.items()]
            with store_errors(options):
                self._store.client.put_object_tagging(**self._address, Tagging={"TagSet": tags})
            self._is_tagged = True

    def drop(self) -> None:
        self.is_written()
        self.held = []
        self._aside.taken()
        for part in self._parts:
            if part.upload is not None:
                part.upload.cancel()
        if self._upload is not None and not self._is_committed:
            for part in self._parts:
                if part.upload is not None and not part.upload.cancelled():
                    part.upload.exception()  # a part uploaded after the abort would remain
            with suppress(Exception):
                self._store.client.abort_multipart_upload(**self._address, UploadId=self._upload)
        self._parts = []

    def _put(self) -> None:
        options = self._store.options
        tagging = {"Tagging": urlencode(self.about)} if options.tags else {}
        data = self._take()
        self.hold(data)  # for a retry
        arguments: dict[str, Any] = {**self._address, **tagging, **options.extra, "Body": data}
        if self.create_only:
            arguments["Metadata"] = _NAMES.of(self, self._writer)
            put(self, self._writer, _NAMES, partial(self._put_if, arguments), self._look)
        else:
            with store_errors(options):
                self._store.client.put_object(**arguments)
        self._is_committed = self._is_tagged = True
        self.hold(b"")

    def _put_if(self, arguments: Mapping[str, Any], tag: str | None) -> bool:
        """Puts the object if the existing one has this tag, or if there is none. Puts it without a
        condition if the store has none."""
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        try:
            with store_errors(self._store.options):
                self._store.client.put_object(**arguments, **condition)
        except StoreRefused as error:
            if error.reason in _CHANGED or (tag is not None and error.reason in _GONE):
                return False
            if error.reason != _UNKNOWN:
                raise
            with store_errors(self._store.options):
                self._store.client.put_object(**arguments)
        return True

    def _look(self) -> tuple[str, Mapping[str, str]] | None:
        try:
            with store_errors(self._store.options):
                head = self._store.client.head_object(**self._address)
        except StoreRefused as error:
            if error.reason in _GONE:
                return None
            raise
        return str(head["ETag"]), head.get("Metadata", {})

    def _complete(self) -> None:
        if self._aside.size or self.held_bytes:
            self._add_part(self._take())
        for part in self._parts:
            self._await(part)
        parts = [{"PartNumber": part.number, "ETag": part.tag} for part in self._parts]
        with store_errors(self._store.options):
            try:
                self._store.client.complete_multipart_upload(
                    **self._address, UploadId=self._upload, MultipartUpload={"Parts": parts}
                )
            except Exception as error:
                # Completed before, and the response was lost.
                if _code(error) != "NoSuchUpload" or not self._has(len(parts)):
                    raise
        self._is_committed = True

    def _has(self, parts: int) -> bool:
        """Whether an object of this size and number of parts exists."""
        head = self._store.client.head_object(**self._address)
        tag = str(head["ETag"]).strip('"')
        return head["ContentLength"] == self.size and tag.endswith(f"-{parts}")

    def _begin(self) -> None:
        if self._upload is None:
            options = self._store.options
            with store_errors(options):
                upload = self._store.client.create_multipart_upload(
                    **self._address, **options.extra
                )
            self._upload = upload["UploadId"]

    def _needs_file(self) -> bool:
        limit = self._store.aside_bytes
        return limit is not None and self.held_bytes >= limit

    def _take(self) -> bytes:
        """Removes and returns the bytes that are not uploaded yet."""
        data = b"".join((self._aside.taken(), *self.held))
        self.hold(b"")
        return data

    def _add_part(self, data: bytes) -> None:
        part = _Part(len(self._parts) + 1, data)
        self._parts.append(part)
        part.upload = self._store.connection.pool.submit(self._upload_part, part)

    def _await(self, part: _Part) -> None:
        """Waits until the part is uploaded. Retries if the last attempt failed."""
        if part.tag is not None:
            return
        if part.upload is None:
            part.upload = self._store.connection.pool.submit(self._upload_part, part)
        try:
            part.tag = part.upload.result()
        finally:
            part.upload = None
        part.data = b""

    def _upload_part(self, part: _Part) -> str:
        options = self._store.options
        with store_errors(options):
            response = self._store.client.upload_part(
                **self._address,
                **{k: v for k, v in options.extra.items() if k.startswith("SSECustomer")},
                UploadId=self._upload,
                PartNumber=part.number,
                Body=part.data,
            )
        return str(response["ETag"])


def connection(options: S3Options, threads: int) -> Connection:
    """The connection to S3; opens nothing. Its boto3 client retries requests."""
    make, errors = partial(_client, options), partial(store_errors, options)
    return Connection(make, errors, threads=threads, name="s3-parts")


def _client(options: S3Options) -> Any:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    settings: dict[str, Any] = {
        "region_name": options.region,
        "s3": {
            "addressing_style": "path" if options.path_style else "virtual",
            "use_accelerate_endpoint": options.accelerate,
        },
        "retries": {"mode": "standard", "total_max_attempts": 1 + options.retries},
        "max_pool_connections": _CONNECTIONS,
        "connect_timeout": min(options.timeout_s, 10),
        "read_timeout": options.timeout_s,
    }
    if options.proxy:
        settings["proxies"] = {"http": options.proxy, "https": options.proxy}
    if options.anonymous:
        settings["signature_version"] = UNSIGNED
    if options.url:
        # Other stores lack the checksums that Amazon introduced in 2025.
        settings["request_checksum_calculation"] = "when_required"
        settings["response_checksum_validation"] = "when_required"
    session = boto3.session.Session(
        aws_access_key_id=options.key,
        aws_secret_access_key=options.secret.value if options.secret else None,
        aws_session_token=options.token.value if options.token else None,
        profile_name=options.profile,
        region_name=options.region,
    )
    if options.role is not None:
        _assume(session, options.role)
    return session.client("s3", endpoint_url=options.url or None, config=Config(**settings))


def _assume(session: Any, role: Role) -> None:
    """Makes a session use the credentials of a role, and renew them in time."""
    from botocore.credentials import DeferredRefreshableCredentials

    sts = session.client("sts", endpoint_url=role.url)
    arguments: dict[str, Any] = {"RoleArn": role.arn, "RoleSessionName": role.session}
    if role.duration_s:
        arguments["DurationSeconds"] = role.duration_s
    if role.external_id:
        arguments["ExternalId"] = role.external_id

    def refresh() -> dict[str, str]:
        credentials = sts.assume_role(**arguments)["Credentials"]
        return {
            "access_key": credentials["AccessKeyId"],
            "secret_key": credentials["SecretAccessKey"],
            "token": credentials["SessionToken"],
            "expiry_time": credentials["Expiration"].isoformat(),
        }

    session._session._credentials = DeferredRefreshableCredentials(refresh, "sts-assume-role")


@contextmanager
def store_errors(options: S3Options) -> Iterator[None]:
    """Translates errors of the client into StoreUnavailable and StoreRefused."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionError,
        HTTPClientError,
    )

    place = options.url or f"S3 in {options.region}"
    try:
        yield
    except ClientError as error:
        code = _code(error) or "unknown"
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = error.response.get("Error", {}).get("Message", "")
        text = f"Bucket '{options.bucket}' at {place}: {message or 'no message'} ({code}, {status})"
        if code != _UNKNOWN and (status >= 500 or status == 429 or code in _TRANSIENT):
            raise StoreUnavailable(text) from error
        raise StoreRefused(text, code) from error
    except (HTTPClientError, ConnectionError) as error:
        text = f"Bucket '{options.bucket}' at {place} does not answer: {error}"
        raise StoreUnavailable(text) from error
    except (BotoCoreError, ValueError) as error:
        raise StoreRefused(f"Bucket '{options.bucket}' at {place}: {error}") from error


def _code(error: Exception) -> str | None:
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def proxy_url(url: str, user: str | None, password: Secret | None) -> str:
    """The URL of a proxy with user and password.

    >>> proxy_url("http://proxy:8080", "me", Secret("p@ss"))
    'http://me:p%40ss@proxy:8080'
    """
    if not user:
        return url
    parts = urlsplit(url)
    secret = f":{quote(password.value, safe='')}" if password and password.value else ""
    return parts._replace(netloc=f"{quote(user, safe='')}{secret}@{parts.netloc}").geturl()

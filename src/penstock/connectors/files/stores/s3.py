"""The operations of a bucket: Amazon S3, or a store that speaks its protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode, urlsplit

from penstock.api.settings import Secret
from penstock.connectors.common.aws import Role, assuming
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
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable
from penstock.connectors.files.stores.tries import Tries

_CONNECTIONS: Final = 16
_GONE: Final = frozenset({"NoSuchKey", "404"})
_CHANGED: Final = frozenset({"PreconditionFailed", "412"})
_UNKNOWN: Final = "NotImplemented"  # the error of a store without conditional writes
_TRANSIENT: Final = frozenset(
    """
    ConditionalRequestConflict InternalError OperationAborted RequestLimitExceeded
    RequestThrottled RequestThrottledException
    RequestTimeout RequestTimeoutException ServiceUnavailable SlowDown Throttling
    ThrottlingException TooManyRequestsException PriorRequestNotComplete
    """.split()
)


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


class S3Client(ObjectClient):
    """The operations of a bucket. Its boto3 client retries requests."""

    smallest_part: ClassVar[int] = 5 << 20
    gone: ClassVar[frozenset[str]] = _GONE
    changed: ClassVar[frozenset[str]] = _CHANGED
    exists: ClassVar[frozenset[str]] = _CHANGED

    def __init__(self, options: S3Options) -> None:
        super().__init__("s3-parts", Tries(0))
        self.options = options
        self.part_bytes = options.part_bytes

    def address(self, path: str) -> dict[str, str]:
        """Arguments of requests for an object."""
        return {"Bucket": self.options.bucket, "Key": path}

    @property
    def customer_key(self) -> dict[str, str]:
        """Arguments of requests for objects that are encrypted with a customer key."""
        extra = self.options.extra
        return {name: value for name, value in extra.items() if name.startswith("SSECustomer")}

    def put(
        self,
        path: str,
        data: bytes,
        about: Mapping[str, str],
        condition: Condition | None = None,
    ) -> None:
        arguments: dict[str, Any] = {**self.address(path), **self.options.extra, "Body": data}
        if self.options.tags:
            arguments["Tagging"] = urlencode(about)
        if condition is None:
            self.client.put_object(**arguments)
            return
        arguments["Metadata"] = condition.metadata
        try:
            self.client.put_object(**arguments, **_condition(condition.version))
        except Exception as error:
            if _code(error) != _UNKNOWN:
                raise
            self.client.put_object(**arguments)

    def begin(self, path: str) -> Upload:
        options = self.options
        answer = self.client.create_multipart_upload(**self.address(path), **options.extra)
        return _S3Upload(self, path, answer["UploadId"])

    def label(self, path: str, about: Mapping[str, str]) -> None:
        if self.options.tags:
            tags = [{"Key": name, "Value": value} for name, value in about.items()]
            self.client.put_object_tagging(**self.address(path), Tagging={"TagSet": tags})

    def head(self, path: str) -> Stored:
        head = self.client.head_object(**self.address(path), **self.customer_key)
        found = _found(path, head["ContentLength"], head)
        return Stored(found, head.get("Metadata", {}))

    def page(self, prefix: str, after: str, token: str | None, *, recursive: bool) -> Page:
        arguments = {"StartAfter": after} if after else {}
        arguments |= {} if recursive else {"Delimiter": "/"}
        arguments |= {"ContinuationToken": token} if token else {}
        page = self.client.list_objects_v2(Bucket=self.options.bucket, Prefix=prefix, **arguments)
        return Page(
            [_found(item["Key"], item["Size"], item) for item in page.get("Contents", ())],
            [folder["Prefix"] for folder in page.get("CommonPrefixes", ())],
            page["NextContinuationToken"] if page.get("IsTruncated") else None,
        )

    def get(self, found: ListedFile, begin: int, end: int) -> bytes:
        condition = _condition(found.version) if found.version else {}
        answer = self.client.get_object(
            **self.address(found.path),
            Range=f"bytes={begin}-{end - 1}",
            **condition,
            **self.customer_key,
        )
        data: bytes = answer["Body"].read()
        return data

    def make(self) -> Any:
        return _client(self.options)

    @contextmanager
    def errors(self) -> Iterator[None]:
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            ConnectionError,
            HTTPClientError,
        )

        options = self.options
        place = f"Bucket '{options.bucket}' at {options.url or f'S3 in {options.region}'}"
        try:
            yield
        except ClientError as error:
            code = _code(error) or "unknown"
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            message = error.response.get("Error", {}).get("Message", "")
            text = f"{place}: {message or 'no message'} ({code}, {status})"
            if code != _UNKNOWN and (status >= 500 or status == 429 or code in _TRANSIENT):
                raise StoreUnavailable(text) from error
            raise StoreRefused(text, code) from error
        except (HTTPClientError, ConnectionError) as error:
            raise StoreUnavailable(f"{place} does not answer: {error}") from error
        except (BotoCoreError, ValueError) as error:
            raise StoreRefused(f"{place}: {error}") from error


class _S3Upload(Upload):
    def __init__(self, client: S3Client, path: str, id: str) -> None:
        self._client = client
        self._address = {**client.address(path), "UploadId": id}
        self._path = path
        self._sent: dict[int, tuple[str, int]] = {}  # tags and sizes of parts

    def send(self, part: Part) -> None:
        number = part.number + 1
        answer = self._client.client.upload_part(
            **self._address,
            **self._client.customer_key,
            PartNumber=number,
            Body=part.data,
        )
        self._sent[number] = str(answer["ETag"]), len(part.data)

    def complete(self, condition: Condition | None = None) -> None:
        parts = [
            {"PartNumber": number, "ETag": tag} for number, (tag, _) in sorted(self._sent.items())
        ]
        try:
            self._client.client.complete_multipart_upload(
                **self._address, MultipartUpload={"Parts": parts}
            )
        except Exception as error:
            # Completed before, and the response was lost.
            if _code(error) != "NoSuchUpload" or not self._exists():
                raise

    def abort(self) -> None:
        self._client.client.abort_multipart_upload(**self._address)

    def _exists(self) -> bool:
        """Whether an object of this size and number of parts exists."""
        found = self._client.head(self._path).file
        size = sum(size for _, size in self._sent.values())
        return found.size == size and found.version.endswith(f"-{len(self._sent)}")


def _found(path: str, size: int, about: Mapping[str, Any]) -> ListedFile:
    modified_ms = int(about["LastModified"].timestamp() * 1000)
    return ListedFile(path, size, modified_ms, about["ETag"].strip('"'))


def _condition(version: str | None) -> dict[str, str]:
    return {"IfNoneMatch": "*"} if version is None else {"IfMatch": f'"{version}"'}


def _client(options: S3Options) -> Any:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.credentials import DeferredRefreshableCredentials

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
        refresh = assuming(session, options.role)
        session._session._credentials = DeferredRefreshableCredentials(refresh, "sts-assume-role")
    return session.client("s3", endpoint_url=options.url or None, config=Config(**settings))


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

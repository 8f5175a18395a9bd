"""The operations of a container of Azure Blob Storage.

The parts of an upload are blocks: the blob exists, replacing any other, when its block list is
committed. After a week Azure discards the blocks that a killed worker has staged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final
from uuid import uuid4

from penstock.api.settings import Secret
from penstock.connectors.files.stores.connection import CHECK_S
from penstock.connectors.files.stores.existing import Names
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

_LARGEST_PUT: Final = 256 << 20
_IS_FOLDER: Final = "hdi_isfolder"  # in the metadata of blobs that represent folders
_TRANSIENT: Final = frozenset({408, 429})
_BUSY: Final = frozenset({"ContainerBeingDeleted", "OperationTimedOut"})


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """Connection parameters of a container."""

    account: str
    container: str
    url: str | None = None
    """The address of the account, unless it is Azure's own."""
    key: Secret | None = None
    sas: Secret | None = None
    proxy: str | None = None
    tries: Tries = field(default_factory=Tries)
    part_bytes: int = 26_214_400
    timeout_s: float = 30

    def checking(self) -> AzureOptions:
        """The options for an interactive check: no retries, a short timeout."""
        return replace(self, tries=Tries(0), timeout_s=CHECK_S)


class AzureClient(ObjectClient):
    """The operations of a container. Its client is a `ContainerClient`."""

    smallest_part: ClassVar[int] = 1 << 20
    names: ClassVar[Names] = Names("_")  # names of metadata are C# identifiers
    gone: ClassVar[frozenset[str]] = frozenset({"BlobNotFound", "404"})
    changed: ClassVar[frozenset[str]] = frozenset({"ConditionNotMet", "412"})
    exists: ClassVar[frozenset[str]] = changed | {"BlobAlreadyExists", "409"}

    def __init__(self, options: AzureOptions) -> None:
        super().__init__("azure-blocks", options.tries)
        self.options = options
        self.part_bytes = options.part_bytes

    def blob(self, path: str) -> Any:
        """The client of a blob; creating it sends no request."""
        return self.client.get_blob_client(path)

    def put(
        self,
        path: str,
        data: bytes,
        about: Mapping[str, str],
        condition: Condition | None = None,
    ) -> None:
        self.blob(path).upload_blob(data, overwrite=True, **_arguments(condition))

    def begin(self, path: str) -> Upload:
        return _AzureUpload(self, path)

    def try_upload(self, path: str) -> None:
        # A block is not a blob, and Azure discards it later.
        self.blob(path).stage_block(_block_id(uuid4().hex, 0), b"\n")

    def head(self, path: str) -> Stored:
        blob = self.blob(path).get_blob_properties()
        return Stored(_found(blob), blob.metadata or {})

    def page(self, prefix: str, after: str, token: str | None, *, recursive: bool) -> Page:
        if recursive:
            listed = self.client.list_blobs(prefix, include=["metadata"])
        else:
            listed = self.client.walk_blobs(prefix, include=["metadata"], delimiter="/")
        pages = listed.by_page(token)
        items = [*next(pages, ())]
        blobs = [item for item in items if hasattr(item, "etag")]
        return Page(
            [_found(blob) for blob in blobs if not (blob.metadata or {}).get(_IS_FOLDER)],
            [item.name for item in items if not hasattr(item, "etag")],
            pages.continuation_token or None,
        )

    def get(self, found: ListedFile, begin: int, end: int) -> bytes:
        data: bytes = (
            self.blob(found.path)
            .download_blob(
                offset=begin, length=end - begin, max_concurrency=1, **_version(found.version)
            )
            .readall()
        )
        return data

    def make(self) -> Any:
        return _client(self.options)

    @contextmanager
    def errors(self) -> Iterator[None]:
        from azure.core.exceptions import AzureError, HttpResponseError

        options = self.options
        place = f"Container '{options.container}' at {options.url or options.account}"
        try:
            yield
        except HttpResponseError as error:
            status = int(error.status_code or 0)
            code = getattr(error, "error_code", None)
            reason = str(getattr(code, "value", None) or code or status or "")
            lines = (error.message or "").splitlines()
            message = (lines[0] if lines else "") or error.reason or "no message"
            text = f"{place}: {message} ({', '.join(dict.fromkeys((reason, str(status))))})"
            if status >= 500 or status in _TRANSIENT or reason in _BUSY or not status:
                raise StoreUnavailable(text) from error
            raise StoreRefused(text, reason) from error
        except AzureError as error:
            raise StoreUnavailable(f"{place} does not answer: {error}") from error
        except ValueError as error:
            raise StoreRefused(f"{place}: {error}", "ValueError") from error


class _AzureUpload(Upload):
    conditional: ClassVar[bool] = True
    remains: ClassVar[bool] = False

    def __init__(self, client: AzureClient, path: str) -> None:
        self._client = client
        self._path = path
        self._writer = uuid4().hex
        self._blocks: set[str] = set()

    def send(self, part: Part) -> None:
        id = _block_id(self._writer, part.number)
        self._client.blob(self._path).stage_block(id, part.data)
        self._blocks.add(id)

    def complete(self, condition: Condition | None = None) -> None:
        from azure.storage.blob import BlobBlock

        blocks = [BlobBlock(id) for id in sorted(self._blocks)]
        try:
            with self._client.errors():
                self._client.blob(self._path).commit_block_list(blocks, **_arguments(condition))
        except StoreRefused as error:
            if error.reason != "InvalidBlockList":
                raise
            # Another writer has committed a blob of this name, which discards our blocks.
            raise FileLost(f"The blocks of '{self._path}' no longer exist: {error}") from error

    def abort(self) -> None:
        return None  # Azure discards the blocks


def _block_id(writer: str, number: int) -> str:
    """Block ids of a blob have the same length, and are unique to their writer."""
    return f"{writer}{number:08}"


def _arguments(condition: Condition | None) -> dict[str, Any]:
    from azure.core import MatchConditions

    if condition is None:
        return {}
    if condition.version is None:
        return {"metadata": condition.metadata, "match_condition": MatchConditions.IfMissing}
    return {"metadata": condition.metadata, **_version(condition.version)}


def _version(version: str) -> dict[str, Any]:
    """The condition that a blob is still this version."""
    from azure.core import MatchConditions

    return {"etag": f'"{version}"', "match_condition": MatchConditions.IfNotModified}


def _found(blob: Any) -> ListedFile:
    modified_ms = int(blob.last_modified.timestamp() * 1000)
    return ListedFile(blob.name, int(blob.size), modified_ms, blob.etag.strip('"'))


def _client(options: AzureOptions) -> Any:
    from azure.storage.blob import ContainerClient, LinearRetry

    arguments: dict[str, Any] = {}
    if options.proxy:
        arguments["proxies"] = {"http": options.proxy, "https": options.proxy}
    credential: Any = None
    if options.key is not None:
        credential = {"account_name": options.account, "account_key": options.key.value}
    elif options.sas is not None:
        credential = options.sas.value.removeprefix("?")
    return ContainerClient(
        options.url or f"https://{options.account}.blob.core.windows.net",
        options.container,
        credential=credential,
        retry_policy=LinearRetry(retry_total=0),
        connection_timeout=min(options.timeout_s, 10),
        read_timeout=options.timeout_s,
        max_single_put_size=_LARGEST_PUT,
        **arguments,
    )

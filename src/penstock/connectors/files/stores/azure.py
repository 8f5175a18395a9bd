"""Blobs of a container of Azure Blob Storage.

Small blobs are put with one request. The store's threads stage blocks of larger ones while they are
written; the blob exists, replacing any other, when its block list is committed. After a week Azure
discards the blocks that a killed worker has staged.

For a blob with `create_only` the put, or the commit of its block list, requires that no such blob
exists (`If-None-Match`), or that it is still the one that may be replaced (`If-Match`); see
`existing`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
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

_THREADS: Final = 4
_SMALLEST_BLOCK: Final = 1 << 20
_LARGEST_PUT: Final = 256 << 20
_NAMES: Final = Names("_")  # names of metadata are C# identifiers
_BLOCKS_AHEAD: Final = 2  # blocks of a file that are staged at once before its task waits
_TRANSIENT: Final = frozenset({408, 429})
_EXISTS: Final = frozenset({"BlobAlreadyExists", "ConditionNotMet", "409", "412"})
_GONE: Final = frozenset({"BlobNotFound", "404"})
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
    block_bytes: int = 26_214_400
    timeout_s: float = 30

    def checking(self) -> AzureOptions:
        """The options for an interactive check: no retries, a short timeout."""
        return replace(self, tries=Tries(0), timeout_s=CHECK_S)


class AzureStore(Store):
    """The blobs of a container."""

    def __init__(self, options: AzureOptions) -> None:
        self.options = options
        self.connection = connection(options, _THREADS)
        self.budget = Budget()

    def create(self, path: str) -> NewFile:
        return _Blob(path, self)

    @property
    def block_bytes(self) -> int:
        """The size of blocks: smaller if many blobs are open."""
        return max(min(self.options.block_bytes, self.budget.share), _SMALLEST_BLOCK)

    def check(self, path: str) -> None:
        """Raises what an upload to this name would. Stages a block, which is not a blob, and which
        Azure discards later."""
        blob = self.connection.client.get_blob_client(path)
        self.connection.call(lambda: blob.stage_block(_block_id(uuid4().hex, 0), b"\n"))

    def close(self) -> None:
        self.connection.close()


@dataclass(slots=True)
class _Block:
    id: str
    data: bytes  # until it is staged
    upload: Future[None] | None = None
    is_staged: bool = False


class _Blob(BudgetedFile):
    def __init__(self, path: str, store: AzureStore) -> None:
        super().__init__(path, store.budget)
        self._store = store
        self._connection = store.connection
        self._blocks: list[_Block] = []
        self._is_committed = False
        self._writer = uuid4().hex

    def settle(self) -> None:
        """Stages full blocks; waits if the store is slower than the task."""
        block_bytes = self._store.block_bytes
        if self.held_bytes >= block_bytes:
            data = b"".join(self.held)
            full = len(data) - len(data) % block_bytes
            for start in range(0, full, block_bytes):
                self._add_block(data[start : start + block_bytes])
            self.hold(data[full:])
        for block in self._blocks[:-_BLOCKS_AHEAD]:
            self._await(block)

    def commit(self) -> None:
        self.is_written()
        if self._is_committed:
            return
        if self._blocks:
            if self.held_bytes:
                self._add_block(b"".join(self.held))
                self.hold(b"")
            for block in self._blocks:
                self._await(block)
        if self.create_only:
            put(self, self._writer, _NAMES, self._complete_if, self._look)
        else:
            self._complete()
        self._is_committed = True
        self.held = []

    def drop(self) -> None:
        self.is_written()
        self.held = []
        for block in self._blocks:
            if block.upload is not None:
                block.upload.cancel()
        self._blocks = []

    @property
    def _client(self) -> Any:
        return self._connection.client.get_blob_client(self.path)

    def _add_block(self, data: bytes) -> None:
        block = _Block(_block_id(self._writer, len(self._blocks)), data)
        self._blocks.append(block)
        block.upload = self._connection.pool.submit(self._stage, block)

    def _await(self, block: _Block) -> None:
        """Waits until the block is staged. Retries if the last attempt failed."""
        if block.is_staged:
            return
        upload = block.upload or self._connection.pool.submit(self._stage, block)
        block.upload = None
        upload.result()
        block.is_staged = True
        block.data = b""

    def _stage(self, block: _Block) -> None:
        self._connection.call(lambda: self._client.stage_block(block.id, block.data))

    def _complete(self, **arguments: Any) -> None:
        """Creates the blob, with these arguments of the client."""
        from azure.storage.blob import BlobBlock

        if self._blocks:
            blocks = [BlobBlock(block.id) for block in self._blocks]
            try:
                self._connection.call(lambda: self._client.commit_block_list(blocks, **arguments))
            except StoreRefused as error:
                if error.reason != "InvalidBlockList":
                    raise
                # Another writer has committed a blob of this name, which discards our blocks.
                raise FileLost(f"The blocks of '{self.path}' no longer exist: {error}") from error
        else:
            data = b"".join(self.held)
            self._connection.call(
                lambda: self._client.upload_blob(data, overwrite=True, **arguments)
            )

    def _complete_if(self, tag: str | None) -> bool:
        """Creates the blob if the existing one has this tag, or if there is none."""
        from azure.core import MatchConditions

        condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing}
        if tag is not None:
            condition = {"match_condition": MatchConditions.IfNotModified, "etag": tag}
        try:
            self._complete(metadata=_NAMES.of(self, self._writer), **condition)
        except StoreRefused as error:
            if error.reason in _EXISTS or (tag is not None and error.reason in _GONE):
                return False
            raise
        return True

    def _look(self) -> tuple[str, Mapping[str, str]] | None:
        try:
            properties = self._connection.call(lambda: self._client.get_blob_properties())
        except StoreRefused as error:
            if error.reason in _GONE:
                return None
            raise
        return str(properties.etag), properties.metadata or {}


def _block_id(writer: str, number: int) -> str:
    """Block ids of a blob have the same length, and are unique to their writer."""
    return f"{writer}{number:08}"


def connection(options: AzureOptions, threads: int) -> Connection:
    """The connection to a container; opens nothing. Its client is a ContainerClient."""
    make, errors = partial(_client, options), partial(_store_errors, options)
    return Connection(make, errors, threads=threads, name="azure-blocks", tries=options.tries)


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


@contextmanager
def _store_errors(options: AzureOptions) -> Iterator[None]:
    """Translates errors of the client into StoreUnavailable and StoreRefused."""
    from azure.core.exceptions import AzureError, HttpResponseError

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

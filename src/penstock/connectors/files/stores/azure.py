"""Blobs of a container of Azure Blob Storage.

Small blobs are put with one request. Of larger ones blocks are staged while they are written, by
threads of the store; the blob exists, in place of any other, when the list of its blocks is
committed. What a killed worker has staged goes away by itself after a week.

A blob that has to be `anew` says in its metadata who wrote it and where it ends, and is put, or its
list committed, on the condition that there is none (`If-None-Match`).
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
from penstock.connectors.files.stores.store import (
    FileExists,
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
_WRITER: Final = "penstock_writer"  # names of metadata are C#'s identifiers
_END: Final = "penstock_end_offset"
_BLOCKS_AHEAD: Final = 2  # blocks of a file that are staged at once, before its task waits
_TRANSIENT: Final = frozenset({408, 429})
_EXISTS: Final = frozenset({"BlobAlreadyExists", "ConditionNotMet", "409", "412"})
_BUSY: Final = frozenset({"ContainerBeingDeleted", "OperationTimedOut"})


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """How a container is reached."""

    account: str
    container: str
    url: str | None = None
    """The address of the account, where it is not Azure's own."""
    key: Secret | None = None
    sas: Secret | None = None
    proxy: str | None = None
    tries: Tries = field(default_factory=Tries)
    block_bytes: int = 26_214_400
    timeout_s: float = 30

    def checking(self) -> AzureOptions:
        """The same for a check that somebody waits for."""
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
        """How large blocks are: smaller where many blobs are open."""
        return max(min(self.options.block_bytes, self.budget.share), _SMALLEST_BLOCK)

    def check(self, path: str) -> None:
        """Raises what an upload to this name would: a block is staged, which is no blob and goes
        away by itself."""
        blob = self.connection.client.get_blob_client(path)
        self.connection.asked(lambda: blob.stage_block(_block_id(uuid4().hex, 0), b"\n"))

    def close(self) -> None:
        self.connection.close()


@dataclass(slots=True)
class _Block:
    id: str
    data: bytes  # until the store has it
    upload: Future[None] | None = None
    is_there: bool = False


class _Blob(BudgetedFile):
    """One blob."""

    def __init__(self, path: str, store: AzureStore) -> None:
        super().__init__(path, store.budget)
        self._store = store
        self._connection = store.connection
        self._blocks: list[_Block] = []
        self._is_there = False
        self._writer = uuid4().hex

    def settle(self) -> None:
        """Stages full blocks; waits where the store is slower than the task."""
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
        if self._is_there:
            return
        if self._blocks:
            if self.held_bytes:
                self._add_block(b"".join(self.held))
                self.hold(b"")
            for block in self._blocks:
                self._await(block)
        if not self.anew or not self._complete_anew():
            self._complete()
        self._is_there = True
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
        """Waits until the store has the block. Where the last try has failed there is another."""
        if block.is_there:
            return
        upload = block.upload or self._connection.pool.submit(self._stage, block)
        block.upload = None
        upload.result()
        block.is_there = True
        block.data = b""

    def _stage(self, block: _Block) -> None:
        self._connection.asked(lambda: self._client.stage_block(block.id, block.data))

    def _complete(self, metadata: Mapping[str, str] | None = None) -> None:
        """Has the blob exist; with metadata, if there is none of its name."""
        from azure.core import MatchConditions
        from azure.storage.blob import BlobBlock

        if self._blocks:
            blocks = [BlobBlock(block.id) for block in self._blocks]
            condition = {"match_condition": MatchConditions.IfMissing} if metadata else {}
            try:
                self._connection.asked(
                    lambda: self._client.commit_block_list(blocks, metadata=metadata, **condition)
                )
            except StoreRefused as error:
                if error.reason != "InvalidBlockList":
                    raise
                # Another writer has committed a blob of this name, and its blocks alone stay.
                raise FileLost(f"The blocks of '{self.path}' are gone: {error}") from error
        else:
            data = b"".join(self.held)
            self._connection.asked(
                lambda: self._client.upload_blob(data, metadata=metadata, overwrite=not metadata)
            )

    def _complete_anew(self) -> bool:
        """Has the blob exist if there is none; False if one is there that does not say where it
        ends. Raises FileExists."""
        try:
            self._complete({_WRITER: self._writer, _END: self.about["endOffset"]})
        except StoreRefused as error:
            if error.reason not in _EXISTS:
                raise
        else:
            return True
        about = self._connection.asked(lambda: self._client.get_blob_properties())
        found = about.metadata or {}
        if found.get(_WRITER) == self._writer:
            return True  # put before, and the answer was lost
        if _END in found:
            raise FileExists(self.path, int(found[_END]))
        log.warning("Replacing %s, which does not say where it ends", self.path)
        return False


def _block_id(writer: str, number: int) -> str:
    """All ids of blocks of a blob have the same length, and are nobody else's."""
    return f"{writer}{number:08}"


def connection(options: AzureOptions, threads: int) -> Connection:
    """The connection to a container; opens nothing. Its client is a ContainerClient."""
    make, words = partial(_client, options), partial(_told, options)
    return Connection(make, words, threads=threads, name="azure-blocks", tries=options.tries)


def _client(options: AzureOptions) -> Any:
    from azure.storage.blob import ContainerClient, LinearRetry

    about: dict[str, Any] = {}
    if options.proxy:
        about["proxies"] = {"http": options.proxy, "https": options.proxy}
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
        **about,
    )


@contextmanager
def _told(options: AzureOptions) -> Iterator[None]:
    """Tells what the client says in the words of a store."""
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

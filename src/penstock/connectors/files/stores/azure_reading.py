"""Reads blobs of a container of Azure Blob Storage. Paths are the names of blobs.

Blobs are read in blocks (`blocks`), each with a request that names the version (`If-Match`), so
that a blob replaced meanwhile is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from penstock.connectors.files.stores.azure import AzureOptions, connection
from penstock.connectors.files.stores.blocks import BLOCK, THREADS, BlockFile, fetched
from penstock.connectors.files.stores.reading import FileChanged, ListedFile, OpenFile, ReadStore
from penstock.connectors.files.stores.store import StoreRefused

_GONE: Final = frozenset({"BlobNotFound", "404"})
_REPLACED: Final = frozenset({"ConditionNotMet", "412"})
_IS_FOLDER: Final = "hdi_isfolder"  # in the metadata of blobs that represent folders


class AzureReadStore(ReadStore):
    """The blobs of a container."""

    def __init__(self, options: AzureOptions, block: int = BLOCK) -> None:
        self.options = options
        self.block = block
        self.connection = connection(options, THREADS)
        self._call = self.connection.call

    @property
    def client(self) -> Any:
        """The client of all threads."""
        return self.connection.client

    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[ListedFile]:
        for page in self._pages(prefix, recursive=recursive):
            for item in page:
                if hasattr(item, "etag") and item.name > after and _is_file(item):
                    yield _found(item)

    def folders(self, prefix: str) -> Iterator[str]:
        for page in self._pages(prefix, recursive=False):
            for item in page:
                if not hasattr(item, "etag"):
                    yield item.name

    def find(self, path: str) -> ListedFile | None:
        try:
            blob = self._call(lambda: self.client.get_blob_client(path).get_blob_properties())
        except StoreRefused as error:
            if error.reason in _GONE:
                return None
            raise
        return _found(blob)

    def open(self, found: ListedFile, start: int = 0, *, growing: bool = False) -> OpenFile:
        get, pool = partial(self._get, found), self.connection.pool
        return BlockFile(get, found.size, start, pool, self.block)

    def delete(self, found: ListedFile) -> None:
        blob = self.client.get_blob_client(found.path)
        try:
            self._call(lambda: blob.delete_blob(**_unchanged(found)))
        except StoreRefused as error:
            if error.reason not in _GONE | _REPLACED:
                raise

    def move(self, found: ListedFile, to: str) -> None:
        """Azure cannot rename blobs: copies the blob piece by piece, then deletes it."""
        from azure.storage.blob import BlobBlock

        try:
            source = self.open(found)
            target = self.client.get_blob_client(to)
            blocks: Sequence[Any] = ()
            while data := source.read(self.block):
                block = BlobBlock(f"{len(blocks):012}")
                self._call(partial(target.stage_block, block.id, data))
                blocks = (*blocks, block)
            self._call(partial(target.commit_block_list, [*blocks]))
        except FileChanged:
            return
        self.delete(found)

    def check(self, prefix: str) -> None:
        for page in self._pages(prefix, recursive=True, results_per_page=1):
            for blob in page:
                self.find(blob.name)
            return

    def close(self) -> None:
        self.connection.close()

    def _pages(self, prefix: str, *, recursive: bool, **about: Any) -> Iterator[Sequence[Any]]:
        token: str | None = None
        while True:

            def page(token: str | None = token) -> tuple[Sequence[Any], str | None]:
                if recursive:
                    listed = self.client.list_blobs(prefix, include=["metadata"], **about)
                else:
                    listed = self.client.walk_blobs(prefix, include=["metadata"], delimiter="/")
                pages = listed.by_page(token)
                items = [*next(pages, ())]
                return items, pages.continuation_token

            items, token = self._call(page)
            yield items
            if not token:
                return

    def _get(self, found: ListedFile, begin: int, end: int) -> bytes:
        blob = self.client.get_blob_client(found.path)
        arguments = {
            "offset": begin,
            "length": end - begin,
            "max_concurrency": 1,
            **_unchanged(found),
        }

        def request() -> bytes:
            data: bytes = self._call(lambda: blob.download_blob(**arguments).readall())
            return data

        return fetched(found, end - begin, request, gone=_GONE, replaced=_REPLACED)


def _is_file(blob: Any) -> bool:
    return not blob.name.endswith("/") and not (blob.metadata or {}).get(_IS_FOLDER)


def _unchanged(found: ListedFile) -> dict[str, Any]:
    """The condition that a blob is still the one that was found."""
    from azure.core import MatchConditions

    return {"etag": f'"{found.version}"', "match_condition": MatchConditions.IfNotModified}


def _found(blob: Any) -> ListedFile:
    modified_ms = int(blob.last_modified.timestamp() * 1000)
    return ListedFile(blob.name, int(blob.size), modified_ms, blob.etag.strip('"'))

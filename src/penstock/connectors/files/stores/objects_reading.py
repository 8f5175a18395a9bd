"""Reads objects of a store. Paths are the names of objects.

Objects are read in blocks (`blocks`), each with a request that names the version, so that an object
replaced meanwhile is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from penstock.connectors.files.stores.blocks import BLOCK, BlockFile, fetched
from penstock.connectors.files.stores.objects import ObjectClient, Page
from penstock.connectors.files.stores.reading import ListedFile, OpenFile, ReadStore
from penstock.connectors.files.stores.store import StoreRefused


class ObjectReadStore(ReadStore):
    """The objects of a bucket or container."""

    def __init__(self, client: ObjectClient, block: int = BLOCK) -> None:
        self.client = client
        self.block = block

    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[ListedFile]:
        for page in self._pages(prefix, after, recursive=recursive):
            for found in page.files:
                if found.path > after and not found.path.endswith("/"):  # consoles' folders
                    yield found

    def folders(self, prefix: str) -> Iterator[str]:
        for page in self._pages(prefix, "", recursive=False):
            yield from page.folders

    def find(self, path: str) -> ListedFile | None:
        try:
            stored = self.client.call(lambda: self.client.head(path))
        except StoreRefused as error:
            if error.reason in self.client.gone:
                return None
            raise
        return None if stored is None else stored.file

    def open(self, found: ListedFile, start: int = 0, *, growing: bool = False) -> OpenFile:
        return BlockFile(partial(self._get, found), found.size, start, self.client.pool, self.block)

    def check(self, prefix: str) -> None:
        first = next(self.list(prefix), None)
        if first is not None:
            self.find(first.path)

    def close(self) -> None:
        self.client.close()

    def _pages(self, prefix: str, after: str, *, recursive: bool) -> Iterator[Page]:
        request = partial(self.client.page, prefix, after, recursive=recursive)
        token: str | None = None
        while True:
            page = self.client.call(partial(request, token))
            yield page
            token = page.next
            if token is None:
                return

    def _get(self, found: ListedFile, begin: int, end: int) -> bytes:
        client = self.client
        request = partial(client.call, partial(client.get, found, begin, end))
        return fetched(found, end - begin, request, gone=client.gone, replaced=client.changed)

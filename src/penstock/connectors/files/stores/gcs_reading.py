"""Reads objects of a bucket of Google Cloud Storage. Paths are the names of objects.

Objects are read in blocks (`blocks`), each with a request that names the generation, so that an
object replaced meanwhile is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from penstock.connectors.files.stores.blocks import BLOCK, THREADS, BlockFile, fetched
from penstock.connectors.files.stores.gcs import GcsOptions, connection
from penstock.connectors.files.stores.reading import ListedFile, OpenFile, ReadStore
from penstock.connectors.files.stores.store import StoreRefused

_GONE: Final = "404"
_REPLACED: Final = "412"


class GcsReadStore(ReadStore):
    """The objects of a bucket."""

    def __init__(self, options: GcsOptions, block: int = BLOCK) -> None:
        self.options = options
        self.block = block
        self.connection = connection(options, THREADS)
        self._common: dict[str, Any] = {"retry": None, "timeout": options.timeout_s}

    @property
    def bucket(self) -> Any:
        """The bucket, shared by all threads; creating it sends no request."""
        return self.connection.client.bucket(self.options.bucket)

    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[ListedFile]:
        arguments = {"start_offset": after} if after else {}
        arguments |= {} if recursive else {"delimiter": "/"}
        for page in self._pages(prefix, arguments):
            for blob in page:
                if blob.name > after and not blob.name.endswith("/"):
                    yield _found(blob)

    def folders(self, prefix: str) -> Iterator[str]:
        for page in self._pages(prefix, {"delimiter": "/"}):
            yield from sorted(page.prefixes)

    def find(self, path: str) -> ListedFile | None:
        blob = self.connection.call(lambda: self.bucket.get_blob(path, **self._common))
        return None if blob is None else _found(blob)

    def open(self, found: ListedFile, start: int = 0, *, growing: bool = False) -> OpenFile:
        get, pool = partial(self._get, found), self.connection.pool
        return BlockFile(get, found.size, start, pool, self.block)

    def delete(self, found: ListedFile) -> None:
        generation = int(found.version)
        self._if_unchanged(
            lambda: self.bucket.blob(found.path).delete(
                if_generation_match=generation, **self._common
            )
        )

    def move(self, found: ListedFile, to: str) -> None:
        generation = int(found.version)

        def copy() -> None:
            source, token = self.bucket.blob(found.path), None
            while True:
                token, _, _ = self.bucket.blob(to).rewrite(
                    source, token=token, if_source_generation_match=generation, **self._common
                )
                if token is None:
                    return

        if self._if_unchanged(copy):
            self.delete(found)

    def check(self, prefix: str) -> None:
        page = self.connection.call(lambda: [*self._listing(prefix, {"max_results": 1})])
        for blob in page:
            self.find(blob.name)

    def close(self) -> None:
        self.connection.close()

    def _listing(self, prefix: str, arguments: dict[str, Any]) -> Any:
        fields = "prefixes,nextPageToken,items(name,size,updated,generation)"
        return self.bucket.client.list_blobs(
            self.options.bucket, prefix=prefix, fields=fields, **arguments, **self._common
        )

    def _pages(self, prefix: str, arguments: dict[str, Any]) -> Iterator[Any]:
        token = None
        while True:

            def page(token: str | None = token) -> tuple[Any, str | None]:
                listing = self._listing(prefix, {**arguments, "page_token": token})
                return next(listing.pages, None), listing.next_page_token

            blobs, token = self.connection.call(page)
            if blobs is not None:
                yield blobs
            if token is None:
                return

    def _get(self, found: ListedFile, begin: int, end: int) -> bytes:
        blob = self.bucket.blob(found.path)

        def request() -> bytes:
            data: bytes = self.connection.call(
                lambda: blob.download_as_bytes(
                    start=begin,
                    end=end - 1,
                    raw_download=True,
                    if_generation_match=int(found.version),
                    checksum=None,
                    **self._common,
                )
            )
            return data

        return fetched(found, end - begin, request, gone={_GONE}, replaced={_REPLACED})

    def _if_unchanged(self, request: Callable[[], None]) -> bool:
        """Whether the request succeeded: its object exists, and is still the one that was found."""
        try:
            self.connection.call(request)
        except StoreRefused as error:
            if error.reason in (_GONE, _REPLACED):
                return False
            raise
        return True


def _found(blob: Any) -> ListedFile:
    modified_ms = int(blob.updated.timestamp() * 1000)
    return ListedFile(blob.name, int(blob.size), modified_ms, str(blob.generation))

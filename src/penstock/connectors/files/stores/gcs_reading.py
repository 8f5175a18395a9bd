"""Objects of a bucket of Google Cloud Storage, read. Paths are the names of objects.

Objects are read in blocks (`blocks`), each with a request that names the generation, so that an
object which is replaced meanwhile is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from penstock.connectors.files.stores.blocks import BLOCK, THREADS, BlockFile, fetched
from penstock.connectors.files.stores.gcs import GcsOptions, connection
from penstock.connectors.files.stores.reading import Found, OpenFile, ReadStore
from penstock.connectors.files.stores.store import StoreRefused

_GONE: Final = "404"
_REPLACED: Final = "412"


class GcsReadStore(ReadStore):
    """The objects of a bucket."""

    def __init__(self, options: GcsOptions, block: int = BLOCK) -> None:
        self.options = options
        self.block = block
        self.connection = connection(options, THREADS)
        self._about: dict[str, Any] = {"retry": None, "timeout": options.timeout_s}

    @property
    def bucket(self) -> Any:
        """The bucket, for all threads; nothing is asked of it when it is made."""
        return self.connection.client.bucket(self.options.bucket)

    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[Found]:
        about = {"start_offset": after} if after else {}
        about |= {} if recursive else {"delimiter": "/"}
        for page in self._pages(prefix, about):
            for each in page:
                if each.name > after and not each.name.endswith("/"):
                    yield _found(each)

    def folders(self, prefix: str) -> Iterator[str]:
        for page in self._pages(prefix, {"delimiter": "/"}):
            yield from sorted(page.prefixes)

    def find(self, path: str) -> Found | None:
        blob = self.connection.asked(lambda: self.bucket.get_blob(path, **self._about))
        return None if blob is None else _found(blob)

    def open(self, found: Found, start: int = 0, *, growing: bool = False) -> OpenFile:
        get, pool = partial(self._get, found), self.connection.pool
        return BlockFile(get, found.size, start, pool, self.block)

    def delete(self, found: Found) -> None:
        generation = int(found.version)
        self._if_there(
            lambda: self.bucket.blob(found.path).delete(
                if_generation_match=generation, **self._about
            )
        )

    def move(self, found: Found, to: str) -> None:
        generation = int(found.version)

        def copy() -> None:
            source, token = self.bucket.blob(found.path), None
            while True:
                token, _, _ = self.bucket.blob(to).rewrite(
                    source, token=token, if_source_generation_match=generation, **self._about
                )
                if token is None:
                    return

        if self._if_there(copy):
            self.delete(found)

    def check(self, prefix: str) -> None:
        page = self.connection.asked(lambda: [*self._listed(prefix, {"max_results": 1})])
        for each in page:
            self.find(each.name)

    def close(self) -> None:
        self.connection.close()

    def _listed(self, prefix: str, about: dict[str, Any]) -> Any:
        fields = "prefixes,nextPageToken,items(name,size,updated,generation)"
        return self.bucket.client.list_blobs(
            self.options.bucket, prefix=prefix, fields=fields, **about, **self._about
        )

    def _pages(self, prefix: str, about: dict[str, Any]) -> Iterator[Any]:
        token = None
        while True:

            def page(token: str | None = token) -> tuple[Any, str | None]:
                listed = self._listed(prefix, {**about, "page_token": token})
                return next(listed.pages, None), listed.next_page_token

            found, token = self.connection.asked(page)
            if found is not None:
                yield found
            if token is None:
                return

    def _get(self, found: Found, begin: int, end: int) -> bytes:
        blob = self.bucket.blob(found.path)

        def request() -> bytes:
            data: bytes = self.connection.asked(
                lambda: blob.download_as_bytes(
                    start=begin,
                    end=end - 1,
                    raw_download=True,
                    if_generation_match=int(found.version),
                    checksum=None,
                    **self._about,
                )
            )
            return data

        return fetched(found, end - begin, request, gone={_GONE}, replaced={_REPLACED})

    def _if_there(self, request: Callable[[], None]) -> bool:
        """Whether a request was done: its object is there, and still the one that was found."""
        try:
            self.connection.asked(request)
        except StoreRefused as error:
            if error.reason in (_GONE, _REPLACED):
                return False
            raise
        return True


def _found(blob: Any) -> Found:
    modified = int(blob.updated.timestamp() * 1000)
    return Found(blob.name, int(blob.size), modified, str(blob.generation))

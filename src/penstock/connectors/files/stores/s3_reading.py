"""Objects of a bucket, read. Paths are the keys of objects.

Objects are read in blocks of a fixed size, each with a request that names the version (`If-Match`),
so that an object which is replaced meanwhile is noticed. The block after the present one is fetched
while that is decoded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from penstock.connectors.files.stores.reading import FileChanged, Found, OpenFile, ReadStore
from penstock.connectors.files.stores.s3 import Refused, S3Options, client_of, told

_BLOCK: Final = 4 << 20
_HELD: Final = 3
"""Blocks of a file that are held: the present one, one that is fetched, and one before for formats
that go back."""
_THREADS: Final = 4
_GONE: Final = frozenset({"NoSuchKey", "404"})
_REPLACED: Final = frozenset({"PreconditionFailed", "412"})


class S3ReadStore(ReadStore):
    """The objects of a bucket."""

    def __init__(self, options: S3Options, block: int = _BLOCK) -> None:
        self.options = options
        self.block = block
        self._made: Any = None
        self._making = threading.Lock()
        self.pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="s3-blocks")

    @property
    def client(self) -> Any:
        """The client of all threads; made when it is first needed."""
        with self._making:
            if self._made is None:
                with told(self.options):
                    self._made = client_of(self.options)
            return self._made

    @property
    def key(self) -> dict[str, str]:
        """The arguments of requests for objects that are encrypted with a key of ours."""
        extra = self.options.extra
        return {name: value for name, value in extra.items() if name.startswith("SSECustomer")}

    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[Found]:
        about = {"StartAfter": after} if after else {}
        about |= {} if recursive else {"Delimiter": "/"}
        for page in self._pages(prefix, about):
            for each in page.get("Contents", ()):
                if not each["Key"].endswith("/"):  # what consoles make for a folder
                    yield _listed(each)

    def folders(self, prefix: str) -> Iterator[str]:
        for page in self._pages(prefix, {"Delimiter": "/"}):
            for each in page.get("CommonPrefixes", ()):
                yield each["Prefix"]

    def find(self, path: str) -> Found | None:
        try:
            with told(self.options):
                head = self.client.head_object(Bucket=self.options.bucket, Key=path, **self.key)
        except Refused as error:
            if error.s3_code in _GONE:
                return None
            raise
        modified = int(head["LastModified"].timestamp() * 1000)
        return Found(path, head["ContentLength"], modified, head["ETag"].strip('"'))

    def open(self, found: Found, start: int = 0, *, growing: bool = False) -> OpenFile:
        return _Object(self, found, start)

    def delete(self, found: Found) -> None:
        if self._is_there(found):
            with told(self.options):
                self.client.delete_object(Bucket=self.options.bucket, Key=found.path)

    def move(self, found: Found, to: str) -> None:
        if not self._is_there(found):
            return
        options = self.options
        copied = {f"CopySource{name}": value for name, value in self.key.items()}
        with told(options):
            source = {"Bucket": options.bucket, "Key": found.path}
            extra = {**options.extra, **copied}
            self.client.copy(source, options.bucket, to, ExtraArgs=extra)
            self.client.delete_object(Bucket=options.bucket, Key=found.path)

    def check(self, prefix: str) -> None:
        bucket = self.options.bucket
        with told(self.options):
            page = self.client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
            for each in page.get("Contents", ()):
                self.client.head_object(Bucket=bucket, Key=each["Key"], **self.key)

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
        if self._made is not None:
            self._made.close()
            self._made = None

    def _pages(self, prefix: str, about: dict[str, str]) -> Iterator[dict[str, Any]]:
        while True:
            with told(self.options):
                page = self.client.list_objects_v2(
                    Bucket=self.options.bucket, Prefix=prefix, **about
                )
            yield page
            if not page.get("IsTruncated"):
                return
            about = {**about, "ContinuationToken": page["NextContinuationToken"]}

    def _is_there(self, found: Found) -> bool:
        present = self.find(found.path)
        return present is not None and present.version == found.version


def _listed(about: dict[str, Any]) -> Found:
    modified = int(about["LastModified"].timestamp() * 1000)
    return Found(about["Key"], about["Size"], modified, about["ETag"].strip('"'))


class _Object(OpenFile):
    def __init__(self, store: S3ReadStore, found: Found, start: int) -> None:
        self._store = store
        self._found = found
        self._at = start
        self._last = -1
        self._blocks: OrderedDict[int, Future[bytes]] = OrderedDict()
        self.size = found.size

    def read(self, n: int = -1) -> bytes:
        end = self.size if n < 0 else min(self._at + n, self.size)
        pieces: list[bytes] = []
        while self._at < end:
            number, begin = divmod(self._at, self._store.block)
            data = self._block(number)
            piece = data[begin : begin + end - self._at] if begin or len(data) > end else data
            pieces.append(piece)
            self._at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def seek(self, position: int) -> int:
        self._at = position
        return position

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        for block in self._blocks.values():
            block.cancel()
        self._blocks.clear()

    def _block(self, number: int) -> bytes:
        block = self._blocks.get(number) or self._fetch(number)
        self._blocks.move_to_end(number)
        follows = (number + 1) * self._store.block < self.size
        if follows and number in (self._last, self._last + 1) and number + 1 not in self._blocks:
            self._fetch(number + 1)
        self._last = number
        try:
            return block.result()
        except BaseException:
            del self._blocks[number]
            raise

    def _fetch(self, number: int) -> Future[bytes]:
        block = self._blocks[number] = self._store.pool.submit(self._get, number)
        while len(self._blocks) > _HELD:
            self._blocks.popitem(last=False)[1].cancel()
        return block

    def _get(self, number: int) -> bytes:
        store, found = self._store, self._found
        begin = number * store.block
        end = min(begin + store.block, self.size)
        about = {"IfMatch": f'"{found.version}"'} if found.version else {}
        try:
            with told(store.options):
                answer = store.client.get_object(
                    Bucket=store.options.bucket,
                    Key=found.path,
                    Range=f"bytes={begin}-{end - 1}",
                    **about,
                    **store.key,
                )
                data: bytes = answer["Body"].read()
        except Refused as error:
            if error.s3_code in _GONE:
                raise FileChanged(found.path, "was removed") from error
            if error.s3_code in _REPLACED:
                raise FileChanged(found.path, "was replaced") from error
            raise
        if len(data) != end - begin:
            raise FileChanged(found.path, f"has {len(data)} instead of {end - begin} bytes there")
        return data

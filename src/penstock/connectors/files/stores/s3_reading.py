"""Objects of a bucket, read. Paths are the keys of objects.

Objects are read in blocks (`blocks`), each with a request that names the version (`If-Match`), so
that an object which is replaced meanwhile is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from penstock.connectors.files.stores.blocks import BLOCK, THREADS, BlockFile, fetched
from penstock.connectors.files.stores.reading import Found, OpenFile, ReadStore
from penstock.connectors.files.stores.s3 import S3Options, connection, told
from penstock.connectors.files.stores.store import StoreRefused

_GONE: Final = frozenset({"NoSuchKey", "404"})
_REPLACED: Final = frozenset({"PreconditionFailed", "412"})


class S3ReadStore(ReadStore):
    """The objects of a bucket."""

    def __init__(self, options: S3Options, block: int = BLOCK) -> None:
        self.options = options
        self.block = block
        self.connection = connection(options, THREADS)

    @property
    def client(self) -> Any:
        """The client of all threads."""
        return self.connection.client

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
        except StoreRefused as error:
            if error.reason in _GONE:
                return None
            raise
        modified = int(head["LastModified"].timestamp() * 1000)
        return Found(path, head["ContentLength"], modified, head["ETag"].strip('"'))

    def open(self, found: Found, start: int = 0, *, growing: bool = False) -> OpenFile:
        get, pool = partial(self._get, found), self.connection.pool
        return BlockFile(get, found.size, start, pool, self.block)

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
        self.connection.close()

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

    def _get(self, found: Found, begin: int, end: int) -> bytes:
        about = {"IfMatch": f'"{found.version}"'} if found.version else {}

        def request() -> bytes:
            with told(self.options):
                answer = self.client.get_object(
                    Bucket=self.options.bucket,
                    Key=found.path,
                    Range=f"bytes={begin}-{end - 1}",
                    **about,
                    **self.key,
                )
                data: bytes = answer["Body"].read()
                return data

        return fetched(found, end - begin, request, gone=_GONE, replaced=_REPLACED)

    def _is_there(self, found: Found) -> bool:
        present = self.find(found.path)
        return present is not None and present.version == found.version


def _listed(about: dict[str, Any]) -> Found:
    modified = int(about["LastModified"].timestamp() * 1000)
    return Found(about["Key"], about["Size"], modified, about["ETag"].strip('"'))

"""Reads objects of a bucket. Paths are the keys of objects.

Objects are read in blocks (`blocks`), each with a request that names the version (`If-Match`), so
that an object replaced meanwhile is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from penstock.connectors.files.stores.blocks import BLOCK, THREADS, BlockFile, fetched
from penstock.connectors.files.stores.reading import ListedFile, OpenFile, ReadStore
from penstock.connectors.files.stores.s3 import S3Options, connection, store_errors
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
        """Arguments of requests for objects that are encrypted with a customer key."""
        extra = self.options.extra
        return {name: value for name, value in extra.items() if name.startswith("SSECustomer")}

    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[ListedFile]:
        arguments = {"StartAfter": after} if after else {}
        arguments |= {} if recursive else {"Delimiter": "/"}
        for page in self._pages(prefix, arguments):
            for item in page.get("Contents", ()):
                if not item["Key"].endswith("/"):  # consoles create such objects for folders
                    yield _found(item)

    def folders(self, prefix: str) -> Iterator[str]:
        for page in self._pages(prefix, {"Delimiter": "/"}):
            for folder in page.get("CommonPrefixes", ()):
                yield folder["Prefix"]

    def find(self, path: str) -> ListedFile | None:
        try:
            with store_errors(self.options):
                head = self.client.head_object(Bucket=self.options.bucket, Key=path, **self.key)
        except StoreRefused as error:
            if error.reason in _GONE:
                return None
            raise
        modified_ms = int(head["LastModified"].timestamp() * 1000)
        return ListedFile(path, head["ContentLength"], modified_ms, head["ETag"].strip('"'))

    def open(self, found: ListedFile, start: int = 0, *, growing: bool = False) -> OpenFile:
        get, pool = partial(self._get, found), self.connection.pool
        return BlockFile(get, found.size, start, pool, self.block)

    def delete(self, found: ListedFile) -> None:
        if self._is_unchanged(found):
            with store_errors(self.options):
                self.client.delete_object(Bucket=self.options.bucket, Key=found.path)

    def move(self, found: ListedFile, to: str) -> None:
        if not self._is_unchanged(found):
            return
        options = self.options
        source_key = {f"CopySource{name}": value for name, value in self.key.items()}
        with store_errors(options):
            source = {"Bucket": options.bucket, "Key": found.path}
            extra = {**options.extra, **source_key}
            self.client.copy(source, options.bucket, to, ExtraArgs=extra)
            self.client.delete_object(Bucket=options.bucket, Key=found.path)

    def check(self, prefix: str) -> None:
        bucket = self.options.bucket
        with store_errors(self.options):
            page = self.client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
            for item in page.get("Contents", ()):
                self.client.head_object(Bucket=bucket, Key=item["Key"], **self.key)

    def close(self) -> None:
        self.connection.close()

    def _pages(self, prefix: str, arguments: dict[str, str]) -> Iterator[dict[str, Any]]:
        while True:
            with store_errors(self.options):
                page = self.client.list_objects_v2(
                    Bucket=self.options.bucket, Prefix=prefix, **arguments
                )
            yield page
            if not page.get("IsTruncated"):
                return
            arguments = {**arguments, "ContinuationToken": page["NextContinuationToken"]}

    def _get(self, found: ListedFile, begin: int, end: int) -> bytes:
        condition = {"IfMatch": f'"{found.version}"'} if found.version else {}

        def request() -> bytes:
            with store_errors(self.options):
                response = self.client.get_object(
                    Bucket=self.options.bucket,
                    Key=found.path,
                    Range=f"bytes={begin}-{end - 1}",
                    **condition,
                    **self.key,
                )
                data: bytes = response["Body"].read()
                return data

        return fetched(found, end - begin, request, gone=_GONE, replaced=_REPLACED)

    def _is_unchanged(self, found: ListedFile) -> bool:
        current = self.find(found.path)
        return current is not None and current.version == found.version


def _found(item: dict[str, Any]) -> ListedFile:
    modified_ms = int(item["LastModified"].timestamp() * 1000)
    return ListedFile(item["Key"], item["Size"], modified_ms, item["ETag"].strip('"'))

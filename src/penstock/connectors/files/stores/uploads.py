"""Writes objects of a store.

Small objects are put with one request. The store's threads upload parts of larger ones while they
are written; the object exists when the upload is completed. A killed worker leaves an incomplete
upload, which the vendor, or the bucket's lifecycle rules, remove.

An object with `create_only` is stored on the condition that no such object exists, or that it is
still the one that may be replaced; see `existing`. Most stores know conditions for small objects
only: there, one that is uploaded in parts replaces an existing object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final
from uuid import uuid4

from penstock.connectors.files.stores.aside import Aside
from penstock.connectors.files.stores.budget import Budget, BudgetedFile
from penstock.connectors.files.stores.existing import put
from penstock.connectors.files.stores.objects import Condition, ObjectClient, Part, Upload
from penstock.connectors.files.stores.store import NewFile, Store, StoreRefused

_HELD_BESIDE: Final = 96 << 20  # in memory by all objects, if others wait in files
_SMALLEST_ASIDE: Final = 256 << 10
_PARTS_AHEAD: Final = 2  # parts of an object that are uploaded at once before its task waits


class ObjectStore(Store):
    """The objects of a bucket or container."""

    def __init__(self, client: ObjectClient) -> None:
        self.client = client
        self.budget = Budget()

    def create(self, path: str) -> NewFile:
        return _Object(path, self)

    @property
    def part_bytes(self) -> int:
        """The size of parts: smaller if many objects are open, but at least the store's minimum."""
        client = self.client
        size = max(min(client.part_bytes, self.budget.share), client.smallest_part)
        return size - size % client.part_unit

    @property
    def aside_bytes(self) -> int | None:
        """The size from which an open object keeps its bytes in a file, because the parts of all
        open objects do not fit into memory; None: they do."""
        if self.budget.share >= self.client.smallest_part:
            return None
        return max(_HELD_BESIDE // self.budget.files, _SMALLEST_ASIDE)

    def check(self, path: str) -> None:
        """Raises what an upload to this name would."""
        self.client.call(lambda: self.client.try_upload(path))

    def close(self) -> None:
        self.client.close()


@dataclass(slots=True)
class _Sending:
    """A part that is not uploaded yet."""

    part: Part
    sent: Future[None] | None = None


class _Object(BudgetedFile):
    def __init__(self, path: str, store: ObjectStore) -> None:
        super().__init__(path, store.budget)
        self._store = store
        self._client = store.client
        self._upload: Upload | None = None
        self._sending: deque[_Sending] = deque()
        self._parts = 0
        self._cut = 0  # bytes in parts
        self._is_stored = False
        self._is_labelled = False
        self._writer = uuid4().hex
        self._aside = Aside()

    def settle(self) -> None:
        """Uploads full parts; waits if the store is slower than the task."""
        part_bytes = self._store.part_bytes
        if self._aside.size + self.held_bytes >= part_bytes:
            if self._upload is None:
                self._upload = self._client.call(lambda: self._client.begin(self.path))
            data = self._take()
            full = len(data) - len(data) % part_bytes
            for start in range(0, full, part_bytes):
                self._add_part(data[start : start + part_bytes])
            self.hold(data[full:])
        elif self._needs_file() and self._aside.add(self.held):
            self.hold(b"")
        if self._upload is not None and self._sending:
            self._send(self._upload, _PARTS_AHEAD)

    def commit(self) -> None:
        self.is_written()
        if not self._is_stored:
            if self._upload is None:
                self._put()
            else:
                self._complete(self._upload)
            self._is_stored = True
            self.hold(b"")
        if not self._is_labelled:
            self._client.call(lambda: self._client.label(self.path, self.about))
            self._is_labelled = True

    def drop(self) -> None:
        self.is_written()
        self.held = []
        self._aside.taken()
        begun = [each.sent for each in self._sending if each.sent and not each.sent.cancel()]
        self._sending.clear()
        if self._upload is not None and not self._is_stored:
            if self._upload.remains:
                for sent in begun:
                    sent.exception()  # waits for it
            with suppress(Exception):
                self._upload.abort()

    def _put(self) -> None:
        data = self._take()
        self.hold(data)  # for a retry
        put_once = partial(self._client.put, self.path, data, self.about)
        if self.create_only:
            self._store_if(put_once)
        else:
            self._client.call(put_once)
        self._is_labelled = True

    def _complete(self, upload: Upload) -> None:
        if self._aside.size or self.held_bytes:
            self._add_part(self._take(), is_last=True)
        self._send(upload, 0)
        if self.create_only and upload.conditional:
            self._store_if(upload.complete)
        else:
            self._client.call(upload.complete)

    def _store_if(self, create: Callable[[Condition], None]) -> None:
        """Creates the object, unless it keeps the existing one."""
        client = self._client

        def create_if(version: str | None) -> bool:
            condition = Condition(version, client.names.of(self, self._writer))
            try:
                client.call(lambda: create(condition))
            except StoreRefused as error:
                is_gone = version is not None and error.reason in client.gone
                if is_gone or error.reason in client.exists:
                    return False
                raise
            return True

        put(self, self._writer, client.names, create_if, self._look)

    def _look(self) -> tuple[str, Mapping[str, str]] | None:
        """The version and the metadata of the existing object."""
        try:
            stored = self._client.call(lambda: self._client.head(self.path))
        except StoreRefused as error:
            if error.reason in self._client.gone:
                return None
            raise
        return None if stored is None else (stored.file.version, stored.metadata)

    def _needs_file(self) -> bool:
        limit = self._store.aside_bytes
        return limit is not None and self.held_bytes >= limit

    def _take(self) -> bytes:
        """Removes and returns the bytes that are in no part yet."""
        data = b"".join((self._aside.taken(), *self.held))
        self.hold(b"")
        return data

    def _add_part(self, data: bytes, *, is_last: bool = False) -> None:
        self._sending.append(_Sending(Part(self._parts, self._cut, data, is_last)))
        self._parts += 1
        self._cut += len(data)

    def _send(self, upload: Upload, ahead: int) -> None:
        """Sends parts; waits until at most `ahead` of them are not uploaded. Sends those again that
        failed before."""
        at_once = 1 if self._client.in_order else len(self._sending)
        while self._sending:
            for each in islice(self._sending, at_once):
                if each.sent is None:
                    request = partial(upload.send, each.part)
                    each.sent = self._client.pool.submit(self._client.call, request)
            first = self._sending[0]
            assert first.sent is not None, "it was submitted above"
            if len(self._sending) <= ahead and not first.sent.done():
                return
            sent, first.sent = first.sent, None
            sent.result()
            self._sending.popleft()

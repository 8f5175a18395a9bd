"""A file that is read in blocks of a fixed size, each by a request of its own. The block after the
present one is fetched while that is decoded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from penstock.connectors.files.stores.reading import FileChanged, Found, OpenFile
from penstock.connectors.files.stores.store import StoreRefused

BLOCK: Final = 4 << 20
"""Bytes of a block, where nothing else is said."""
THREADS: Final = 4
"""Those of a store that fetch blocks."""
_HELD: Final = 3
"""Blocks of a file that are held: the present one, one that is fetched, and one before for formats
that go back."""

Fetch = Callable[[int, int], bytes]
"""The bytes from one place up to another, and no others; raises what `OpenFile.read` does."""


def fetched(
    found: Found,
    size: int,
    request: Callable[[], bytes],
    *,
    gone: Container[str],
    replaced: Container[str],
) -> bytes:
    """What a request for `size` bytes of a file gives. Raises FileChanged if the store refuses it
    for a reason in `gone` or `replaced`, or gives more or less."""
    try:
        data = request()
    except StoreRefused as error:
        if error.reason in gone:
            raise FileChanged(found.path, "was removed") from error
        if error.reason in replaced:
            raise FileChanged(found.path, "was replaced") from error
        raise
    if len(data) != size:
        raise FileChanged(found.path, f"has {len(data)} instead of {size} bytes there")
    return data


class BlockFile(OpenFile):
    """A file of a store that has requests for ranges."""

    def __init__(
        self, fetch: Fetch, size: int, start: int, pool: ThreadPoolExecutor, block: int = BLOCK
    ) -> None:
        self._fetch = fetch
        self._pool = pool
        self._block_bytes = block
        self._at = start
        self._last = -1
        self._blocks: OrderedDict[int, Future[bytes]] = OrderedDict()
        self.size = size

    def read(self, n: int = -1) -> bytes:
        end = self.size if n < 0 else min(self._at + n, self.size)
        pieces: list[bytes] = []
        while self._at < end:
            number, begin = divmod(self._at, self._block_bytes)
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
        block = self._blocks.get(number) or self._begin(number)
        self._blocks.move_to_end(number)
        follows = (number + 1) * self._block_bytes < self.size
        if follows and number in (self._last, self._last + 1) and number + 1 not in self._blocks:
            self._begin(number + 1)
        self._last = number
        try:
            return block.result()
        except BaseException:
            del self._blocks[number]
            raise

    def _begin(self, number: int) -> Future[bytes]:
        begin = number * self._block_bytes
        end = min(begin + self._block_bytes, self.size)
        block = self._blocks[number] = self._pool.submit(self._fetch, begin, end)
        while len(self._blocks) > _HELD:
            self._blocks.popitem(last=False)[1].cancel()
        return block

"""A file that is read in blocks of a fixed size, each with its own request. The next block is
fetched while the current one is decoded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from penstock.connectors.files.stores.reading import FileChanged, ListedFile, OpenFile
from penstock.connectors.files.stores.store import StoreRefused

BLOCK: Final = 4 << 20
"""Default size of a block in bytes."""
_HELD: Final = 3
"""Blocks of a file in memory: the current one, the next one, and the previous one for formats that
seek backwards."""

Fetch = Callable[[int, int], bytes]
"""Exactly the bytes from one position up to another; raises what `OpenFile.read` does."""


def fetched(
    found: ListedFile,
    size: int,
    request: Callable[[], bytes],
    *,
    gone: Container[str],
    replaced: Container[str],
) -> bytes:
    """Returns the result of a request for `size` bytes of a file. Raises FileChanged if the store
    refuses it for a reason in `gone` or `replaced`, or returns more or fewer bytes."""
    try:
        data = request()
    except StoreRefused as error:
        if error.reason in gone:
            raise FileChanged(found.path, "was removed") from error
        if error.reason in replaced:
            raise FileChanged(found.path, "was replaced") from error
        raise
    if len(data) != size:
        raise FileChanged(found.path, f"returned {len(data)} instead of {size} bytes")
    return data


class BlockFile(OpenFile):
    """A file of a store that supports range requests."""

    def __init__(
        self, fetch: Fetch, size: int, start: int, pool: ThreadPoolExecutor, block: int = BLOCK
    ) -> None:
        self._fetch = fetch
        self._pool = pool
        self._block_bytes = block
        self._position = start
        self._last_number = -1
        self._blocks: OrderedDict[int, Future[bytes]] = OrderedDict()
        self.size = size

    def read(self, n: int = -1) -> bytes:
        end = self.size if n < 0 else min(self._position + n, self.size)
        pieces: list[bytes] = []
        while self._position < end:
            number, begin = divmod(self._position, self._block_bytes)
            data = self._block(number)
            piece = data[begin : begin + end - self._position]
            pieces.append(piece)
            self._position += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def seek(self, position: int) -> int:
        self._position = position
        return position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        for block in self._blocks.values():
            block.cancel()
        self._blocks.clear()

    def _block(self, number: int) -> bytes:
        block = self._blocks.get(number) or self._begin(number)
        self._blocks.move_to_end(number)
        follows = (number + 1) * self._block_bytes < self.size
        if (
            follows
            and number in (self._last_number, self._last_number + 1)
            and number + 1 not in self._blocks
        ):
            self._begin(number + 1)
        self._last_number = number
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

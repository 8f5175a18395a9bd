"""Files read in blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.files.stores.blocks import BlockFile

CONTENT = bytes(range(50))


@given(
    block=st.integers(1, 60),
    reads=st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 60)), max_size=8),
)
def test_a_read_returns_what_a_file_would(block: int, reads: list[tuple[int, int]]) -> None:
    with ThreadPoolExecutor(1) as pool:
        file = BlockFile(lambda start, end: CONTENT[start:end], len(CONTENT), 0, pool, block)
        for position, n in reads:
            file.seek(position)
            end = None if n < 0 else position + n
            assert file.read(n) == CONTENT[position:end]
            assert file.tell() == min(len(CONTENT), position + n if n >= 0 else len(CONTENT))

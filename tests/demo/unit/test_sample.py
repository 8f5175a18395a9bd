import hashlib
import tracemalloc
from itertools import islice

from penstock.demo.lines import LINE_LIMIT, digest
from penstock.demo.sample import (
    KINDS,
    LONG_BYTES,
    LONG_EVERY,
    ODD,
    SAMPLE_LINES,
    WORDS,
    sample_blocks,
    sample_lines,
)


def test_the_sample_is_the_same_on_every_machine() -> None:
    text = "\n".join(sample_lines(10_000)).encode()
    assert hashlib.sha256(text).hexdigest() == (
        "f7a75c2f36b0d7426ac3a9818ced6c25152a11681adb33e6872918e118f1617b"
    )


def test_another_seed_makes_another_sample() -> None:
    assert list(sample_lines(50, seed=1)) != list(sample_lines(50, seed=2))


def test_a_longer_sample_begins_like_a_shorter_one() -> None:
    assert list(sample_lines(5_000)) == list(islice(sample_lines(20_000), 5_000))


def test_blocks_hold_the_lines_each_with_its_end() -> None:
    lines = list(sample_lines(12_345))
    assert b"".join(sample_blocks(12_345)).decode().split("\n") == [*lines, ""]


def test_the_sample_holds_what_it_promises() -> None:
    found = digest(sample_blocks(), limit=LINE_LIMIT)  # refuses a line too long for Kafka
    assert found.lines == SAMPLE_LINES >= 100_000
    assert found.plain
    assert found.tail == 0


def test_every_kind_of_line_and_every_script_turns_up_early() -> None:
    lines = list(sample_lines(20_000))
    text = "\n".join(lines)
    assert "" in lines
    assert set(ODD) <= set(lines)
    for words in WORDS.values():
        assert all(word in text for word in words)
    assert sum(weight for _, weight in KINDS.values()) == 1_000


def test_some_lines_are_very_long_and_none_has_an_end_inside() -> None:
    lines = list(sample_lines(2 * LONG_EVERY))
    sizes = sorted(len(line.encode()) for line in lines)
    assert [size >= LONG_BYTES for size in sizes[-3:]] == [False, True, True]
    assert sizes[-1] < LINE_LIMIT
    assert not any("\n" in line or "\r" in line for line in lines)


def test_making_the_sample_takes_little_memory() -> None:
    tracemalloc.start()
    size = sum(map(len, sample_blocks(120_000)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 10_000_000
    assert most < 7_000_000

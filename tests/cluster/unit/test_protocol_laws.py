"""Laws of the group protocol's bytes."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.protocol import (
    NO_WORK,
    Assignment,
    GroupBytesMalformed,
    MemberMetadata,
    Work,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from penstock.ids import TaskId

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
offsets = st.integers(-1, 2**63 - 1)


def grouped(pairs: list[tuple[str, list[int]]]) -> Work:
    """Work in the order of decoding: one group of tasks per connector."""
    return Work(
        tuple(name for name, numbers in pairs if -1 in numbers),
        tuple(TaskId(name, number) for name, numbers in pairs for number in numbers if number >= 0),
    )


pairs = st.lists(
    st.tuples(names, st.lists(st.integers(-1, 2**31 - 1), min_size=1, max_size=4, unique=True)),
    max_size=4,
    unique_by=lambda pair: pair[0],
)
# Assigned connectors are encoded before those of which only tasks are assigned.
works = pairs.map(lambda p: sorted(p, key=lambda pair: -1 not in pair[1])).map(grouped)
assignments = st.builds(
    Assignment, names, names, offsets, works, works, st.integers(0, 2**31 - 1), st.integers(0, 1)
)
eager_assignments = st.builds(
    Assignment, names, names, offsets, works, st.just(NO_WORK), st.just(0), st.integers(0, 1)
)
cooperative = st.integers(1, 2)


@given(assignments, cooperative)
def test_an_assignment_reads_back_as_it_was_written(assignment: Assignment, version: int) -> None:
    assert decode_assignment(encode_assignment(assignment, version)) == assignment


@given(eager_assignments)
def test_an_eager_assignment_reads_back_as_it_was_written(assignment: Assignment) -> None:
    assert decode_assignment(encode_assignment(assignment, 0)) == assignment


@given(st.builds(MemberMetadata, names, offsets, st.none() | assignments), cooperative)
def test_metadata_reads_back_as_it_was_written(metadata: MemberMetadata, version: int) -> None:
    assert decode_metadata(encode_metadata(metadata, version)) == metadata


@given(assignments, cooperative, st.data())
def test_cut_off_bytes_are_either_tolerated_or_named_malformed(
    assignment: Assignment, version: int, data: st.DataObject
) -> None:
    written = encode_assignment(assignment, version)
    cut = written[: data.draw(st.integers(0, len(written)))]
    with suppress(GroupBytesMalformed):
        decode_assignment(cut)


@given(st.binary(max_size=80))
def test_any_bytes_are_either_read_or_named_malformed(data: bytes) -> None:
    for decode in (decode_assignment, decode_metadata):
        with suppress(GroupBytesMalformed):
            decode(data)

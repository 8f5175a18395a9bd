"""Files are a function of the records: restarting at a cut produces the same files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.api.schema import INT32, INT64, struct
from penstock.connectors.files.boundaries.schemas import Compatibility
from penstock.connectors.files.boundaries.spans import (
    EMPTY,
    Add,
    Cut,
    Rows,
    Rules,
    Schemas,
    advance,
)

SCHEMAS: list[Schemas] = [
    (struct({"id": INT32}, version=1), None),
    (struct({"id": INT64}, version=2), None),
    (struct({"id": INT64}, version=3), INT32),
    (None, None),
]


@dataclass(frozen=True)
class Record:
    offset: int
    folder: str
    time: int
    schemas: Schemas
    tombstone: bool


@st.composite
def topics(draw: st.DrawFn) -> list[Record]:
    """Records of a topic partition; offsets have gaps."""
    offset, records = draw(st.integers(0, 5)), []
    varied = draw(st.booleans())
    for _ in range(draw(st.integers(0, 60))):
        records.append(
            Record(
                offset,
                draw(st.sampled_from("abc")) if varied else "a",
                draw(st.integers(-20, 200)),
                draw(st.sampled_from(SCHEMAS)) if varied else SCHEMAS[0],
                draw(st.integers(0, 9)) == 0 if varied else False,
            )
        )
        offset += draw(st.sampled_from([1, 1, 1, 2, 7]))
    return records


rules = st.builds(
    Rules,
    flush_size=st.integers(1, 20),
    interval_ms=st.none() | st.integers(1, 100),
    cut_on_folder=st.booleans(),
    max_files=st.none() | st.integers(1, 3),
    compatibility=st.sampled_from(Compatibility),
)
sizes = st.lists(st.integers(1, 25), min_size=1)


@dataclass
class Outcome:
    """The visible result: complete files by name, and the cuts that completed them."""

    files: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    written: list[int] = field(default_factory=list)


def written(rules: Rules, records: Sequence[Record], sizes: Sequence[int]) -> Outcome:
    """The outcome of records that arrive in batches of these sizes."""
    outcome, span = Outcome(), EMPTY
    pending: dict[tuple[str, int], list[int]] = {}
    start, turn = 0, 0
    while start < len(records):
        batch = records[start : start + sizes[turn % len(sizes)]]
        start += len(batch)
        turn += 1
        span, actions, refused = advance(rules, span, rows_of(batch), now=0)
        outcome.refused |= {batch[row].offset for row in refused}
        for action in actions:
            match action:
                case Add(file, rows):
                    offsets = [batch[row].offset for row in rows]
                    pending.setdefault((file.folder, file.start), []).extend(offsets)
                    outcome.written += offsets
                case Cut(offset):
                    assert not outcome.files.keys() & pending.keys(), "a file is written twice"
                    outcome.files |= pending
                    pending = {}
                    outcome.cuts.append(offset)
    assert {(each.folder, each.start) for each in span.files.values()} == pending.keys()
    assert span.count == sum(map(len, pending.values()))
    return outcome


def rows_of(batch: Sequence[Record]) -> Rows:
    folders = [each.folder for each in batch]
    kinds = [each.tombstone for each in batch]
    runs: list[tuple[int, Schemas]] = []
    for row, each in enumerate(batch):
        if runs and runs[-1][1] is each.schemas:
            runs.pop()
        runs.append((row + 1, each.schemas))
    return Rows(
        [each.offset for each in batch],
        folders[0] if len(set(folders)) == 1 else folders,
        runs,
        [each.time for each in batch],
        kinds[0] if len(set(kinds)) == 1 else kinds,
    )


@given(rules, topics(), sizes)
def test_every_record_is_in_one_file_in_order_or_refused(
    rules: Rules, records: list[Record], sizes: list[int]
) -> None:
    outcome = written(rules, records, sizes)
    assert sorted([*outcome.written, *outcome.refused]) == [each.offset for each in records]
    for (_, start), offsets in outcome.files.items():
        assert offsets == sorted(offsets)
        assert offsets[0] == start
    assert outcome.cuts == sorted(outcome.cuts)
    # Complete files contain exactly the records before the last cut.
    complete = sorted(offset for offsets in outcome.files.values() for offset in offsets)
    last = outcome.cuts[-1] if outcome.cuts else 0
    assert complete == sorted(offset for offset in outcome.written if offset < last)


@given(rules, topics(), sizes, sizes)
def test_files_do_not_depend_on_how_records_come(
    rules: Rules, records: list[Record], sizes: list[int], others: list[int]
) -> None:
    one, other = written(rules, records, sizes), written(rules, records, others)
    assert (one.files, one.cuts, one.refused) == (other.files, other.cuts, other.refused)


@given(rules, topics(), sizes, sizes, st.data())
def test_whoever_starts_again_at_a_cut_makes_the_same_files(
    rules: Rules, records: list[Record], sizes: list[int], others: list[int], data: st.DataObject
) -> None:
    whole = written(rules, records, sizes)
    cut = data.draw(st.sampled_from([0, *whole.cuts]))
    again = written(rules, [each for each in records if each.offset >= cut], others)
    assert again.files == {
        name: offsets for name, offsets in whole.files.items() if offsets[0] >= cut
    }
    assert again.cuts == [each for each in whole.cuts if each > cut]

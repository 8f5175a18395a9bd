"""Which conflicts of versions are repetitions."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.api import TopicPartition
from penstock.connectors.search.write import conflicts as module
from penstock.connectors.search.write.actions import Action
from penstock.connectors.search.write.conflicts import PATIENCE, Conflict, Conflicts
from penstock.testing.conformance import records_of

PLACE = TopicPartition("conformance", 0)
KEYS = st.lists(st.sampled_from("abc"), min_size=1, max_size=20)


def deliver(
    conflicts: Conflicts, keys: list[str], versions: dict[str, int], cuts: set[int]
) -> list[int]:
    """Delivers a partition, divided at `cuts`, to documents with these versions; checks that no
    offset is committed past an undecided conflict. The offsets of the decided conflicts."""
    decided: list[int] = []
    starts = sorted({0, *cuts})
    for start, stop in zip(starts, [*starts[1:], len(keys)], strict=True):
        batch = records_of([1] * (stop - start), keys=keys[start:stop], first=start)
        actions = [
            Action(row, key, b"", is_ordered=False, is_versioned=True)
            for row, key in enumerate(keys[start:stop])
        ]
        conflicts.follow(batch, actions)
        # As the writer does: only the last record of a document in what is pending can conflict.
        last = {key: offset for offset, key in enumerate(keys[:stop]) if offset >= start}
        for key, offset in last.items():
            version = versions.get(key, -1)
            if version <= offset:
                versions[key] = offset
                continue
            conflict = Conflict(PLACE, key, version, batch.ref(offset - start), "conflict")
            if version < stop:
                conflicts.decide(conflict)
            else:
                conflicts.add(conflict)
        while (taken := conflicts.take_decided()) is not None:
            decided.append(taken.record.offset)
            conflicts.done()
        assert conflicts.held({PLACE: stop})[PLACE] <= stop
    return decided


@given(keys=KEYS, stored=st.integers(0, 20), cuts=st.sets(st.integers(0, 19)))
def test_a_document_of_an_earlier_run_is_never_a_conflict(
    keys: list[str], stored: int, cuts: set[int]
) -> None:
    versions = {key: offset for offset, key in enumerate(keys[:stored])}
    conflicts = Conflicts()
    assert deliver(conflicts, keys, versions, {cut for cut in cuts if cut < len(keys)}) == []
    assert not conflicts
    assert conflicts.skipped == []
    assert conflicts.held({PLACE: len(keys)}) == {PLACE: len(keys)}


@example(keys=list("abcbc"), version=3, cuts={1, 2, 3, 4})
@given(keys=KEYS, version=st.integers(0, 40), cuts=st.sets(st.integers(0, 19)))
def test_a_version_that_no_record_of_the_partition_has_is_a_conflict(
    keys: list[str], version: int, cuts: set[int]
) -> None:
    keys = [key if offset != version else "x" for offset, key in enumerate(keys)]
    older = [offset for offset, key in enumerate(keys) if key == "a" and offset < version]
    later = [offset for offset, key in enumerate(keys) if key == "a" and offset > version]
    conflicts = Conflicts()
    decided = deliver(conflicts, keys, {"a": version}, {cut for cut in cuts if cut < len(keys)})
    for _ in range(PATIENCE + 1):
        conflicts.tick()
    taken = conflicts.take_decided()
    decided += [taken.record.offset] if taken is not None else []
    if older and not later:
        assert decided == [older[-1]]  # its predecessors are overwritten by it anyway
    else:
        assert set(decided) <= {*older[-1:]}  # a later record may have come first


def test_the_oldest_conflict_is_skipped_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MAX", 3)
    conflicts = Conflicts()
    batch = records_of([1] * 5, keys="abcde")
    for row, key in enumerate("abcde"):
        conflicts.add(Conflict(PLACE, key, 90, batch.ref(row), "conflict"))
    assert [each.id for each in conflicts.skipped] == ["a", "b"]
    assert conflicts.held({PLACE: 5}) == {PLACE: 2}
    conflicts.forget(frozenset({PLACE}))
    assert not conflicts

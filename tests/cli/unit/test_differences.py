"""Differences between configurations, as laws."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.differences import changes, unified

CONFIGS = st.dictionaries(
    st.sampled_from(["a", "b", "c.password", "d"]),
    st.none() | st.sampled_from(["", "1", "2", "two\nlines"]),
)


@given(CONFIGS, CONFIGS)
def test_making_the_changes_makes_the_other_one(
    stored: dict[str, str | None], wanted: dict[str, str | None]
) -> None:
    made = dict(stored)
    for change in changes(stored, wanted):
        if change.removed:
            del made[change.key]
        else:
            made[change.key] = change.new
    assert made == wanted


@given(CONFIGS, CONFIGS)
def test_there_are_lines_just_when_something_differs(
    stored: dict[str, str | None], wanted: dict[str, str | None]
) -> None:
    lines = unified(changes(stored, wanted), "old", "new", show_secrets=False)
    assert bool(lines) == (stored != wanted)
    keys = {line[1:].split("=")[0] for line, _ in lines[2:] if not line[1:].startswith("  ")}
    assert keys == {
        key
        for key in {*stored, *wanted}
        if (key in stored, stored.get(key)) != (key in wanted, wanted.get(key))
    }

"""When a connector is in the wanted state, and what is reported until then."""

from __future__ import annotations

import pytest

from penstock.cli.states import InstanceState, missing


def parts(text: str) -> list[InstanceState]:
    """The states of a connector and its tasks, as words."""
    return [
        InstanceState("c", number - 1 if number else None, state, "w", "")
        for number, state in enumerate(text.split())
    ]


@pytest.mark.parametrize(
    ("states", "wanted", "tasks", "lacks"),
    [
        ("", "RUNNING", None, "it has no status yet"),
        ("RUNNING", "RUNNING", None, "it has no tasks yet"),
        ("RUNNING", "RUNNING", 0, ""),
        ("RUNNING RUNNING", "RUNNING", None, ""),
        ("RUNNING RUNNING", "RUNNING", 2, "it has 1 tasks, not 2"),
        ("RUNNING RUNNING UNASSIGNED", "RUNNING", None, "task 1 is UNASSIGNED"),
        ("UNASSIGNED RUNNING", "RUNNING", None, "the connector is UNASSIGNED"),
        ("PAUSED", "PAUSED", None, ""),
        ("PAUSED RUNNING", "PAUSED", None, "task 0 is RUNNING"),
        ("STOPPED", "STOPPED", None, ""),
        ("STOPPED UNASSIGNED", "STOPPED", None, "1 of its tasks are left"),
        ("RUNNING FAILED", "FAILED", None, ""),
        ("RUNNING RUNNING", "FAILED", None, "nothing has failed"),
    ],
)
def test_a_state_that_is_not_reached_yet_is_explained(
    states: str, wanted: str, tasks: int | None, lacks: str
) -> None:
    assert missing(parts(states), wanted, tasks) == lacks

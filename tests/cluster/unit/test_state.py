"""Every rule of how the config topic is read (kafka-connect.md §4.3)."""

from __future__ import annotations

from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    SkippedRecord,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskFencing,
)
from penstock.cluster.state import NO_CHANGES, Changes, ClusterState, fold, fold_all
from penstock.ids import TaskId

CONFIG = ConnectorConfig("c", {"name": "c"})


def read(*records: ConfigRecord | SkippedRecord) -> tuple[ClusterState, Changes]:
    return fold_all(ClusterState(), enumerate(records))


def tasks(*numbers: int, connector: str = "c", value: str = "1") -> list[ConfigRecord]:
    return [TaskConfig(TaskId(connector, number), {"v": value}) for number in numbers]


def ids(*numbers: int) -> tuple[TaskId, ...]:
    return tuple(TaskId("c", number) for number in numbers)


def test_nothing_read_is_offset_minus_one() -> None:
    assert ClusterState().offset == -1


def test_the_offset_is_that_of_the_next_record_and_counts_skipped_ones() -> None:
    state, changes = fold(ClusterState(), 41, SkippedRecord("unknown key"))
    assert (state.offset, changes) == (42, NO_CHANGES)


def test_an_unreadable_record_does_not_move_the_offset() -> None:
    state, _ = fold_all(
        ClusterState(), [(3, CONFIG), (4, SkippedRecord("not JSON", unreadable=True))]
    )
    assert state.offset == 4


def test_a_connector_config_is_applied_at_once_and_started() -> None:
    state, changes = read(CONFIG)
    assert state.connectors() == ("c",)
    assert state.config("c") == {"name": "c"}
    assert state.target("c") is Target.STARTED
    assert state.tasks("c") == ()
    assert changes == Changes(added=frozenset({"c"}))
    assert changes.need_rebalance


def test_a_second_config_is_an_update_that_needs_no_rebalance() -> None:
    state, _ = read(CONFIG)
    state, changes = fold(state, 1, ConnectorConfig("c", {"name": "c", "x": "1"}))
    assert changes == Changes(updated=frozenset({"c"}))
    assert not changes.need_rebalance
    assert state.config("c") == {"name": "c", "x": "1"}


def test_a_target_state_written_before_the_config_is_kept() -> None:
    state, changes = read(TargetState("c", Target.STOPPED), CONFIG)
    assert state.target("c") is Target.STOPPED
    assert changes.targets == frozenset()


def test_a_target_state_is_reported_when_it_changed_and_the_connector_exists() -> None:
    state, _ = read(CONFIG)
    state, changes = fold(state, 1, TargetState("c", Target.PAUSED))
    assert changes == Changes(targets=frozenset({"c"}))
    assert not changes.need_rebalance
    state, changes = fold(state, 2, TargetState("c", Target.PAUSED))
    assert changes == NO_CHANGES
    _, changes = fold(state, 3, TargetState("other", Target.PAUSED))
    assert changes == NO_CHANGES


def test_forgetting_the_target_state_of_an_existing_connector_starts_it() -> None:
    state, _ = read(TargetState("c", Target.PAUSED), CONFIG, TargetState("c", None))
    assert state.target("c") is Target.STARTED


def test_task_configs_wait_for_their_commit() -> None:
    state, changes = read(CONFIG, *tasks(0, 1))
    assert state.tasks("c") == ()
    assert state.task_config(TaskId("c", 0)) is None
    assert changes.tasks == frozenset()
    state, changes = fold(state, 3, TaskCommit("c", 2))
    assert state.tasks("c") == ids(0, 1)
    assert state.task_configs("c") == ({"v": "1"}, {"v": "1"})
    assert state.generation("c") == 0
    assert state.applied_connector_config("c") == {"name": "c"}
    assert state.pending_fencing == {"c"}
    assert changes == Changes(committed=frozenset({"c"}), tasks=frozenset(ids(0, 1)))
    assert changes.need_rebalance


def test_a_commit_with_holes_makes_the_connector_inconsistent() -> None:
    state, changes = read(CONFIG, *tasks(0, 2), TaskCommit("c", 3))
    assert state.inconsistent == {"c"}
    assert state.tasks("c") == ()
    assert state.task_count("c") == 3
    assert state.task_config(TaskId("c", 0)) is None
    assert state.generation("c") is None
    assert state.applied_connector_config("c") is None
    assert state.pending_fencing == {"c"}
    assert changes.committed == {"c"}
    assert changes.tasks == frozenset()


def test_a_commit_with_holes_forgets_what_waited() -> None:
    state, _ = read(CONFIG, *tasks(0), TaskCommit("c", 2), *tasks(1), TaskCommit("c", 2))
    assert state.inconsistent == {"c"}


def test_a_full_set_heals_an_inconsistent_connector() -> None:
    state, _ = read(CONFIG, *tasks(1), TaskCommit("c", 2), *tasks(0, 1), TaskCommit("c", 2))
    assert state.inconsistent == frozenset()
    assert state.tasks("c") == ids(0, 1)
    assert state.generation("c") == 0


def test_a_commit_applies_everything_that_waited_also_beyond_its_count() -> None:
    state, changes = read(CONFIG, *tasks(0, 1, 2), TaskCommit("c", 1))
    assert state.tasks("c") == ids(0)
    assert state.task_config(TaskId("c", 2)) == {"v": "1"}
    assert changes.tasks == frozenset(ids(0, 1, 2))


def test_an_unfinished_set_is_superseded_by_the_next_full_one() -> None:
    state, _ = read(
        CONFIG, *tasks(0, 1), TaskCommit("c", 2), *tasks(0, value="2"), *tasks(0, 1, value="3")
    )
    assert state.task_configs("c") == ({"v": "1"}, {"v": "1"})
    state, _ = fold(state, 9, TaskCommit("c", 2))
    assert state.task_configs("c") == ({"v": "3"}, {"v": "3"})
    assert state.generation("c") == 1


def test_an_empty_commit_stops_all_tasks_and_keeps_the_generation() -> None:
    state, changes = read(CONFIG, *tasks(0), TaskCommit("c", 1), TaskCommit("c", 0))
    assert state.tasks("c") == ()
    assert state.inconsistent == frozenset()
    assert state.generation("c") == 0
    assert changes.committed == {"c"}


def test_an_applied_connector_config_is_the_one_of_the_commit() -> None:
    newer = ConnectorConfig("c", {"name": "c", "x": "2"})
    state, _ = read(CONFIG, *tasks(0), TaskCommit("c", 1), newer)
    assert state.applied_connector_config("c") == {"name": "c"}
    state, _ = fold_all(state, enumerate([*tasks(0), TaskCommit("c", 1)], start=4))
    assert state.applied_connector_config("c") == {"name": "c", "x": "2"}


def test_a_commit_without_a_connector_config_is_ignored() -> None:
    state, changes = read(*tasks(0), TaskCommit("c", 1), CONFIG)
    assert state.tasks("c") == ()
    assert state.task_count("c") == 0
    assert state.generation("c") is None
    assert state.pending_fencing == frozenset()
    assert changes == Changes(added=frozenset({"c"}))


def test_deletion_forgets_configs_and_keeps_target_generation_and_fencing() -> None:
    state, _ = read(
        TargetState("c", Target.PAUSED),
        CONFIG,
        *tasks(0),
        TaskCommit("c", 1),
        TaskFencing("c", 1),
        *tasks(0),
    )
    state, changes = fold(state, 6, ConnectorConfig("c", None))
    assert changes == Changes(removed=frozenset({"c"}))
    assert changes.need_rebalance
    assert state.connectors() == ()
    assert not state.contains("c")
    assert state.tasks("c") == ()
    assert state.task_config(TaskId("c", 0)) is None
    assert state.applied_connector_config("c") is None
    assert state.target("c") is Target.PAUSED
    assert state.generation("c") == 0
    assert state.fencing_count("c") == 1
    state, _ = fold(state, 7, TargetState("c", None))
    assert state.target("c") is None


def test_deletion_drops_task_configs_that_wait() -> None:
    state, _ = read(
        CONFIG, *tasks(0), ConnectorConfig("c", None), CONFIG, *tasks(1), TaskCommit("c", 2)
    )
    assert state.inconsistent == {"c"}


def test_deleting_what_is_not_there_tells_nobody() -> None:
    state, changes = read(ConnectorConfig("c", None))
    assert changes == NO_CHANGES
    assert state == ClusterState(offset=1)


def test_a_connector_deleted_and_created_again_is_reported_as_both() -> None:
    state, _ = read(CONFIG)
    _, changes = fold_all(state, [(1, ConnectorConfig("c", None)), (2, CONFIG)])
    assert changes == Changes(added=frozenset({"c"}), removed=frozenset({"c"}))


def test_fencing_is_pending_from_a_commit_to_the_next_count() -> None:
    state, _ = read(CONFIG, *tasks(0), TaskCommit("c", 1), TaskFencing("c", 1))
    assert state.pending_fencing == frozenset()
    assert state.fencing_count("c") == 1
    state, _ = fold(state, 4, TaskCommit("c", 0))
    assert state.pending_fencing == {"c"}


def test_events_are_changes_in_their_order_and_leave_no_trace() -> None:
    restarts = (RestartRequest("c", True, False), RestartRequest("c", False, True))
    level = LoggerLevel("root", "DEBUG")
    state, changes = read(restarts[0], level, restarts[1])
    assert changes == Changes(restarts=restarts, logger_levels=(level,))
    assert state == ClusterState(offset=3)


def test_the_last_session_key_is_kept() -> None:
    keys = [SessionKey(bytes([n]), "HmacSHA256", n) for n in range(2)]
    state, changes = read(*keys)
    assert state.session_key == changes.session_key == keys[1]


def test_a_fold_leaves_the_state_before_it_alone() -> None:
    before, _ = read(CONFIG, *tasks(0), TaskCommit("c", 1), *tasks(1))
    copy, _ = read(CONFIG, *tasks(0), TaskCommit("c", 1), *tasks(1))
    fold_all(before, enumerate([*tasks(0, 2), TaskCommit("c", 1), CONFIG], start=4))
    assert before == copy

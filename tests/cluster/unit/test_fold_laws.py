"""Laws of folding the config and the status topic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorStatus,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    SkippedRecord,
    State,
    Status,
    StatusRecord,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskFencing,
    TaskStatus,
    TopicStatus,
    TopicUse,
)
from penstock.cluster.state import NO_CHANGES, ClusterState, fold, fold_all
from penstock.cluster.statuses import StatusState, fold_status, fold_statuses
from penstock.ids import TaskId

names = st.sampled_from(["a", "b", "c"])
numbers = st.integers(0, 3)
properties = st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2)
configs: st.SearchStrategy[ConfigRecord | SkippedRecord] = st.one_of(
    st.builds(ConnectorConfig, names, st.none() | properties),
    st.builds(TaskConfig, st.builds(TaskId, names, numbers), properties),
    st.builds(TaskCommit, names, numbers),
    st.builds(TargetState, names, st.none() | st.sampled_from(Target)),
    st.builds(TaskFencing, names, numbers),
    st.builds(SessionKey, st.binary(max_size=2), st.just("HmacSHA256"), numbers),
    st.builds(RestartRequest, names, st.booleans(), st.booleans()),
    st.builds(LoggerLevel, names, names),
    st.builds(SkippedRecord, st.just("why"), st.booleans()),
)
config_logs = st.lists(configs, max_size=40)

statuses = st.none() | st.builds(
    Status, st.sampled_from(State), st.sampled_from(["w1", "w2"]), numbers
)
status_records: st.SearchStrategy[StatusRecord | SkippedRecord] = st.one_of(
    st.builds(ConnectorStatus, names, statuses),
    st.builds(TaskStatus, st.builds(TaskId, names, numbers), statuses),
    st.builds(TopicStatus, names, names, st.none() | st.builds(TopicUse, numbers, numbers)),
    st.builds(SkippedRecord, st.just("why")),
)


@given(config_logs, st.integers(0, 40))
def test_folding_in_two_pieces_equals_folding_at_once(
    log: list[ConfigRecord | SkippedRecord], cut: int
) -> None:
    records = list(enumerate(log))
    whole, all_changes = fold_all(ClusterState(), records)
    first, changes = fold_all(ClusterState(), records[:cut])
    second, later = fold_all(first, records[cut:])
    assert second == whole
    assert changes.then(later) == all_changes


@given(config_logs)
def test_folding_one_by_one_equals_folding_at_once(log: list[ConfigRecord | SkippedRecord]) -> None:
    state, changes = ClusterState(), NO_CHANGES
    for offset, record in enumerate(log):
        state, more = fold(state, offset, record)
        changes = changes.then(more)
    assert (state, changes) == fold_all(ClusterState(), enumerate(log))


@given(config_logs)
def test_every_connector_has_a_target_and_every_task_a_config(
    log: list[ConfigRecord | SkippedRecord],
) -> None:
    state, _ = fold_all(ClusterState(), enumerate(log))
    for connector in state.connectors():
        assert state.target(connector) is not None
        for task in state.tasks(connector):
            assert state.task_config(task) is not None


@given(st.lists(status_records, max_size=40), st.integers(0, 40))
def test_folding_statuses_in_pieces_equals_folding_at_once(
    log: list[StatusRecord | SkippedRecord], cut: int
) -> None:
    whole = fold_statuses(StatusState(), log)
    assert fold_statuses(fold_statuses(StatusState(), log[:cut]), log[cut:]) == whole
    state = StatusState()
    for record in log:
        state = fold_status(state, record)
    assert state == whole

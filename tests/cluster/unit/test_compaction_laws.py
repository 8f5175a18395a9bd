"""Laws of reading a compacted config topic, which misses some of the written records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    SessionKey,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskFencing,
    decode_config,
    encode_config,
)
from penstock.cluster.state import ClusterState, fold_all
from penstock.ids import TaskId
from tests.cluster.simulated.topics import ConfigTopic, Truth, differences

names = st.sampled_from(["a", "b"])
properties = st.dictionaries(st.just("v"), st.sampled_from("123"), min_size=1)


@st.composite
def task_sets(draw: st.DrawFn) -> list[ConfigRecord]:
    """A task set as leaders write it; sometimes the leader dies before the commit."""
    name, count = draw(names), draw(st.integers(0, 3))
    tasks = [TaskConfig(TaskId(name, number), draw(properties)) for number in range(count)]
    written = draw(st.integers(0, count)) if draw(st.integers(0, 3)) == 0 else count + 1
    return [*tasks, TaskCommit(name, count)][:written]


single = st.one_of(
    st.builds(ConnectorConfig, names, properties),
    st.builds(ConnectorConfig, names, st.none()),
    st.builds(TargetState, names, st.none() | st.sampled_from(Target)),
    st.builds(TaskCommit, names, st.integers(0, 3)),
    st.builds(TaskFencing, names, st.integers(0, 3)),
    st.builds(SessionKey, st.binary(max_size=2), st.just("HmacSHA256"), st.integers(0, 9)),
).map(lambda record: [record])
histories = st.lists(single | task_sets(), max_size=14).map(
    lambda groups: [record for group in groups for record in group]
)


def read(topic: ConfigTopic) -> ClusterState:
    rows = topic.read(0, len(topic))
    return fold_all(ClusterState(), [(at, decode_config(key, value)) for at, key, value in rows])[0]


def written(records: list[ConfigRecord]) -> ConfigTopic:
    topic = ConfigTopic()
    for record in records:
        topic.append([encode_config(record)])
    return topic


def compared(topic: ConfigTopic, state: ClusterState, *, whole: bool) -> list[str]:
    truth = topic.truth(topic.offset) or Truth(ClusterState(), frozenset())
    return differences(truth, state, frozenset({"a", "b"}), whole=whole)


@given(histories)
def test_whoever_reads_everything_sees_the_truth(records: list[ConfigRecord]) -> None:
    topic = written(records)
    assert compared(topic, read(topic), whole=True) == []


@given(histories, st.dictionaries(st.integers(0, 40), st.floats(0, 1)), st.booleans())
def test_compaction_takes_away_only_what_is_said_to_be_lost(
    records: list[ConfigRecord], compactions: dict[int, float], forgotten: bool
) -> None:
    topic = ConfigTopic()
    for at, record in enumerate(records):
        topic.append([encode_config(record)])
        if at in compactions:
            topic.compact(round(compactions[at] * len(topic)), len(topic) if forgotten else 0)
    topic.compact(len(topic), 0)
    state = read(topic)
    assert state.offset == topic.offset
    assert compared(topic, state, whole=False) == []


@given(histories, st.integers(0, 40))
def test_a_worker_that_was_there_before_continues_reading_after_compaction(
    records: list[ConfigRecord], start: int
) -> None:
    topic = written(records)
    position = min(start, len(topic))
    before = [(at, decode_config(key, value)) for at, key, value in topic.read(0, position)]
    state, _ = fold_all(ClusterState(), before)
    topic.compact(len(topic), position)  # compaction keeps the tombstones that it has not read yet
    after = topic.read(position, len(topic))
    state, _ = fold_all(state, [(at, decode_config(key, value)) for at, key, value in after])
    assert state.offset == topic.offset
    assert compared(topic, state, whole=False) == []


@given(histories)
def test_compacting_again_takes_away_nothing_but_tombstones(records: list[ConfigRecord]) -> None:
    topic = written(records)
    topic.compact(len(topic), 0)
    once = topic.read(0, len(topic))
    topic.compact(len(topic), 0)
    assert topic.read(0, len(topic)) == once
    topic.compact(len(topic), len(topic))
    kept = topic.read(0, len(topic))
    assert kept == [row for row in once[:-1] if row[2] is not None] + once[-1:]

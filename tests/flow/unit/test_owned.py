"""The partitions of a sink task, in every order of what may happen to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.stage.events import Position
from penstock.flow.stage.owned import Owned
from penstock.ids import TopicPartition

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


@dataclass
class Model:
    """A table, with what its consumer and its writer know."""

    owned: Owned = field(default_factory=Owned)
    epoch: int = 0
    written: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The epoch that the consumer reads with, and the offset of its next record."""
    flushed: dict[TopicPartition, int] = field(default_factory=dict)
    """What the writer has stored since the last assignment or seek."""
    reported: dict[TopicPartition, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    certain: bool = True

    def assign(self, at: TopicPartition, offset: int) -> None:
        self.epoch += 1
        self.owned.assign({at: Position(self.epoch, offset)})
        self._start(at, offset)
        self.reported.pop(at, None)

    def _start(self, at: TopicPartition, offset: int) -> None:
        self.written[at] = self.epoch, offset
        self.flushed[at] = -1
        self.committed[at] = -1

    def forget(self, at: TopicPartition, _: int) -> None:
        self.owned.forget([at])
        self.written.pop(at, None)

    def reach(self, at: TopicPartition, count: int) -> None:
        if at in self.written:
            epoch, offset = self.written[at]
            self.written[at] = epoch, offset + count
            self.owned.reach(at, epoch, offset + count)

    def reach_late(self, at: TopicPartition, count: int) -> None:
        """A write of an earlier epoch ends."""
        before = self.owned.due([at])
        self.owned.reach(at, self.epoch + 100, count)
        assert self.owned.due([at]) == before

    def flush(self, at: TopicPartition, less: int) -> None:
        reached = self.owned.reached([at])
        offered = {at: offset - less for at, offset in reached.items()}
        assert self.owned.grant(offered) is self.certain
        if self.certain:
            self.flushed |= offered

    def report(self, at: TopicPartition, back: int) -> None:
        if at in self.written:
            offset = max(0, self.written[at][1] - 1 - back)
            self.owned.bar(at, offset)
            self.reported[at] = min(offset, self.reported.get(at, offset))
            self.certain = False

    def seek(self, at: TopicPartition, offset: int) -> None:
        """The writer requests another position, and the consumer goes there."""
        self.owned.request_seek({at: offset})
        ticket, rows = self.owned.leave()
        assert set(rows) == {at} & set(self.written)
        assert not self.owned.due([at]), "nothing that was read before counts"
        self.epoch += 1
        for sought in rows:
            self.owned.arrive(ticket - 1, {sought: Position(self.epoch, 999)})  # an earlier one
            self.owned.arrive(ticket, {sought: Position(self.epoch, offset)})
            self._start(sought, offset)

    def commit(self, at: TopicPartition, _: int) -> None:
        due = self.owned.due([at])
        self.owned.commit(due)
        self.committed |= due

    def check(self) -> None:
        assert self.owned.partitions == set(self.written)
        assert dict(self.owned.positions) == {at: end for at, (_, end) in self.written.items()}
        for at, offset in self.owned.due([AT, OTHER]).items():
            assert offset <= self.flushed[at], "not stored"
            assert offset > self.committed[at], "committed already"
            assert offset <= self.reported.get(at, offset), "after a record that was reported"


moves = st.lists(
    st.tuples(
        st.sampled_from(
            ["assign", "forget", "reach", "reach_late", "flush", "report", "seek", "commit"]
        ),
        st.sampled_from([AT, OTHER]),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(moves=moves)
def test_in_every_order_only_what_is_stored_and_not_after_a_reported_record_is_due(
    moves: list[tuple[str, TopicPartition, int]],
) -> None:
    model = Model()
    for move, at, number in [("assign", AT, 0), ("assign", OTHER, 0), *moves]:
        getattr(model, move)(at, number)
        model.check()

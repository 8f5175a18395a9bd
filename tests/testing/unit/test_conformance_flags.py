"""A check whose outcome a flag changes says so when it fails; with the flag set, it passes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, cast

import pytest

from penstock.api import (
    DataError,
    Failed,
    Offsets,
    Plugin,
    Polled,
    Props,
    Records,
    SinkConnector,
    SinkContext,
    SinkWriter,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
    Unavailable,
)
from penstock.api.settings import INT, Config, ConfigDef, Key
from penstock.testing.conformance import (
    SinkCase,
    SinkConformance,
    SourceCase,
    SourceConformance,
    SourceEndToEnd,
    records_of,
)
from penstock.testing.conformance_case import Case
from tests.places import ROOT

TARGET: list[Any] = []
SIZE = Key("bell.size", INT, default=1, doc="How large it is.")


class Shelf(SinkConnector):
    """Appends values to a list, perhaps at its front; takes only some of them."""

    plugin = Plugin("test.Shelf", "1", ConfigDef())
    front: ClassVar[bool] = False
    only_schemas: ClassVar[bool] = False

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        return ShelfWriter(self)


class ShelfWriter(SinkWriter):
    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    def write(self, records: Records, failed: Failed) -> None:
        for row, (schema, value) in enumerate(
            zip(records.values.schemas(), records.values.values, strict=True)
        ):
            if self.shelf.only_schemas and schema is None:
                failed[row] = DataError("no schema")
            else:
                TARGET.insert(0 if self.shelf.front else len(TARGET), value)


class FrontShelf(Shelf):
    front = True


class StrictShelf(Shelf):
    only_schemas = True


class ShelfCase(SinkConformance):
    __test__ = False
    connector = Shelf

    def config(self) -> dict[str, str]:
        return {}

    def contents(self) -> list[Any]:
        return list(TARGET)


class Bell(SourceConnector):
    """Has the numbers that were added; its reader finds them only if it may wait."""

    plugin = Plugin("test.Bell", "1", ConfigDef(SIZE))
    needs_ms: ClassVar[int] = 0
    again: ClassVar[int] = 0  # how many records before its offset a new reader reads
    exact: ClassVar[bool | None] = None

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def exactly_once(self, config: Config) -> bool | None:
        return self.exact

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        stored = context.stored_offset({})
        return BellReader(self, int(cast("int", stored["n"])) - self.again if stored else 0)


class BellReader(SourceReader):
    def __init__(self, bell: Bell, position: int) -> None:
        self.bell = bell
        self.position = max(0, position)

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if wait_ms < self.bell.needs_ms or self.position >= len(TARGET):
            return None
        rows = TARGET[self.position : self.position + max(1, max_bytes // 100)]
        self.position += len(rows)
        return Polled(Records.of("bell", rows), [SourceOffset({}, {"n": self.position})])

    def committed(self, offsets: Offsets) -> None:
        pass


class SlowBell(Bell):
    needs_ms = 50


class RepeatingBell(Bell):
    again = 2


class HonestBell(RepeatingBell):
    exact = False


class BellCase(SourceConformance):
    __test__ = False
    connector = Bell

    def config(self) -> dict[str, str]:
        return {}

    def add(self, numbers: range) -> None:
        TARGET.extend(f"text {number}" for number in numbers)


@pytest.fixture(autouse=True)
def empty() -> None:
    TARGET.clear()


def sink(**flags: object) -> ShelfCase:
    return type("Case", (ShelfCase,), flags)()


def source(**flags: object) -> BellCase:
    case = type("Case", (BellCase,), flags)()
    case._opened = []
    return case


def rewritten(case: ShelfCase) -> None:
    case.test_records_that_are_written_again()


def flushed(case: ShelfCase, *, schema: bool = False) -> None:
    case.test_when_flush_returns_the_target_has_the_records(case._open(), schema)


@pytest.mark.parametrize("schema", [True, False])
def test_ordered(schema: bool) -> None:
    with pytest.raises(AssertionError, match="another order; set `ordered = False`"):
        flushed(sink(connector=FrontShelf), schema=schema)
    TARGET.clear()
    flushed(sink(connector=FrontShelf, ordered=False), schema=schema)


def test_idempotent() -> None:
    with pytest.raises(AssertionError, match="set `idempotent = False`"):
        rewritten(sink(idempotent=True))
    TARGET.clear()
    rewritten(sink(idempotent=False))


def test_records() -> None:
    with pytest.raises(AssertionError) as failure:
        flushed(sink(connector=StrictShelf))
    [note] = failure.value.__notes__
    assert "return None from `records` for `schema=False`" in note
    with pytest.raises(pytest.skip.Exception):
        flushed(sink(connector=StrictShelf, records=only_with_schemas))


def only_with_schemas(case: ShelfCase, numbers: range, *, schema: bool) -> Records | None:
    return SinkConformance.records(case, numbers, schema=True) if schema else None


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize(
    "check",
    [
        flushed,
        lambda case: case.test_committed_records_are_not_needed_again(),
        lambda case: case.test_partitions_may_be_revoked_and_assigned_again(case._open()),
        lambda case: case.test_records_that_are_written_again(),
        lambda case: case.test_a_tombstone_is_written_or_refused_and_its_neighbours_are_written(
            case._open()
        ),
    ],
    ids=["flushed", "committed", "revoked", "rewritten", "tombstone"],
)
def test_expected(check: Callable[[ShelfCase], None], idempotent: bool) -> None:
    case = sink(
        idempotent=idempotent,
        expected=lambda self, records: [f"<{text}>" for text in records.values.values],
    )
    with pytest.raises(AssertionError, match="see `expected`"):
        check(case)


def test_bad_records() -> None:
    case = sink(bad_records=lambda self: records_of(["good, really"]))
    with pytest.raises(AssertionError, match="or None if it accepts everything"):
        case.test_a_record_that_is_refused_is_named_and_its_neighbours_are_written(case._open())


def test_target_away() -> None:
    case = sink(unreachable_target=lambda self: nullcontext())
    with pytest.raises(AssertionError, match="return None from `unreachable_target`"):
        case.test_an_unreachable_target_gets_the_batch_once_it_is_reachable()


class Refusing:
    """A target that refuses within a context."""

    now = False

    def __enter__(self) -> None:
        Refusing.now = True

    def __exit__(self, *error: object) -> None:
        Refusing.now = False


class ForgettingWriter(SinkWriter):
    """Buffers values until `flush`, which forgets those that the target does not accept."""

    remembers: ClassVar[bool] = False
    error: ClassVar[type[Exception]] = DataError

    def __init__(self) -> None:
        self.buffer: list[Any] = []
        self.failure: Exception | None = None

    def write(self, records: Records, failed: Failed) -> None:
        self.buffer += records.values.values

    def flush(self) -> None:
        if self.failure is not None:
            raise self.failure
        buffer, self.buffer = self.buffer, []
        if buffer and Refusing.now:
            failure = self.error("not allowed")
            self.failure = failure if self.remembers else None
            raise failure
        TARGET.extend(buffer)


class RememberingWriter(ForgettingWriter):
    remembers = True


class WaitingWriter(RememberingWriter):
    error = Unavailable


class OneByOneWriter(ForgettingWriter):
    """Writes at once."""

    def write(self, records: Records, failed: Failed) -> None:
        super().write(records, failed)
        self.flush()


@pytest.mark.parametrize(
    ("writer", "hint"),
    [
        (ForgettingWriter, "`flush` returned after a fatal error"),
        (WaitingWriter, "is `retriable`"),
        (RememberingWriter, None),
        (OneByOneWriter, None),
    ],
)
@pytest.mark.parametrize("flushes", ["once", "again"])
def test_target_refuses(writer: type[ForgettingWriter], hint: str | None, flushes: str) -> None:
    class Forgetful(Shelf):
        def open(self, config: Config, context: SinkContext) -> SinkWriter:
            return writer()

    case = sink(connector=Forgetful, refusing_target=lambda self: Refusing())
    with pytest.raises(AssertionError, match=hint) if hint else nullcontext():
        case.test_a_flush_after_a_fatal_error_never_succeeds(flushes)


def test_target_does_not_refuse() -> None:
    case = sink(refusing_target=lambda self: nullcontext())
    with pytest.raises(AssertionError, match="return None from `refusing_target`"):
        case.test_a_flush_after_a_fatal_error_never_succeeds("once")


@pytest.mark.parametrize(
    ("size", "hint"),
    [("2", "remove it from `bad_configs`"), ("two", "change the text in `bad_configs`")],
)
def test_bad_configs(size: str, hint: str) -> None:
    case = source(bad_configs=(({"bell.size": size}, "no such text"),))
    with pytest.raises(AssertionError, match=hint):
        case.test_a_bad_configuration_is_refused_with_a_reason()


@pytest.mark.parametrize(
    "check",
    [
        "test_every_record_is_read_once",
        "test_reading_it_again_reads_the_same",
        "test_polls_return_nothing_until_records_are_added",
        "test_offsets_can_be_stored_as_kafka_connect_stores_them",
        "test_the_next_reader_continues_exactly_after_the_stored_offsets",
        "test_records_whose_offsets_were_not_stored_are_read_again",
        "test_all_tasks_together_read_everything",
        "test_polls_respect_max_bytes",
        "test_reading_continues_after_a_commit",
        "test_closing_releases_files_and_threads",
        "test_users_may_alter_offsets",
    ],
)
def test_wait_ms(check: str) -> None:
    with pytest.raises(AssertionError, match=r"set `wait_ms` \(it is 0\) higher"):
        getattr(source(connector=SlowBell), check)()
    TARGET.clear()
    getattr(source(connector=SlowBell, wait_ms=50), check)()


@pytest.mark.parametrize(
    "name",
    [
        "test_the_next_reader_continues_exactly_after_the_stored_offsets",
        "test_polls_return_nothing_until_records_are_added",
    ],
)
def test_exactly_once(name: str) -> None:
    with pytest.raises(AssertionError, match="return False from `SourceConnector"):
        getattr(source(connector=RepeatingBell), name)()
    TARGET.clear()
    getattr(source(connector=HonestBell), name)()


class SplittingBellReader(BellReader):
    """Knows the offsets within a poll, or those of `late` records later."""

    late: ClassVar[int] = 0

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        start = self.position
        polled = super().poll(max_bytes, wait_ms)
        if polled is None:
            return None
        return replace(
            polled,
            offsets_before=lambda count: [SourceOffset({}, {"n": start + count + self.late})],
        )


class LateBellReader(SplittingBellReader):
    late = 1


@pytest.mark.parametrize("reader", [SplittingBellReader, LateBellReader])
def test_offsets_before(reader: type[SplittingBellReader]) -> None:
    class Splitting(Bell):
        def open(self, config: Config, context: SourceContext) -> SourceReader:
            stored = context.stored_offset({})
            return reader(self, int(cast("int", stored["n"])) if stored else 0)

    fails = pytest.raises(AssertionError, match="from `offsets_before") if reader.late else None
    with fails or nullcontext():
        source(connector=Splitting).test_reading_continues_at_any_record_whose_offset_is_known()


def test_plugin_path() -> None:
    class Case(BellCase, SourceEndToEnd):
        __test__ = False

    class Refusing:
        def create(self, name: str, config: object) -> None:
            raise AssertionError("Failed to find any class that implements Connector …")

    with pytest.raises(AssertionError) as failure:
        Case()._create(cast(Any, Refusing()), "bell", {})
    assert failure.value.__notes__ == ["set `plugin_path` if the connector is not installed"]


def test_every_flag_is_documented() -> None:
    """Flags are the attributes with a value and the non-abstract methods of a case."""
    page = (ROOT / "docs" / "plugins.md").read_text()
    flags = {
        name
        for case in (Case, SourceCase, SinkCase)
        for name, member in vars(case).items()
        if not name.startswith("_") and not getattr(member, "__isabstractmethod__", False)
    }
    assert {"wait_ms", "expected"} <= flags
    flags.add("exactly_once")
    assert not [flag for flag in sorted(flags) if f"| `{flag}" not in page]

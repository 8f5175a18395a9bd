"""The conformance suite: the file connectors pass it; connectors that break a promise do not."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from penstock.connectors.file import FileStreamSink, FileStreamSource
from penstock.template import write_project
from penstock.testing.conformance import SinkConformance, SourceConformance


class TestFileStreamSource(SourceConformance):
    resumes_within_polls = True
    connector = FileStreamSource
    bad_configs = (({"file": None}, "file"), ({"topic": None}, "topic"), ({"topic": ""}, "topic"))

    def config(self) -> dict[str, str]:
        return {"file": str(self.folder / "in.txt"), "topic": "lines"}

    def add(self, numbers: range) -> None:
        with (self.folder / "in.txt").open("a") as file:
            file.writelines(f"Zeile {number}: Füße\n" for number in numbers)


class TestFileStreamSink(SinkConformance):
    connector = FileStreamSink
    bad_configs = (({"file": None}, "file"), ({"file": "/no/such/folder/out.txt"}, "file"))

    def config(self) -> dict[str, str]:
        return {"file": str(self.folder / "out.txt")}

    def contents(self) -> list[str]:
        file = self.folder / "out.txt"
        return file.read_text().splitlines() if file.exists() else []

    @contextmanager
    def refusing_target(self) -> Iterator[None]:
        """The file must not grow."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (self.folder / "out.txt").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@dataclass(frozen=True)
class Broken:
    """A changed connector of the template, and the tests that must fail because of it."""

    name: str
    file: str
    old: str
    new: str
    fails: frozenset[str]


def source(name: str, old: str, new: str, *fails: str) -> Broken:
    return Broken(name, "source.py", old, new, frozenset(fails))


def sink(name: str, old: str, new: str, *fails: str) -> Broken:
    return Broken(name, "sink.py", old, new, frozenset(fails))


NEVER = "test_a_source_without_records_has_nothing_to_read"
GOES_ON = "test_the_next_reader_continues_exactly_after_the_stored_offsets"

BROKEN = [
    source(
        "boundless",
        " and sum(map(len, texts)) < max_bytes:",
        ":",
        "test_polls_respect_max_bytes",
    ),
    source(
        "uncertain",
        "in sorted(self.folder.iterdir()):",
        "in sorted(self.folder.iterdir())[max_bytes == 1 :]:",
        "test_small_polls_read_the_same_as_large_ones",
    ),
    source(
        "twice",
        'str(stored["name"]) if stored',
        'str(stored["name"])[:-1] if stored',
        GOES_ON,
        "test_polls_return_nothing_until_records_are_added",
    ),
    source(
        "skipping",
        "in sorted(self.folder.iterdir()):",
        "in sorted(self.folder.iterdir())[1:]:",
        "test_every_record_is_read_once",
    ),
    source(
        "unstorable",
        '{"name": self.last}',
        '{"name": Path(self.last)}',
        "test_offsets_can_be_stored_as_kafka_connect_stores_them",
    ),
    source(
        "forgetful",
        'str(stored["name"]) if stored else ""',
        '""',
        "test_polls_return_nothing_until_records_are_added",
    ),
    source(
        "restless",
        "            return None\n",
        "            return Polled(Records.of(self.topic, []))\n",
        NEVER,
    ),
    source(
        "mistyped",
        "Records.of(self.topic, texts,",
        "Records.of(self.topic, [b'x' for _ in texts],",
        "test_records_fit_their_schemas",
    ),
    source(
        "uneven",
        "        return Polled(records,",
        "        records.partitions = []\n        return Polled(records,",
        "test_records_fit_their_schemas",
    ),
    source(
        "removing",
        "                texts.append(file.read_text())\n",
        "                texts.append(file.read_text())\n                file.unlink()\n",
        "test_records_whose_offsets_were_not_stored_are_read_again",
    ),
    source(
        "careless",
        "    def poll(self",
        "    def committed(self, offsets: object) -> None:\n"
        "        for file in self.folder.iterdir():\n            file.unlink()\n\n"
        "    def poll(self",
        "test_reading_continues_after_a_commit",
    ),
    source(
        "idle",
        "    def poll(self",
        "    idle_ms = 0\n\n    def poll(self",
        "test_a_poll_waits_only_as_long_as_it_may",
    ),
    source(
        "deaf",
        "            return None\n",
        "            __import__('threading').Event().wait(wait_ms / 1000)\n"
        "            return None\n",
        "test_a_poll_stops_waiting_when_the_task_stops",
    ),
    source(
        "lasting",
        "        self.last = str(stored",
        "        __import__('sys').__dict__.setdefault('kept', []).append(open(__file__))\n"
        "        self.last = str(stored",
        "test_closing_releases_files_and_threads",
    ),
    source(
        "many",
        "return [config.props]  # one reader: the names have one order",
        "return [config.props] * 3",
        "test_tasks_max_limits_the_planned_tasks",
        "test_all_tasks_together_read_everything",
    ),
    source(
        "whimsical",
        "return [config.props]  # one reader: the names have one order",
        'return [{**config.props, "made": str(id(object()) + __import__("time").monotonic_ns())}]',
        "test_planning_again_plans_the_same",
    ),
    source(
        "numbers",
        "return [config.props]  # one reader: the names have one order",
        'return [{**config.props, "task": 1}]',
        "test_tasks_max_limits_the_planned_tasks",
    ),
    source(
        "open",
        "return [config.props]  # one reader: the names have one order",
        "__import__('sys').__dict__.setdefault('kept', []).append(open(__file__))\n"
        "        return [config.props]",
        "test_nothing_is_open_when_tasks_are_planned",
    ),
    source(
        "talkative",
        "class NotesSource(SourceConnector):",
        'print("hello")\n\n\nclass NotesSource(SourceConnector):',
        "test_another_process_can_import_the_class_without_side_effects",
    ),
    source(
        "configuring",
        "class NotesSource(SourceConnector):",
        "import logging\n\nlogging.basicConfig()\n\n\nclass NotesSource(SourceConnector):",
        "test_another_process_can_import_the_class_without_side_effects",
    ),
    source(
        "hiding",
        'text("topic", REQUIRED',
        'text("tasks.max", REQUIRED',
        "test_no_setting_has_the_name_of_a_common_setting",
    ),
    source(
        "undocumented",
        '"Topic that the records go to."',
        '""',
        "test_every_setting_is_documented",
    ),
    source(
        "lenient",
        '.folder", REQUIRED',
        '.folder", "."',
        "test_a_bad_configuration_is_refused_with_a_reason",
    ),
    source(
        "partless",
        "        return Polled(records, [",
        "        return Polled(Records.of(self.topic, []), parts=names, offsets=[",
        "test_parts_can_be_read_in_any_order_and_again",
    ),
    source(
        "eager",
        "    def open(self",
        "    def replan_ms(self, config: Config) -> int:\n        return 0\n\n    def open(self",
        "test_its_declared_properties_are_valid",
    ),
    source(
        "stubborn",
        "    def open(self",
        "    def alter_offsets(self, config: Config, offsets: object) -> bool:\n"
        '        raise ValueError("never")\n\n    def open(self',
        "test_users_may_alter_offsets",
    ),
    sink(
        "late",
        "with self.database:  # one transaction for the batch",
        "if True:",
        "test_when_flush_returns_the_target_has_the_records",
    ),
    sink(
        "changing",
        "        try:\n            with",
        "        records.values.values.reverse()\n        try:\n            with",
        "test_write_does_not_modify_the_batch",
    ),
    sink(
        "inserting",
        "REPLACE INTO",
        "INSERT INTO",
        "test_records_that_are_written_again",
    ),
    sink(
        "nervous",
        "    def close(self",
        "    def flush(self) -> None:\n"
        "        self.database.execute(\"INSERT INTO notes VALUES (hex(randomblob(8)), 'x')\")\n"
        "        self.database.commit()\n\n    def close(self",
        "test_flushing_again_changes_nothing",
    ),
    sink(
        "promising",
        "    def write(self",
        "    def pre_commit(self, reached: object) -> object:\n"
        "        return {each: at + 1 for each, at in reached.items()}\n\n    def write(self",
        "test_committed_records_are_not_needed_again",
        "test_flushing_again_changes_nothing",
    ),
    sink(
        "clinging",
        "    def close(self",
        "    def revoked(self, partitions: object, *, lost: bool) -> None:\n"
        "        self.close()\n\n    def close(self",
        "test_partitions_may_be_revoked_and_assigned_again",
    ),
    sink(
        "repeating",
        "(name PRIMARY KEY, text)",
        "(name, text)",
        "test_records_that_are_written_again",
    ),
    sink(
        "raising",
        'failed[row] = DataError(f"the key must be a string, not {name!r}")',
        'raise DataError("no")',
        "test_a_record_that_is_refused_is_named_and_its_neighbours_are_written",
    ),
    sink(
        "strict",
        'self.database.execute("DELETE FROM notes WHERE name = ?", [name])',
        'raise DataError("a note needs text")',
        "test_a_tombstone_is_written_or_refused_and_its_neighbours_are_written",
    ),
    sink(
        "final",
        "raise Unavailable(",
        "raise DataError(",
        "test_an_unreachable_target_gets_the_batch_once_it_is_reachable",
    ),
    sink(
        "leaky",
        "        self.database.close()",
        "        LEFT.append(self.database)\n\n\nLEFT: list[object] = []",
        "test_closing_releases_files_and_threads",
    ),
    sink(
        "backwards",
        "enumerate(records.keys.values)",
        "reversed(list(enumerate(records.keys.values)))",
        "test_when_flush_returns_the_target_has_the_records",
        "test_batches_are_written_in_order",
    ),
]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The tests that failed, by broken connector; all of them are run at once."""
    folder = tmp_path_factory.mktemp("broken")
    for each in BROKEN:
        half = each.file.removesuffix(".py")
        write_project(
            folder / each.name,
            f"b_{each.name}",
            source=half == "source",
            sink=half == "sink",
            example=True,
        )
        module = folder / each.name / f"b_{each.name}" / f"b_{each.name}" / each.file
        text = module.read_text()
        words = {"NotesSource": f"B{each.name.title()}Source"}
        words |= {"NotesReader": f"B{each.name.title()}Reader", "notes ": f"b_{each.name} "}
        old, new = each.old, each.new
        for word, own in words.items():
            old, new = old.replace(word, own), new.replace(word, own)
        assert old in text, f"{each.name}: the template has no {old!r} any more"
        module.write_text(text.replace(old, new))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"),
            *("--import-mode=importlib", f"--rootdir={folder}", "-c", os.devnull),
            *("-p", "no:schemathesis"),  # it takes a second to import
            *(
                f"{each.name}/b_{each.name}/tests/test_{each.file}::"
                f"TestB{each.name.title()}{each.file.removesuffix('.py').title()}::{test}"
                for each in BROKEN
                for test in sorted(each.fails)
            ),
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folder.glob("*/*")))},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    failed: dict[str, set[str]] = {}
    for name, test in re.findall(r"^FAILED (\w+)/\S+::(\w+)", done.stdout, re.MULTILINE):
        failed.setdefault(name, set()).add(test)
    assert "ERROR " not in done.stdout, done.stdout
    return failed


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_a_connector_that_breaks_a_promise_fails_the_test_of_it(
    failures: dict[str, set[str]], broken: Broken
) -> None:
    assert broken.fails <= failures.get(broken.name, set())


def test_every_test_of_the_suite_can_fail() -> None:
    # Those that only check that something exists, and those that need a running server.
    unbroken = {
        "test_the_plugin_declares_its_class_and_version",
        "test_the_configuration_is_valid",
        "test_planning_leaves_the_configuration_as_it_is",
        "test_reading_it_again_reads_the_same",
        "test_an_empty_batch_changes_nothing",
        "test_the_next_writer_continues_where_the_last_one_stopped",
        "test_two_writers_write_side_by_side",
        "test_offsets_may_be_set_by_users",
        # `test_conformance_flags` lets these fail.
        "test_a_flush_after_a_fatal_error_never_succeeds",
        "test_reading_continues_at_any_record_whose_offset_is_known",
    }
    tests = {
        name for suite in (SourceConformance, SinkConformance) for name in dir(suite)
        if name.startswith("test_")
    }  # fmt: skip
    assert tests - {test for each in BROKEN for test in each.fails} == unbroken


def test_a_class_that_other_processes_cannot_import_fails() -> None:
    case = TestFileStreamSource()

    class Local(FileStreamSource):
        pass

    case.connector = Local  # type: ignore[misc]
    type(case).connector, before = Local, type(case).connector
    try:
        with pytest.raises(AttributeError, match="local object"):
            case.test_another_process_can_import_the_class_without_side_effects()
    finally:
        type(case).connector = before

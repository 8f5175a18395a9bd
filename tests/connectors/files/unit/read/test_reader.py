"""What happens to files, and what is reported of unreadable ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.api import DataError, Records, SourceConnector, SourceOffset, SourceReader
from penstock.connectors.files.local_source import LocalFileSource
from penstock.connectors.files.spooldir import SpoolDirCsv, SpoolDirLineDelimited
from penstock.testing.contexts import SourceContextStub

SCHEMA = json.dumps(
    {
        "name": "row",
        "type": "STRUCT",
        "fieldSchemas": {
            "id": {"type": "INT64"},
            "at": {
                "type": "INT64",
                "name": "org.apache.kafka.connect.data.Timestamp",
                "version": 1,
            },
        },
    }
)


class Run:
    """A task in a folder; `store` stores its offsets."""

    def __init__(
        self, folder: Path, kind: type[SourceConnector] = LocalFileSource, **settings: str
    ) -> None:
        self.input = folder / "in"
        self.input.mkdir(exist_ok=True)
        self.done, self.errors = folder / "done", folder / "errors"
        self.kind = kind
        self.props = {
            "input.path": str(self.input),
            "input.file.pattern": ".*",
            "topic": "t",
            "empty.poll.wait.ms": "1",
            "finished.path": str(self.done),
            "error.path": str(self.errors),
            **({"format.class": "JsonFormat"} if kind is LocalFileSource else {}),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.stored: dict[str, SourceOffset] = {}
        self.polled: list[SourceOffset] = []
        self.reader = self.open()

    def open(self) -> SourceReader:
        config = self.kind.plugin.config.parse(self.props)
        return self.kind().open(config, SourceContextStub(list(self.stored.values())))

    def restart(self) -> None:
        self.reader.close()
        self.polled = []
        self.reader = self.open()

    def read(self) -> list[Any]:
        return [value for records in self.batches() for value in records.values.values]

    def batches(self) -> list[Records]:
        batches = []
        for _ in range(50):
            polled = self.reader.poll(1 << 20, 2)
            if polled is None:
                break
            batches.append(polled.records)
            self.polled += polled.offsets
        return batches

    def store(self) -> None:
        """Stores all offsets, and notifies the reader."""
        for each in self.polled:
            if each.offset is None:
                self.stored.pop(repr(each.partition), None)
            else:
                self.stored[repr(each.partition)] = each
        self.reader.committed(self.polled)
        self.polled = []


def names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


@pytest.mark.parametrize("policy", ["NONE", "DELETE", "MOVE", "MOVEBYDATE"])
def test_files_are_cleaned_up_when_their_offsets_are_stored_and_not_before(
    tmp_path: Path, policy: str
) -> None:
    run = Run(tmp_path, cleanup_policy=policy)
    (run.input / "a.json").write_text("1\n2\n")
    os.utime(run.input / "a.json", (86_400, 86_400))
    assert run.read() == [1, 2]
    assert run.read() == []
    assert names(run.input) == ["a.json"]
    run.store()
    assert run.read() == []
    moved = {"MOVE": ["a.json"], "MOVEBYDATE": ["1970-01-02/a.json"]}.get(policy, [])
    assert names(run.done) == moved
    assert names(run.input) == (["a.json"] if policy == "NONE" else [])
    run.store()
    assert len(run.stored) == (1 if policy == "NONE" else 0)
    run.reader.close()


def test_a_cleanup_that_a_stopped_task_left_is_done_by_the_next(tmp_path: Path) -> None:
    run = Run(tmp_path, cleanup_policy="MOVE")
    (run.input / "a.json").write_text("1\n")
    assert run.read() == [1]
    for each in run.polled:  # stored, and the task killed
        run.stored[repr(each.partition)] = each
    run.restart()
    polled = run.reader.poll(1 << 20, 0)  # however slow the machine, the first poll reports it
    assert names(run.done) == ["a.json"]
    assert polled is not None
    run.polled += polled.offsets
    run.store()
    assert run.stored == {}
    run.reader.close()


def test_a_moved_file_does_not_replace_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    run = Run(tmp_path, cleanup_policy="MOVE")
    for number in range(3):
        (run.input / "a.tar.json").write_text(f"{number}\n")
        assert run.read() == [number]
        run.store()
        assert run.read() == []
    assert names(run.done) == ["a.1.tar.json", "a.2.tar.json", "a.tar.json"]
    assert (run.done / "a.2.tar.json").read_text() == "2\n"
    run.reader.close()


def test_files_in_folders_keep_their_path_when_they_are_moved(tmp_path: Path) -> None:
    run = Run(tmp_path, cleanup_policy="MOVE", input_path_walk_recursively="true")
    run.props["finished.path"] = str(run.input / "done")
    run.restart()
    (run.input / "b" / "c").mkdir(parents=True)
    (run.input / "b" / "c" / "a.json").write_text("1\n")
    assert run.read() == [1]
    run.store()
    assert run.read() == []
    assert names(run.input) == ["done/b/c/a.json"]
    run.reader.close()


def test_another_file_of_the_same_name_is_read(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for number in range(3):
        (run.input / "a.json").write_text(f"{number}\n" * (number + 1))
        assert run.read() == [number] * (number + 1)
        run.store()
        run.restart()
    run.reader.close()


def test_a_bad_file_goes_to_the_errors_and_fails_the_task_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (run.input / "a.json").write_text("1\n2\n{nonsense}\n4\n")
    (run.input / "b.json").write_text("5\n")
    assert run.read() == [1, 2]
    assert names(run.errors) == []
    run.store()
    with pytest.raises(DataError, match=r"a\.json' cannot be read: Line 3.*halt\.on\.error=false"):
        run.read()
    assert names(run.errors) == ["a.json"]
    run.restart()
    assert run.read() == [5]
    run.reader.close()


def test_without_halting_the_next_file_follows(tmp_path: Path) -> None:
    run = Run(tmp_path, halt_on_error="false")
    (run.input / "a.json").write_text("1\n{nonsense}\n3\n")
    (run.input / "b.json").write_text("5\n")
    assert run.read() == [1, 5]
    run.store()
    assert run.read() == []
    assert names(run.errors) == ["a.json"]
    run.reader.close()


def test_without_a_folder_for_errors_the_file_stays(tmp_path: Path) -> None:
    run = Run(tmp_path, error_path="")
    (run.input / "a.json").write_text("1\n{nonsense}\n")
    with pytest.raises(DataError, match="1 records of it were read"):
        run.read()
    assert names(run.input) == ["a.json"]
    run.reader.close()


def test_a_file_that_grows_is_followed_also_when_it_is_renamed(tmp_path: Path) -> None:
    run = Run(tmp_path, penstock_tail="true")
    log = run.input / "app.log"
    log.write_text("1\n2\n3")
    assert run.read() == [1, 2]
    run.store()
    with log.open("a") as file:
        file.write("4\n5\n")
    log.rename(run.input / "app.log.1")
    log.write_text("6\n")
    run.restart()
    assert sorted(run.read()) == [5, 6, 34]
    run.store()
    log.write_text("")
    assert run.read() == []
    log.write_text("7\n8\n")
    assert run.read() == [7, 8]
    run.reader.close()


def test_young_files_and_those_that_others_work_on_wait(tmp_path: Path) -> None:
    run = Run(tmp_path, SpoolDirLineDelimited, file_minimum_age_ms="60000", cleanup_policy="NONE")
    young, marked, old = (run.input / name for name in ("young", "marked", "old"))
    for file in (young, marked, old):
        file.write_text(f"{file.name}\n")
    os.utime(marked, (1, 1))
    os.utime(old, (1, 1))
    (run.input / "marked.PROCESSING").write_text("x\n")
    assert run.read() == ["old"]
    (run.input / "marked.PROCESSING").unlink()
    assert run.read() == ["marked"]
    run.reader.close()


def test_files_are_read_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    run = Run(
        tmp_path,
        SpoolDirLineDelimited,
        cleanup_policy="NONE",
        files_sort_attributes="LastModifiedDesc,NameAsc",
    )
    for at, name in enumerate("bcad"):
        (run.input / name).write_text(f"{name}\n")
        os.utime(run.input / name, (at // 2, at // 2))
    assert run.read() == ["a", "d", "b", "c"]
    run.reader.close()


def test_spooldir_makes_keys_headers_and_timestamps_of_rows(tmp_path: Path) -> None:
    key = json.dumps({"name": "k", "type": "STRUCT", "fieldSchemas": {"id": {"type": "INT64"}}})
    run = Run(
        tmp_path,
        SpoolDirCsv,
        value_schema=SCHEMA,
        key_schema=key,
        csv_first_row_as_header="true",
        cleanup_policy="NONE",
        timestamp_mode="FIELD",
        timestamp_field="at",
    )
    (run.input / "a.b.csv").write_text("id,at\n7,1970-01-01T00:00:02\n8,1970-01-01 00:00:03\n")
    (records,) = (each for each in run.batches() if len(each))
    assert records.keys.values == [{"id": 7}, {"id": 8}]
    assert records.timestamps == [2_000, 3_000]
    about = {header.name: header.value for header in records.headers[1]}
    assert about["file.name"] == "a.b.csv"
    assert about["file.name.without.extension"] == "a.b"
    assert about["file.parent.dir.name"] == "in"
    assert about["file.offset"] == 2
    assert {"fileName": "a.b.csv"} in [each.partition for each in run.polled]
    run.reader.close()


def test_offsets_of_spooldir_are_taken_up(tmp_path: Path) -> None:
    run = Run(tmp_path, SpoolDirLineDelimited, cleanup_policy="NONE")
    (run.input / "a").write_text("1\n2\n3\n")
    run.stored["a"] = SourceOffset({"fileName": "a"}, {"offset": 2})
    run.restart()
    assert run.read() == ["3"]
    run.reader.close()

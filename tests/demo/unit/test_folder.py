from pathlib import Path

import pytest

from penstock.config.properties import parse_properties
from penstock.config.worker import parse_distributed
from penstock.demo.folder import (
    BadFile,
    Folder,
    check_file,
    check_lines,
    check_room,
    chunks,
    worker_properties,
)
from penstock.demo.lines import digest
from penstock.errors import StartupFailed


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "demo")


def test_the_worker_s_properties_are_valid() -> None:
    text = worker_properties("127.0.0.1:9092", 8083)
    config = parse_distributed(parse_properties(text.encode()))
    assert config.props["listeners"] == "http://127.0.0.1:8083"


def test_a_folder_takes_one_demo_at_a_time(folder: Folder) -> None:
    again = pytest.raises(StartupFailed, match="Another demo is running")
    with folder.locked(), again, folder.locked():
        pass
    with folder.locked():
        pass


def test_clearing_leaves_the_sample_and_other_people_s_files(folder: Folder) -> None:
    folder.kafka.mkdir(parents=True)
    (folder.kafka / "log").touch()
    kept = [folder.sample, folder.path / "mine.txt"]
    for file in (*kept, folder.received, folder.worker_log, folder.properties):
        file.touch()
    folder.clear()
    assert sorted(folder.path.iterdir()) == sorted(kept)


def test_chunks_are_the_file_up_to_a_size(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"0123456789")
    reported: list[int] = []
    assert b"".join(chunks(file, 4, reported.append)) == b"0123"
    assert reported == [4]
    assert b"".join(chunks(file)) == b"0123456789"
    assert b"".join(chunks(file, 100)) == b"0123456789"


def test_a_readable_file_is_taken_by_its_absolute_path(
    tmp_path: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").touch()
    monkeypatch.chdir(tmp_path)
    assert check_file(Path("f"), folder) == tmp_path / "f"


def test_a_path_that_cannot_be_read_as_a_file_is_refused(tmp_path: Path, folder: Folder) -> None:
    with pytest.raises(BadFile, match="No such file"):
        check_file(tmp_path / "missing", folder)
    with pytest.raises(BadFile, match="not a regular file"):
        check_file(tmp_path, folder)


def test_a_file_that_the_demo_would_remove_is_refused_but_its_sample_is_not(
    folder: Folder,
) -> None:
    folder.path.mkdir()
    folder.received.touch()
    folder.sample.touch()
    with pytest.raises(BadFile, match="Move it first"):
        check_file(folder.received, folder)
    assert check_file(folder.sample, folder) == folder.sample


@pytest.mark.parametrize(("data", "why"), [(b"", "empty"), (b"abc", "3 bytes without a line end")])
def test_a_file_without_a_whole_line_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(BadFile, match=why):
        check_lines("f", digest([data]))
    check_lines("f", digest([b"\n"]))


def test_a_full_disk_is_noticed_before_anything_starts(folder: Folder) -> None:
    with pytest.raises(StartupFailed, match="2,500 MB"):
        check_room(folder, 2_400, 1_000_000_000)
    check_room(folder, 2_600, 1_000_000_000)

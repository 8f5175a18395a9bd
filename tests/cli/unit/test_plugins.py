"""`penstock plugins`: what the doctor finds, and the project of a new connector."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.exits import Exit
from tests.servers.plugin_folders import code, described, jar, wheel, write

from .workers import Penstock


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("pd_")]:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plugin folder, and beside it a worker file that lists it."""
    (tmp_path / "worker.properties").write_text(f"plugin.path={tmp_path / 'plugins'}\n")
    (tmp_path / "plugins").mkdir()
    return tmp_path / "plugins"


@pytest.fixture
def worker_file(folder: Path) -> str:
    return str(folder.parent / "worker.properties")


def test_without_a_file_the_doctor_tells_what_is_installed(penstock: Penstock) -> None:
    result = penstock("plugins", "doctor")
    assert result.code == Exit.DONE
    assert result.lines[0].startswith("penstock ")
    assert result.lines[0].endswith("(installed)")
    assert result.lines[1].endswith("plugins; --all lists them")
    assert result.lines[-1] == "nothing is broken"


def test_all_lists_what_is_built_in_with_the_names_for_it(penstock: Penstock) -> None:
    result = penstock("plugins", "doctor", "--all")
    (line,) = [line for line in result.lines if "penstock.convert.json:JsonConverter" in line]
    kind, _, _, *names = line.split()
    assert kind == "converter"
    assert names == ["org.apache.kafka.connect.json.JsonConverter,", "JsonConverter,", "Json"]
    (nested,) = [line for line in result.lines if "Cast$Value" in line]
    assert nested.split()[-1] == "org.apache.kafka.connect.transforms.Cast$Value"


def test_the_doctor_tells_what_is_experimental_and_why(penstock: Penstock) -> None:
    (line,) = [line for line in penstock("plugins", "doctor").lines if "CouchbaseSink" in line]
    assert line == (
        "  note: com.couchbase.connect.kafka.CouchbaseSinkConnector is experimental. Not tested "
        "against a Couchbase server."
    )


def test_the_doctor_tells_what_is_where_and_what_it_is_called(
    penstock: Penstock, folder: Path, worker_file: str
) -> None:
    path = wheel(
        folder / "pd_acme-1.0-py3-none-any.whl",
        described("pd", {"a": "pd_acme:Acme"}, {"pd_acme.py": code("Acme", version="3.1")}),
    )
    write(folder, {"pd_plain.py": code("Plain")})
    result = penstock("plugins", "doctor", worker_file)
    at = result.lines.index(f"{path} (wheel)")
    assert result.lines[at + 1].split() == ["TYPE", "VERSION", "PYTHON", "IN", "CONFIGURATIONS"]
    assert result.lines[at + 2].split() == [
        *("sink", "3.1", "pd_acme:Acme"),
        *("org.example.AcmeConnector,", "AcmeConnector,", "Acme"),
    ]
    assert f"{folder / 'pd_plain.py'} (module)" in result.lines
    assert (
        "not declared by an entry point, found by scanning modules: org.example.PlainConnector"
    ) in result.lines
    assert (
        "a running worker keeps the code it has loaded; restart it after a change" in result.lines
    )
    assert result.code == Exit.DONE


def test_broken_plugins_are_explained_and_the_exit_code_is_1(
    penstock: Penstock, folder: Path, worker_file: str
) -> None:
    write(folder, {"pd_broken.py": code("Broken", more="import no_such_module_of_mine")})
    result = penstock("plugins", "doctor", worker_file)
    assert result.code == Exit.DIFFERENT
    place = folder / "pd_broken.py"
    assert (
        "  broken: 'pd_broken' (pd_broken): ModuleNotFoundError: No module named "
        f"'no_such_module_of_mine' ({place}, line 4)"
    ) in result.lines
    assert result.lines[-1] == "broken: 1"


def test_jars_a_missing_path_and_shared_names_are_reported_and_do_no_harm(
    penstock: Penstock, folder: Path, worker_file: str
) -> None:
    gone = folder.parent / "gone"
    with open(worker_file, "w") as file:
        file.write(f"plugin.path={folder},{gone}\n")
    jar(folder / "a.jar", "org.apache.kafka.connect.file.FileStreamSinkConnector", "com.acme.Java")
    jar(folder / "lib" / "b.jar")
    write(folder, {"pd_one.py": code("Same"), "pd_other.py": code("Same", package="com.acme")})
    write(folder, {"pd_old.py": code("Same", version="0.9")})
    result = penstock("plugins", "doctor", worker_file)
    assert result.code == Exit.DONE
    for line in (
        f"{folder / 'a.jar'} (jar; connectors written in Java run in the Java host)",
        "  org.apache.kafka.connect.file.FileStreamSinkConnector: penstock has it, too",
        "  com.acme.Java: only in Java",
        "places with jars that declare no plugins of Kafka Connect: 1",
        f"  warning: Could not get listing for plugin path: {gone} (No such file or "
        "directory). Ignoring",
        "ambiguous: 2 plugins are called 'Same', so the name cannot be used: "
        "com.acme.SameConnector, org.example.SameConnector",
        f"not used: org.example.SameConnector 0.9 in {folder / 'pd_old.py'}, because of 1.0 in "
        f"{folder / 'pd_one.py'}",
    ):
        assert line in result.lines


def test_with_json_everything_is_one_document(
    penstock: Penstock, folder: Path, worker_file: str
) -> None:
    write(folder, {"pd_fine.py": code("Fine"), "pd_bad.py": code("Bad", more="1 / 0")})
    result = penstock("plugins", "doctor", "--json", worker_file)
    assert result.code == Exit.DIFFERENT
    report: dict[str, Any] = json.loads(result.out)
    assert report["broken"] == 1
    assert report["undeclared"] == ["org.example.FineConnector"]
    places = {place["where"]: place for place in report["places"]}
    assert places[str(folder / "pd_fine.py")]["plugins"] == [
        {
            "type": "sink",
            "class": "org.example.FineConnector",
            "version": "1.0",
            "python": "pd_fine:Fine",
            "names": ["org.example.FineConnector", "FineConnector", "Fine"],
            "used": True,
        }
    ]
    (problem,) = places[str(folder / "pd_bad.py")]["skipped"]
    assert problem["level"] == "broken"
    assert problem["why"].startswith("ZeroDivisionError: division by zero")
    assert penstock("--json", "plugins", "doctor", worker_file).out == result.out


def test_the_doctor_says_when_a_worker_would_not_start(
    penstock: Penstock, folder: Path, worker_file: str
) -> None:
    write(folder, {"pd_fine.py": code("Fine")})
    with open(worker_file, "a") as file:
        file.write("plugin.discovery=hybrid_fail\n")
    result = penstock("plugins", "doctor", worker_file)
    assert result.code == Exit.DIFFERENT
    assert any(
        line.startswith("a worker would not start: One or more plugins are not declared")
        for line in result.lines
    )


def test_variables_count_as_for_a_worker(
    penstock: Penstock, folder: Path, environ: dict[str, str]
) -> None:
    write(folder, {"pd_fine.py": code("Fine")})
    environ["CONNECT_PLUGIN_PATH"] = str(folder)
    assert f"{folder / 'pd_fine.py'} (module)" in penstock("plugins", "doctor").lines


def test_a_missing_worker_file_is_exit_code_2(penstock: Penstock, tmp_path: Path) -> None:
    result = penstock("plugins", "doctor", str(tmp_path / "gone.properties"))
    assert result.code == Exit.USAGE
    assert "Cannot read the worker file" in result.err


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ([], ["sink.py", "source.py", "test_sink.py", "test_source.py"]),
        (["--source"], ["source.py", "test_source.py"]),
        (["--sink"], ["sink.py", "test_sink.py"]),
        (["--source", "--sink"], ["sink.py", "source.py", "test_sink.py", "test_source.py"]),
    ],
)
def test_a_project_is_written_with_what_was_asked_for(
    penstock: Penstock, tmp_path: Path, options: list[str], files: list[str]
) -> None:
    result = penstock("plugins", "new", "river_taps", "--folder", str(tmp_path), *options)
    assert result.code == Exit.DONE
    project = tmp_path / "river_taps"
    written = sorted(path for path in project.rglob("*") if path.is_file())
    assert sorted(result.lines) == [str(path) for path in written]
    names = sorted(path.name for path in written)
    common = ["README.md", "__init__.py", "conftest.py", "pyproject.toml"]
    assert names == sorted([*common, *files])
    whole = "".join(path.read_text() for path in written)
    assert "notes" not in whole.lower()
    for half in ("Source", "Sink"):
        assert (f"RiverTaps{half}" in whole) == (f"{half.lower()}.py" in files)


@pytest.mark.parametrize(
    "name", ["", "Taps", "two words", "1st", "../up", "class", "json", "penstock"]
)
def test_a_name_that_cannot_be_a_module_is_refused(
    penstock: Penstock, tmp_path: Path, name: str
) -> None:
    result = penstock("plugins", "new", name, "--folder", str(tmp_path))
    assert result.code == Exit.USAGE
    assert "name" in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_as_it_is(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "taps").mkdir()
    result = penstock("plugins", "new", "taps", "--folder", str(tmp_path))
    assert result.code == Exit.DIFFERENT
    assert "exists already; nothing was written" in result.err
    assert list((tmp_path / "taps").iterdir()) == []

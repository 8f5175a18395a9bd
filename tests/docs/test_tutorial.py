"""The steps of docs/tutorial.md, and the example of docs/plugins.md."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from penstock.config.properties import parse_properties
from penstock.kafka.broker import Broker, free_port
from penstock.testing.processes import WorkerProcess
from penstock.testing.waiting import wait_until
from tests.places import ROOT

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow(215)]

DOCS: Final = ROOT / "docs"
PAGE: Final = (DOCS / "tutorial.md").read_text()
FILES: Final = dict(
    re.findall(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
)
SHELL: Final = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROPERTIES: Final = re.findall(r"^```properties\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BIN: Final = str(Path(sys.executable).parent)


def run(text: str, folder: Path, **variables: str) -> str:
    """Returns what shell commands print; all of them must succeed."""
    path = os.pathsep.join([BIN, os.environ["PATH"]])
    quick = {"PYTEST_ADDOPTS": "-p no:schemathesis"}  # it takes a second to import
    done = subprocess.run(
        ["sh", "-e", "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        timeout=600,
        check=False,
        env={**os.environ, "PATH": path, **quick, **variables},
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, with every file as the page shows it."""
    folder = tmp_path_factory.mktemp("tutorial")
    run("penstock plugins new notes --example", folder)
    for name, text in FILES.items():
        (folder / "notes" / name).write_text(text)
    return folder / "notes"


def test_the_first_commands_write_the_project_and_test_it(tmp_path: Path) -> None:
    said = run(SHELL[0], tmp_path)
    assert re.search(r"\b\d\d passed, \d skipped, 2 deselected", said), said


def test_the_connectors_pass_the_whole_suite(folder: Path) -> None:
    said = run("pytest -q", folder)
    assert re.search(r"^\d\d passed, \d skipped in", said, re.MULTILINE), said


def test_a_file_becomes_a_row(folder: Path, broker: Broker) -> None:
    settings = {
        **parse_properties(PROPERTIES[0].encode()),
        "bootstrap.servers": broker.bootstrap,
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    with WorkerProcess(folder, settings) as worker:
        worker.await_rest()
        reported = run(f"penstock plugins doctor {worker.file.name}", folder)
        for name in ("NotesSource", "NotesSink"):
            assert f", {name}Connector, {name}\n" in reported
        run(SHELL[1], folder, PENSTOCK_URL=worker.url)
        wait_until(lambda: rows(folder / "notes.db"), 240, "the note in the table")
    assert rows(folder / "notes.db") == [("001.txt", "Hello\n")]


EXAMPLE_TESTS: Final = """
from penstock.testing.conformance import SinkConformance, records_of

from example import Names


class TestNames(SinkConformance):
    connector = Names

    def config(self):
        return {"names.file": str(self.folder / "names.txt")}

    def records(self, numbers, *, schema):
        if schema:
            return None
        return records_of([{"name": f"n{n}"} for n in numbers], first=numbers.start)

    def expected(self, records):
        return [value["name"] for value in records.values.values]

    def contents(self):
        file = self.folder / "names.txt"
        return file.read_text().splitlines() if file.exists() else []

    def bad_records(self):
        return records_of([{"surname": "x"}, "text", 1])
"""


def test_the_sink_of_the_reference_page_passes_the_suite(tmp_path: Path) -> None:
    page = (DOCS / "plugins.md").read_text()
    (example,) = re.findall(r"^A complete sink:\n\n```python\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "example.py").write_text(example)
    (tmp_path / "test_example.py").write_text(EXAMPLE_TESTS)
    said = run("pytest -q -p no:cacheprovider --rootdir=.", tmp_path, PYTHONPATH=str(tmp_path))
    assert re.search(r"\b\d\d passed, \d skipped", said), said


def rows(database: Path) -> list[tuple[str, str]]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as opened:
        try:
            return opened.execute("SELECT * FROM notes").fetchall()
        except sqlite3.OperationalError:  # the table does not exist yet
            return []

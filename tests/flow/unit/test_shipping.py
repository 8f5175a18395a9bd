"""What executors receive of penstock and of plugins, and that they can import it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import pytest

import penstock
from penstock.flow.spark import shipping


def installed(folder: Path, name: str, files: dict[str, str], module: str) -> EntryPoint:
    """The entry point of a distribution that consists of `files`."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "direct_url.json").write_text("{}")
    listed = [*files, f"{about.name}/METADATA", f"{about.name}/direct_url.json"]
    (about / "RECORD").write_text("".join(f"{path},,\n" for path in listed))
    (about / "entry_points.txt").write_text(f"[penstock.plugins]\n{name} = {module}:Plugin\n")
    (entry,) = Distribution.at(about).entry_points
    return entry


def content(archive: Path) -> set[str]:
    with zipfile.ZipFile(archive) as file:
        return {name for name in file.namelist() if not name.startswith("penstock/")}


def run(archive: Path, code: str) -> str:
    """What a Python without penstock prints in the archive's folder, as on an executor."""
    ours = f"import sys; sys.path.insert(0, {archive.name!r})\n"
    command = [sys.executable, "-I", "-S", "-c", ours + code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=archive.parent, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_penstock_is_imported_from_the_archive(tmp_path: Path) -> None:
    shipment = shipping.pack(tmp_path, [])
    code = "import penstock, penstock.ids; print(penstock.VERSION, penstock.ids.__file__)"
    version, place = run(shipment.archive, code).split()
    assert version == penstock.VERSION
    assert tmp_path / place == shipment.archive / "penstock" / "ids.py"
    assert content(shipment.archive) == set()
    with zipfile.ZipFile(shipment.archive) as file:
        assert not [name for name in file.namelist() if "__pycache__" in name]


def test_equal_contents_have_equal_names_and_others_have_others(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    plugin = installed(tmp_path / "site", "other", {"other.py": ""}, "other")
    first, second = (shipping.pack(tmp_path / name, []).archive for name in ("a", "b"))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    assert shipping.pack(tmp_path / "c", [plugin]).archive.name != first.name


def test_a_plugin_goes_along_with_all_its_distribution_has(tmp_path: Path) -> None:
    files = {
        "top/__init__.py": "from helper import answer",
        "top/data.txt": "text",
        "top/__pycache__/__init__.cpython-311.pyc": "",
        "company/plugins/more.py": "answer = 1",  # a package without `__init__`
        "helper.py": "answer = 42",
        "trick.pth": "/somewhere",
        "../../bin/script": "",
    }
    plugin = installed(tmp_path / "lib" / "site", "top", files, "top")
    shipment = shipping.pack(tmp_path, [plugin])
    assert {name for name in content(shipment.archive) if not name.endswith("/")} == {
        "top/__init__.py",
        "top/data.txt",
        "company/plugins/more.py",
        "helper.py",
        "top-1.0.dist-info/METADATA",
    }
    code = (
        "import top, company.plugins.more; from importlib.metadata import version\n"
        "print(top.answer, company.plugins.more.answer, version('top'))"
    )
    assert run(shipment.archive, code) == "42 1 1.0"


@pytest.mark.parametrize("package", [True, False])
def test_a_plugin_installed_from_its_sources_goes_along_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: bool
) -> None:
    sources = tmp_path / "sources"
    place = sources / "edited" / "__init__.py" if package else sources / "edited.py"
    place.parent.mkdir(parents=True)
    place.write_text("answer = 7")
    monkeypatch.syspath_prepend(str(sources))
    plugin = installed(tmp_path / "site", "edited", {"edited.pth": str(sources)}, "edited")
    shipment = shipping.pack(tmp_path, [plugin])
    assert run(shipment.archive, "import edited; print(edited.answer)") == "7"


def test_a_plugin_with_compiled_parts_is_left_out_and_named(tmp_path: Path) -> None:
    files = {"fast/__init__.py": "", "fast/core.cpython-311-x86_64-linux-gnu.so": ""}
    compiled = installed(tmp_path / "site", "fast", files, "fast.module")
    plain = installed(tmp_path / "other", "plain", {"plain.py": ""}, "plain")
    shipment = shipping.pack(tmp_path, [compiled, plain])
    assert shipment.left_out == ("fast",)
    assert content(shipment.archive) == {
        "plain.py",
        "plain-1.0.dist-info/",
        "plain-1.0.dist-info/METADATA",
    }

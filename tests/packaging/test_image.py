"""The Dockerfile does what the documentation promises, and what it copies exists."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import penstock
from penstock.cli.app import cli
from tests.places import ROOT
from tests.servers.image import instructions

from .programs import program

DOCKERFILE: Final = ROOT / "Dockerfile"


def stages() -> list[list[tuple[str, str]]]:
    made: list[list[tuple[str, str]]] = []
    for keyword, rest in instructions(DOCKERFILE):
        if keyword == "FROM":
            made.append([])
        if made:
            made[-1].append((keyword, rest))
    return made


FINAL: Final = stages()[-1]


def last(keyword: str) -> str:
    """The arguments of the last instruction of that name in the final stage."""
    return [rest for each, rest in FINAL if each == keyword][-1]


def test_every_instruction_is_one() -> None:
    known = set(
        "ARG FROM RUN ENV WORKDIR COPY LABEL VOLUME EXPOSE USER HEALTHCHECK ENTRYPOINT CMD".split()
    )
    assert {keyword for keyword, _ in instructions(DOCKERFILE)} <= known
    assert len(stages()) == 3


def ignored(path: str) -> bool:
    """Whether the last pattern of .dockerignore that matches a path excludes it."""
    out = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        name = pattern.removeprefix("!")
        if fnmatch(path, name) or any(fnmatch(str(up), name) for up in Path(path).parents):
            out = not pattern.startswith("!")
    return out


def test_copied_files_exist_and_are_not_ignored() -> None:
    copied = [
        source
        for keyword, rest in instructions(DOCKERFILE)
        if keyword == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source
    assert ignored("tests") and ignored(".git") and ignored("src/penstock/__pycache__/a.pyc")  # noqa: PT018


def test_its_commands_are_ours() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["tini", "--", "penstock"]
    [command] = json.loads(last("CMD"))
    assert command in cli.commands
    health = json.loads(last("HEALTHCHECK").split("CMD ")[1])
    assert health == ["penstock", "container", "health"]
    cli.commands["container"].make_context("container", health[2:])


def test_it_is_not_root_and_has_its_jars_and_one_volume() -> None:
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", last("USER"))
    variables = dict(re.findall(r"(\w+)=(\S+)", last("ENV")))
    assert last("VOLUME") == variables["PENSTOCK_DATA"] == variables["HOME"]
    build = " ".join(rest for keyword, rest in stages()[1] if keyword == "RUN")
    assert f"penstock jars spark --to {variables['PENSTOCK_JARS']}" in build
    assert "--require-hashes" in build
    labels = last("LABEL")
    assert "org.opencontainers.image.revision" in labels
    assert f"VERSION={penstock.VERSION}" in [rest for keyword, rest in FINAL if keyword == "ARG"]


def test_its_python_is_one_that_penstock_runs_on() -> None:
    [base] = [
        rest for keyword, rest in instructions(DOCKERFILE) if keyword == "ARG" and "BASE" in rest
    ]
    version = re.search(r"python:(\d+)\.(\d+)", base)
    assert version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={version[1]}.{version[2]}"
    assert f"lib/python{version[1]}.{version[2]}/site-packages" in DOCKERFILE.read_text()


@pytest.fixture
def slim() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slim", ROOT / "packaging" / "image" / "slim.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_that_no_worker_uses_are_removed(slim: ModuleType, tmp_path: Path) -> None:
    patterns = [each for group in slim.UNUSED.values() for each in group]
    for pattern in patterns:
        path = tmp_path / pattern.replace("**", "deep/er").replace("*", "x")
        path.parent.mkdir(parents=True, exist_ok=True)
        if "*" in pattern and "**" not in pattern and not pattern.endswith("/"):
            path.write_bytes(b"x" * 10)
        else:
            path.mkdir(parents=True)
            (path / "test.py").write_bytes(b"x" * 10)
    kept = {tmp_path / "pyspark/jars/spark-core_2.13.jar"}
    kept |= {tmp_path / name / "service-2.json.gz" for name in slim.KEPT}
    for file in kept:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert slim.slim(tmp_path) == 10 * len(patterns)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == kept
    with pytest.raises(SystemExit, match="matches nothing"):
        slim.slim(tmp_path)


def test_the_packages_that_are_installed_have_what_is_removed(slim: ModuleType) -> None:
    import pyspark

    packages = Path(pyspark.__file__).parents[1]
    for patterns in slim.UNUSED.values():
        for pattern in patterns:
            assert next(packages.glob(pattern), None) is not None, pattern
    assert all((packages / name).is_dir() for name in slim.KEPT)


def test_a_linter_finds_nothing() -> None:
    done = subprocess.run(
        [program("hadolint"), str(DOCKERFILE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout

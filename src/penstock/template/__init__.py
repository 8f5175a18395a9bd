"""The template of a new connector's project, with the name `notes`: a `skeleton/` to fill in, or an
`example/` that works, which docs/tutorial.md explains; both include the files in `common/`."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.errors import AlreadyExists, ConfigInvalid

NAME: Final = "notes"

_FILES: Final = Path(__file__).parent
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_SUFFIX: Final = ".in"  # so that tools do not take them for penstock's files
_HALVES: Final = {"source": "Source", "sink": "Sink"}


def write_project(
    folder: Path, name: str, *, source: bool = True, sink: bool = True, example: bool = False
) -> list[Path]:
    """Writes the project into `folder`/`name`; returns its files. Needs `source`, `sink`, or both.

    Raises ConfigInvalid for an invalid module name, AlreadyExists if the folder exists, and
    OSError.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigInvalid(
            [f"'{name}' is not a module name: use lower-case letters, digits and underscores."]
        )
    if name == "penstock" or name in {*sys.stdlib_module_names, "tests", "test"}:
        raise ConfigInvalid([f"'{name}' is the name of another module; choose another name."])
    target = folder / name
    try:
        target.mkdir(parents=True)
    except FileExistsError:
        raise AlreadyExists(f"'{target}' exists already; nothing was written.") from None
    written: list[Path] = []
    for place, text in project(name, source=source, sink=sink, example=example):
        file = target / place
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        written.append(file)
    return written


def project(
    name: str, *, source: bool = True, sink: bool = True, example: bool = False
) -> Iterator[tuple[str, str]]:
    """The files of a project of this name, by their paths in it; from the `example`, or from the
    skeleton."""
    left_out = [half for half, included in (("source", source), ("sink", sink)) if not included]
    words = {NAME: name, NAME.title(): "".join(part.title() for part in name.split("_"))}
    folders = [_FILES / "common", _FILES / ("example" if example else "skeleton")]
    files = {
        str(file.relative_to(folder)).removesuffix(_SUFFIX): file
        for folder in folders
        for file in folder.rglob(f"*{_SUFFIX}")
    }
    for place, file in sorted(files.items()):
        if any(Path(place).stem.endswith(half) for half in left_out):
            continue
        lines = file.read_text().splitlines(keepends=True)
        removed = [
            word
            for half in left_out
            for word in (f"{NAME.title()}{_HALVES[half]}", f"{NAME}/{half}.py", f"test_{half}.py")
        ]
        text = "".join(line for line in lines if not any(word in line for word in removed))
        for word, own in words.items():
            place, text = place.replace(word, own), text.replace(word, own)
        yield place, text

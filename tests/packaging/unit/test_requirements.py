"""The pinned requirements can be installed with every Python and on every machine that penstock
runs on: what a package needs only on some is pinned, too."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.places import ROOT

FOLDER: Final = ROOT / "requirements"
PYTHONS: Final = ("3.11.0", "3.11.9", "3.12.3", "3.13.1", "3.14.0")
MACHINES: Final = ("x86_64", "aarch64")
LINE: Final = re.compile(r"^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?==([^\s;\\]+)", re.MULTILINE)


@cache
def environment(python: str, machine: str) -> dict[str, str]:
    version = python.rpartition(".")[0]
    return {
        **{name: str(text) for name, text in default_environment().items()},
        "python_version": version,
        "python_full_version": python,
        "implementation_version": python,
        "platform_machine": machine,
    }


@cache
def requirements(name: str) -> list[Requirement]:
    """What an installed package requires anywhere."""
    return [Requirement(text) for text in distribution(name).requires or ()]


@cache
def holds(marker: Marker | None, python: str, machine: str, extra: str) -> bool:
    about = {**environment(python, machine), "extra": extra}
    return marker is None or marker.evaluate(about)


def asked_for(name: str, extras: list[str], python: str, machine: str) -> list[Requirement]:
    """The dependencies of an installed package with a Python on a machine."""
    return [
        each
        for each in requirements(name)
        if any(holds(each.marker, python, machine, extra) for extra in ("", *extras))
    ]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("file", ["runtime.txt", "dev.txt"])
def test_whatever_a_package_asks_for_is_pinned(file: str, python: str, machine: str) -> None:
    lines = LINE.findall((FOLDER / file).read_text())
    pins = {canonicalize_name(name): version for name, _, version in lines}
    absent = []
    for name, extras, _ in lines:
        try:
            asked = asked_for(name, extras.split(","), python, machine)
        except PackageNotFoundError:  # for other Pythons
            continue
        absent += [
            f"{name} asks for {each}"
            for each in asked
            if (pin := pins.get(canonicalize_name(each.name))) is None
            or not each.specifier.contains(pin, prereleases=True)
        ]
    assert len(pins) > 40
    assert absent == []

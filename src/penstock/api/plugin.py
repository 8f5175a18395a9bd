"""The description of a plugin, and the findings of `validate_live`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from penstock.config.define import ConfigDef
from penstock.errors import NotInstalled


@dataclass(frozen=True, slots=True)
class Extra:
    """The packages that a family of plugins needs besides penstock's: an extra of the family's
    distribution, so that only users of the family install them.

    >>> Extra("jdbc", "JDBC connectors", ("psycopg", "pymysql", "jpype")).command
    "pip install 'penstock[jdbc]'"
    """

    name: str
    family: str  # as messages call it
    modules: tuple[str, ...]  # the packages, as they are imported
    distribution: str = "penstock"

    @property
    def command(self) -> str:
        """The install command."""
        return f"pip install '{self.distribution}[{self.name}]'"

    def missing(self, modules: Iterable[str] | None = None) -> list[str]:
        """The modules among these (by default all) that are not installed. Imports none."""
        names = self.modules if modules is None else modules
        return [name for name in names if not _is_importable(name)]

    def problem(self, modules: Iterable[str] | None = None) -> str | None:
        """The message if one of these modules (by default all) is missing, or None."""
        missing = self.missing(modules)
        if not missing:
            return None
        return (
            f"{self.family} need packages that are not installed ({', '.join(missing)}); install "
            f"them with: {self.command}"
        )

    def require(self, modules: Iterable[str] | None = None) -> None:
        """Raises NotInstalled if one of these modules (by default all) is missing."""
        problem = self.problem(modules)
        if problem is not None:
            raise NotInstalled([problem])


def _is_importable(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class Plugin:
    """Name, version and settings of one plugin class; a class variable `plugin` on the class.

    `class_name` is the full name that configurations use. Give a plugin that exists for Kafka
    Connect its Java class name, so that existing configurations work unchanged.
    """

    class_name: str
    version: str
    config: ConfigDef
    task_class: str | None = None  # connectors: `task.class` in stored task configs
    also: tuple[str, ...] = ()  # full names of other plugins whose configurations it understands
    extra: Extra | None = None  # connectors: the packages that they need
    experimental: str | None = None
    """Why users should not rely on it yet, as a sentence; None: they may. `penstock plugins doctor`
    shows it."""

    @property
    def simple_name(self) -> str:
        """`class_name` without its package, and without the class it is nested in (`A$Key`)."""
        return self.class_name.rpartition(".")[2].rpartition("$")[2]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about one setting, by its name: the whole error message, and recommended values;
    None: no error, no recommendation."""

    setting: str
    error: str | None = None
    recommended: Sequence[object] | None = None

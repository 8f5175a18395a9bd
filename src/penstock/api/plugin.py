"""The description of a plugin, and the findings of `validate_live`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.config.define import ConfigDef


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

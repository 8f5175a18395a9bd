"""What a plugin says of itself, and of the system it connects to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.config.define import ConfigDef


@dataclass(frozen=True, slots=True)
class Plugin:
    """Name, version and settings of one plugin class; a class variable `plugin` on the class.

    `class_name` is the full name that configurations use: for a plugin that exists in the Kafka
    Connect world its Java name there, so that existing configurations select it unchanged.
    """

    class_name: str
    version: str
    config: ConfigDef
    task_class: str | None = None  # connectors: what `task.class` says in stored task configs
    also: tuple[str, ...] = ()  # full names of other plugins whose configurations it understands

    @property
    def simple_name(self) -> str:
        """`class_name` without its package, and without the class it is nested in (`A$Key`)."""
        return self.class_name.rpartition(".")[2].rpartition("$")[2]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look at the system itself says of one setting, by its name: what is wrong with it, the
    whole message, and the values that it could have; None: nothing."""

    setting: str
    error: str | None = None
    recommended: Sequence[object] | None = None

"""The contracts of transforms, which change records between connector and converters, and of
predicates, which say for which records a transform applies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from penstock.api.plugin import Plugin
from penstock.config.define import Config
from penstock.data.records import Failed, Records


class Transform(ABC):
    """Changes records, a batch at a time.

    An instance is made once per task from its parsed configuration; it may keep caches, by schema
    above all. Raise ConfigInvalid from `__init__` for settings that contradict each other.
    """

    plugin: ClassVar[Plugin]

    keeps_fields: bool = False
    """Whether `apply` does without looking at each value of `Fields`, so that a sink's values may
    come and go as such. For other transforms they would be a detour."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def apply(self, records: Records, failed: Failed) -> Records:
        """The records with their change made, in the same order.

        Records may be left out (`records.only(…)` keeps count of them) but not added. A record
        that cannot be changed gets an entry in `failed`, by its row in `records`; what the result
        has in its place, if anything, is thrown away. It never raises for a record. What it is
        given stays as it is: lists, maps and structs are copied before they are changed.
        """

    def close(self) -> None:  # noqa: B027 - few hold something open
        """Lets go of what is held open. Called once, when the task has ended."""


class Predicate(ABC):
    """Says which records a transform applies to."""

    plugin: ClassVar[Plugin]

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def test(self, records: Records, failed: Failed) -> Sequence[bool]:
        """Whether each of the records is meant. One that cannot be judged goes into `failed`."""

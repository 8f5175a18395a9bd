"""The contracts of transforms, which change records between connector and converters, and of
predicates, which select the records for a transform."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from penstock.api.plugin import Plugin
from penstock.config.define import Config
from penstock.data.records import Failed, Records


class Transform(ABC):
    """Changes records, a batch at a time.

    An instance is created once per task from its parsed configuration; it may keep caches, for
    example by schema. Raise ConfigInvalid from `__init__` for settings that contradict each other.
    """

    plugin: ClassVar[Plugin]

    keeps_fields: bool = False
    """Whether `apply` works without looking at each value of `Fields`, so that a sink's values can
    be passed as `Fields`."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def apply(self, records: Records, failed: Failed) -> Records:
        """The transformed records, in the same order.

        Records may be dropped (`records.only(…)` keeps count of them) but not added. A record
        that cannot be transformed gets an entry in `failed`, by its row in `records`; its place in
        the result is ignored. It never raises for a record, and does not modify its arguments: copy
        lists, maps and structs before you change them.
        """

    def close(self) -> None:  # noqa: B027 - few hold resources
        """Releases resources. Called once, when the task has ended."""


class Predicate(ABC):
    """Selects the records that a transform applies to."""

    plugin: ClassVar[Plugin]

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def test(self, records: Records, failed: Failed) -> Sequence[bool]:
        """Whether the transform applies, for each record. A failed test is an entry in `failed`."""

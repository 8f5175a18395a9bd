"""What source and sink connectors have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from penstock.api.plugin import Finding, Plugin
from penstock.config.define import Config

Props = Mapping[str, str]
"""A configuration as it is written, setting by setting."""


class Connector(ABC):
    """Moves data between Kafka and another system."""

    plugin: ClassVar[Plugin]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        """What a look at the other system says of a configuration which is in order by itself.
        Asked with every validation, so before a connector is created or changed, too.

        May connect, once and for some seconds; must change nothing there. A PenstockError counts as
        an error of the setting that its message names.
        """
        return ()

    @abstractmethod
    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        """The configurations of the tasks to run, at most `max_tasks` of them."""

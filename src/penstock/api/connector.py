"""What source and sink connectors have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from penstock.api.plugin import Finding, Plugin
from penstock.api.task import ConnectorContext
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

    def start(self, config: Config, context: ConnectorContext) -> None:  # noqa: B027
        """Called once, on the worker that the connector is assigned to, before it is asked for its
        tasks. One that watches for new tables, topics or files begins here, in a thread of its own,
        and calls `context.request_reconfiguration()` when its tasks are to be others."""

    @abstractmethod
    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        """The configurations of the tasks to run, at most `max_tasks` of them. Asked after `start`,
        and again whenever what there is to do may have changed."""

    def stop(self) -> None:  # noqa: B027
        """The connector runs here no more: paused, changed, deleted or assigned to another worker.
        Called once, after `start`; lets go of what it holds."""

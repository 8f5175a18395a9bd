"""What source and sink connectors have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

from penstock.api.plugin import Finding, Plugin
from penstock.api.task import ConnectorContext
from penstock.config.define import Config

Props = Mapping[str, str]
"""A raw configuration: strings by setting."""


class Connector(ABC):
    """Moves data between Kafka and another system."""

    plugin: ClassVar[Plugin]

    def required_modules(self, config: Config) -> Collection[str]:
        """The modules of `plugin.extra.modules` that this configuration needs; by default all. If
        one is missing, the configuration is refused: in validations, and before anything starts."""
        return () if self.plugin.extra is None else self.plugin.extra.modules

    def check_installed(self, config: Config) -> None:
        """Raises NotInstalled if a required module is missing here. The engine calls it."""
        if self.plugin.extra is not None:
            self.plugin.extra.require(self.required_modules(config))

    def validate_live(self, config: Config) -> Iterable[Finding]:
        """Checks a valid configuration against the external system. Called with every validation,
        so also before a connector is created or updated.

        May connect once, for a few seconds; must not change anything. A PenstockError counts as an
        error of the setting that its message names.
        """
        return ()

    def start(self, config: Config, context: ConnectorContext) -> None:  # noqa: B027
        """Called once, on the worker that the connector is assigned to, before `plan_tasks`. A
        connector that monitors tables, topics or files starts to do so here, in its own thread, and
        calls `context.request_reconfiguration()` when its task configurations change."""

    @abstractmethod
    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        """Generates the task configurations, at most `max_tasks`. Called after `start`, and again
        for every reconfiguration."""

    def stop(self) -> None:  # noqa: B027
        """Called once, after `start`, when the connector is paused, updated, deleted or reassigned.
        Releases its resources."""

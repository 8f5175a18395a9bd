"""Generates task configurations with a worker's connector instances."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.api import Connector, Offsets
from penstock.cluster import events as e
from penstock.config.providers import restored
from penstock.offsets.admin import OffsetAdmin
from penstock.plugins.registry import PluginKind, Registry
from penstock.runtime.instances import Instance, InstanceContext, Instances, stop
from penstock.runtime.java_work import JavaWork, java_trace
from penstock.runtime.metrics import Metrics
from penstock.runtime.planning import Planned, Planner

log = logging.getLogger(__name__)


class RunningConnectors:
    """Starts connectors and generates their task configurations. Both block, in connector code; the
    outcome becomes an event."""

    def __init__(
        self,
        registry: Registry,
        planner: Planner,
        instances: Instances,
        offsets: OffsetAdmin,
        java: JavaWork,
        metrics: Metrics,
        post: Callable[[e.Event], None],
    ) -> None:
        self._registry = registry
        self._planner = planner
        self._instances = instances
        self._offsets = offsets
        self._java = java
        self._metrics = metrics
        self._post = post

    def plan(self, command: e.StartConnector | e.AskConnector) -> None:
        """Generates task configurations, with the running instance or with a new one."""
        name, run = command.connector, command.run
        starting = isinstance(command, e.StartConnector)
        running = self._instances.get(name, run)
        try:
            planned = self._planned(command, running)
        except Exception as error:
            trace = java_trace(error)
            shown = self._planner.providers.redacted(trace.text)
            if starting:
                log.error("Connector %s failed: %s", name, shown)
                self._metrics.started("connector", False)
            else:
                message = self._planner.providers.redacted(str(error))
                log.warning(
                    "failed to generate task configs; keeping the current ones: %s", message
                )
            self._post(e.ConnectorPlanned(name, run, (), shown, retriable=trace.retriable))
        else:
            if running is None:
                self._instances.put(name, run, planned.connector)
            if starting:
                self._metrics.started("connector", True)
            configs = tuple(planned.configs)
            self._post(e.ConnectorPlanned(name, run, configs, again_ms=planned.again_ms))

    def _planned(
        self, command: e.StartConnector | e.AskConnector, running: Instance | None
    ) -> Planned:
        if not self._java.runs(command.config):
            assert running is None or isinstance(running, Connector)
            context = self._context(command)
            return self._planner.planned(command.connector, command.config, running, context)
        name, config = command.connector, command.config
        instance = running or self._java.start_connector(name, command.run, config)
        try:
            configs = self._java.task_configs(name, config)
        except BaseException:
            if running is None:
                stop(name, instance)
            raise
        return Planned([restored(config, each) for each in configs], None, instance)

    def _context(self, command: e.StartConnector | e.AskConnector) -> InstanceContext:
        """The context of one run's connector instance."""
        name, run, config = command.connector, command.run, command.config

        def read() -> Offsets:
            entry = self._registry.find_connector_of(config)
            if entry is None or entry.kind is not PluginKind.SOURCE:
                return ()
            return self._offsets.stored(name, self._planner.resolved(config))

        return InstanceContext(
            name, read, lambda: self._post(e.ReconfigurationRequested(name, run))
        )

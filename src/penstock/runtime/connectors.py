"""Generates task configurations with a worker's connector instances."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.api import Offsets
from penstock.cluster import events as e
from penstock.flow.traces import trace_of
from penstock.offsets.admin import OffsetAdmin
from penstock.plugins.registry import PluginKind, Registry
from penstock.runtime.instances import InstanceContext, Instances
from penstock.runtime.metrics import Metrics
from penstock.runtime.planning import Planner

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
        metrics: Metrics,
        post: Callable[[e.Event], None],
    ) -> None:
        self._registry = registry
        self._planner = planner
        self._instances = instances
        self._offsets = offsets
        self._metrics = metrics
        self._post = post

    def plan(self, command: e.StartConnector | e.AskConnector) -> None:
        """Generates task configurations, with the running instance or with a new one."""
        name, run = command.connector, command.run
        starting = isinstance(command, e.StartConnector)
        running = self._instances.get(name, run)
        try:
            planned = self._planner.planned(name, command.config, running, self._context(command))
        except Exception as error:
            trace = trace_of(error)
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

    def _context(self, command: e.StartConnector | e.AskConnector) -> InstanceContext:
        """The context of one run's connector instance."""
        name, run, config = command.connector, command.run, command.config

        def read() -> Offsets:
            entry = self._registry.find_connector(config.get("connector.class"))
            if entry is None or entry.kind is not PluginKind.SOURCE:
                return ()
            return self._offsets.stored(name, self._planner.resolved(config))

        return InstanceContext(
            name, read, lambda: self._post(e.ReconfigurationRequested(name, run))
        )

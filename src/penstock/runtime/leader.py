"""A worker's requests to the leader, and the fencing that it performs as the leader."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.cluster import events as e
from penstock.cluster.records import RawProps
from penstock.config import worker as worker_config
from penstock.config.define import Config
from penstock.ids import TaskId
from penstock.kafka.fencing import fence
from penstock.offsets.store import connector_admin
from penstock.runtime.ports import Leader

log = logging.getLogger(__name__)


class LeaderRequests:
    """Requests to the leader. They block; the leader's answers become events."""

    def __init__(self, leader: Leader, post: Callable[[e.Event], None]) -> None:
        self._leader = leader
        self._post = post

    def put_tasks(self, command: e.ForwardTasks) -> None:
        """Submits a connector's task set."""
        try:
            self._leader.put_tasks(command.leader_url, command.connector, command.configs)
        except Exception as error:
            log.warning("failed to submit task configs to the leader: %s", error)
            self._post(e.TasksForwarded(command.connector, str(error)))
        else:
            self._post(e.TasksForwarded(command.connector))

    def fence(self, command: e.ForwardFence) -> None:
        """Requests zombie fencing for a connector."""
        refused = None
        try:
            self._leader.fence(command.leader_url, command.connector)
        except Exception as error:
            log.info("zombie fencing request to the leader failed: %s", error)
            refused = e.Refused(getattr(error, "http_status", 500), str(error))
        self._post(e.FenceForwarded(command.connector, command.ticket, refused))


class ZombieFencing:
    """Fences the producers of a connector's earlier task sets, on the leader."""

    def __init__(
        self,
        config: Config,
        resolved: Callable[[RawProps], RawProps],
        current: Callable[[str, int], bool],
        post: Callable[[e.Event], None],
    ) -> None:
        """`current` says whether a round of fencing, by connector and ticket, is the latest."""
        self._config = config
        self._resolved = resolved
        self._current = current
        self._post = post

    def fence(self, command: e.FenceProducers) -> None:
        """Blocks. Stops when another leader has started its own round meanwhile: the rest of this
        one would fence the current tasks."""
        name, ticket = command.connector, command.ticket
        log.info("fencing zombie source tasks: producers of %d tasks", command.tasks)
        try:
            client_id = f"connector-worker-adminclient-{name}"
            used = self._resolved(command.config)
            settings = connector_admin(self._config, client_id, used)
            tasks = (TaskId(name, number) for number in range(command.tasks))
            ids = [worker_config.transactional_id(self._config, task) for task in tasks]
            fence(settings, ids, wanted=lambda: self._current(name, ticket))
        except Exception as error:
            log.warning("failed to fence zombie source tasks: %s", error)
            self._post(e.ProducersFenced(name, ticket, str(error)))
        else:
            self._post(e.ProducersFenced(name, ticket))

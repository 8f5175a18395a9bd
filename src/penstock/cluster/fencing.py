"""Zombie fencing: the steps before an exactly-once task set may start (KIP-618).

Once a task set is committed, tasks of an older one may still run somewhere, unreachable, with open
transactions: zombies. A round fences their transactional ids and records that in the config topic;
only then does the new set start. Source: kafka-connect.md §4.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.cluster.events import Refused, Reply
from penstock.cluster.state import UNKNOWN, ClusterState

GIVE_UP_MS: Final = 60_000
"""How long this worker retries a round before the tasks that wait for it fail."""

PERMANENT: Final = frozenset({400, 404})
"""HTTP statuses of refusals that are not retried."""

NEW_TASKS: Final = Refused(
    409, "Failed to complete zombie fencing because a new set of task configs was generated"
)
LOST_LEADERSHIP: Final = Refused(
    409, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
)
NOT_READ: Final = Refused(
    500, "Failed to read to end of config topic before performing zombie fencing"
)
NOT_READ_AGAIN: Final = Refused(500, "Failed to read to end of config topic")


class FencingStage(Enum):
    """The steps of a round on the leader."""

    READING = "reading"  # the config topic, to its end
    FENCING = "fencing"  # the older producers
    CHECKING = "checking"  # the config topic again: is it still about the newest task set?
    RECORDING = "recording"  # the task count is to be written …
    WRITING = "writing"  # … and is on its way


@dataclass(frozen=True, slots=True)
class Round:
    """A leader's round for one connector, and who waits for it."""

    ticket: int
    stage: FencingStage
    waiting: tuple[Reply, ...] = ()
    own: int = 0  # the ticket of this worker's own preflight, if it waits too
    tasks: int = 0  # the size of the task set that may start afterwards


@dataclass(frozen=True, slots=True)
class Preflight:
    """A worker's request for a round, for the tasks of one connector that it has to start."""

    since: int
    ticket: int = 0  # of the request; 0: it has not been sent yet
    at: int = 0  # when it may be sent
    attempts: int = 0
    granted: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    """The work of a round: fence the ids of tasks 0 to `fence` - 1, then record `tasks`."""

    fence: int
    tasks: int


def need(cluster: ClusterState, connector: str) -> Need | None:
    """The fencing that is due before the connector's tasks may start; None: nothing.

    A single task that replaces a single task fences it by itself, with its transactional id.
    """
    entry = cluster.entries.get(connector, UNKNOWN)
    if not entry.pending_fencing:
        return None
    recorded, tasks = entry.fencing_count, cluster.task_count(connector)
    if recorded is None or (recorded, tasks) == (1, 1):
        return Need(0, tasks)
    return Need(recorded, tasks)

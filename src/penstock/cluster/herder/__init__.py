"""The decisions of a worker, by subject: `step(state, event, now) -> (state, commands)`.

`dispatch` calls the subject of each event; below it are `requests` and `reconciliation`, then
`membership`, `fencing`, `task_configs`, `restarts`, `writes` and `statuses`, on `turn` (one step in
progress), `state` and `runs` (frozen values). Imports point down in this order.
"""

from penstock.cluster.herder.dispatch import step

__all__ = ["step"]

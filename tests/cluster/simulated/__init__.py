"""A simulated cluster: many herders, one fake clock, one seed.

Everything around the herders is simulated: the two topics, compacted now and then, with separate
delays for every reader; the group coordinator; tasks and connectors that take time to start and
stop; forwarded requests; and with `exactly_once`, transactional ids with their epochs and tasks
that commit. Workers crash, stop gracefully, restart with their name, hang for longer than a
session, lose their coordinator, and have clocks that jump. `Faults` sets how messages are lost and
delayed. Invariants are checked after every step (`Broken` names the violated one); `problems()`
lists the differences between the cluster and its configuration.

`simulation` holds the cluster, `chaos` makes trouble for it: `python -m
tests.cluster.simulated.chaos --help` runs many seeds. Below are `problems`, `worker`, and the
worker's parts: `member` (its group client) and `producers`. Each states in a Protocol what it may
use of the cluster around it; all extend `world`. At the bottom are `coordinator`, `tasks`,
`topics`, `connectors` and `faults`.
"""

from tests.cluster.simulated.simulation import Sim

__all__ = ["Sim"]

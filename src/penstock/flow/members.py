"""Members of consumer groups that are gone, and what Kafka has to be told of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 2_000


def put_out(settings: Mapping[str, object], group: str, member: str) -> None:
    """Makes sure that a member which has been closed is not waited for.

    A member that is closed while the group is being shared out anew does not get out by itself:
    librdkafka says so on the connection on which Kafka holds back the answer to its wish to join,
    and gives up. For as long as a session, mostly 45 s, the group would then do nothing, or keep
    partitions for nobody. `settings` say how to connect, in kafka-python's names. Blocks for some
    hundredths of a second, at most two seconds; if Kafka cannot be told, the session ends it.
    """
    timeouts = {"bootstrap_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": _TIMEOUT_MS}
    try:
        client = KafkaAdminClient(**{**settings, **timeouts})
        try:
            client.remove_group_members(group, [MemberToRemove(member_id=member)])
        finally:
            client.close()
    except Exception as error:  # whatever it is, its task has ended and has to go on to say so
        log.warning("%s may be waited for in %s until its session ends: %s", member, group, error)

"""Members of consumer groups that are gone, and that Kafka does not know of yet."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 2_000


def remove_group_member(settings: Mapping[str, object], group: str, member: str) -> None:
    """Removes a consumer from its group when it could not leave by itself.

    For as long as its session, 45 s by default, the group would otherwise wait for it, or keep
    partitions for it. `settings` say how to connect, in kafka-python's names. Blocks for some
    hundredths of a second, two seconds at most; where Kafka cannot be told, the session ends it.
    """
    from kafka import KafkaAdminClient  # rarely needed, and 20 MB
    from kafka.admin import MemberToRemove

    timeouts = {"bootstrap_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": _TIMEOUT_MS}
    try:
        client = KafkaAdminClient(**{**settings, **timeouts})
        try:
            client.remove_group_members(group, [MemberToRemove(member_id=member)])
        finally:
            client.close()
    except Exception as error:  # whatever it is, the task has ended all the same
        log.warning("failed to remove group member %s of %s: %s", member, group, error)

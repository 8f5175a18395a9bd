"""Removes members of consumer groups that have ended without leaving.

Until its session expires, after 45 s by default, a group waits for such a member, or keeps its
partitions assigned. `settings` are connection settings, in kafka-python's names. Calls usually
block for tens of milliseconds, a few seconds at most. If Kafka is unreachable, they log it, and the
session expires.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 2_000


def remove_member(settings: Mapping[str, object], group: str, member: str) -> None:
    """Removes a consumer that could not leave its group by itself."""
    try:
        with _connected(settings) as client:
            _remove(client, group, [member])
    except Exception as error:  # the task has ended in any case
        log.warning("failed to remove group member %s of %s: %s", member, group, error)


def remove_members_of(settings: Mapping[str, object], group: str, client_id: str) -> None:
    """Removes all members with a client id from a group: consumers of a worker that died. Zombies
    among them can no longer commit."""
    try:
        with _connected(settings) as client:
            described = client.describe_groups([group])[group]
            member_ids = [
                member["member_id"]
                for member in described["members"]
                if member["client_id"] == client_id
            ]
            if member_ids:
                _remove(client, group, member_ids)
                log.info(
                    "removed group member %s of %s: its worker died", ", ".join(member_ids), group
                )
    except Exception as error:  # the members' sessions expire anyway, only later
        log.warning("failed to remove the group members %s of %s: %s", client_id, group, error)


@contextmanager
def _connected(settings: Mapping[str, object]) -> Iterator[KafkaAdminClient]:
    from kafka import KafkaAdminClient  # rarely needed, and 20 MB

    timeouts = {"bootstrap_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": _TIMEOUT_MS}
    client = KafkaAdminClient(**{**settings, **timeouts})
    try:
        yield client
    finally:
        client.close()


def _remove(client: KafkaAdminClient, group: str, members: Collection[str]) -> None:
    from kafka.admin import MemberToRemove

    client.remove_group_members(group, [MemberToRemove(member_id=member) for member in members])

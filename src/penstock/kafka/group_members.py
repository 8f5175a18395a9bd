"""Removes members of consumer groups that have ended without leaving.

Until its session expires, after 45 s by default, a group waits for such a member, or keeps its
partitions assigned. `settings` are kafka-python's connection settings. Calls usually
block for tens of milliseconds, a few seconds at most. If Kafka is unreachable, they log it, and the
session expires.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from penstock.host.tls import TlsSettings

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Member:
    """kafka-python's connection settings; they can be sent to another process."""

    settings: Mapping[str, object] = field(repr=False)
    tls: TlsSettings | None = None

    def arguments(self) -> dict[str, object]:
        """The arguments of a client."""
        if self.tls is None:
            return dict(self.settings)
        from penstock.host.tls import client_context  # needed only here, and with TLS

        return {**self.settings, "ssl_context": client_context(self.tls)}


def remove_member(settings: Member, group: str, member: str) -> None:
    """Removes a consumer that could not leave its group by itself."""
    try:
        with _connected(settings) as client:
            _remove(client, group, [member])
    except Exception as error:  # the task has ended in any case
        log.warning("failed to remove group member %s of %s: %s", member, group, error)


def remove_members_of(settings: Member, group: str, client_id: str) -> None:
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
def _connected(settings: Member) -> Iterator[KafkaAdminClient]:
    from kafka import KafkaAdminClient  # rarely needed, and 20 MB

    timeouts = {"bootstrap_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": _TIMEOUT_MS}
    client = KafkaAdminClient(**{**settings.arguments(), **timeouts})
    try:
        yield client
    finally:
        client.close()


def _remove(client: KafkaAdminClient, group: str, members: Collection[str]) -> None:
    from kafka.admin import MemberToRemove

    client.remove_group_members(group, [MemberToRemove(member_id=member) for member in members])

"""Checks of a configuration against the servers: that they answer, accept the user, and know the
commands that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from penstock.api import ConfigInvalid, Finding, PenstockError
from penstock.api.settings import invalid
from penstock.connectors.redis.client.access import Access, Mode

_WAIT_S = 5.0


def notification_findings(access: Access, setting: str) -> Iterable[Finding]:
    """The findings of a source that needs keyspace notifications."""
    yield from findings(access, (), setting, notifies=True)


def findings(
    access: Access,
    commands: Sequence[str] = (),
    setting: str = "redis.type",
    *,
    notifies: bool = False,
) -> Iterable[Finding]:
    """Connects and checks the servers. `commands`: the connector's commands; an unknown one blames
    `setting`, a forbidden one the user."""
    from penstock.connectors.redis.client.errors import RedisRefused, error_of, not_alone
    from penstock.connectors.redis.client.servers import Servers

    timeout_s = min(access.timeout_s or _WAIT_S, _WAIT_S)
    brief = replace(
        access,
        timeout_s=timeout_s,
        connect_timeout_s=min(access.connect_timeout_s or _WAIT_S, _WAIT_S),
        attempts=1,
    )
    servers = Servers(brief)
    try:
        if access.tls is not None:
            access.tls()  # its errors name their settings
        node = servers.primaries()[0]
        node.ask("PING")
        if access.mode is not Mode.CLUSTER and _is_clustered(node.ask):
            yield Finding(access.blame, _about(access.blame, str(not_alone(node.address))))
            return
        yield from _commands(node.ask, commands, setting)
        if notifies:
            yield from _notifications(node.ask, setting)
    except ConfigInvalid as error:
        yield from (Finding(_named(text), text) for text in error.problems)
    except RedisRefused as error:
        yield _finding(access, error)
    except PenstockError as error:
        yield Finding(access.blame, _about(access.blame, str(error)))
    except Exception as error:
        yield _finding(access, error_of(error, f"Cannot reach {access.text}"))
    finally:
        servers.close()


def _notifications(ask: Callable[..., Any], setting: str) -> Iterable[Finding]:
    from redis.exceptions import RedisError

    try:
        reply = ask("CONFIG", "GET", "notify-keyspace-events")
    except RedisError:
        return  # the user may not read it, as with most services
    flags = reply[1].decode() if len(reply) > 1 else ""
    if "K" not in flags or len(flags) < 2:
        yield Finding(
            setting,
            "The server does not publish keyspace notifications: set notify-keyspace-events to KEA "
            f"in its configuration (it is '{flags}')",
        )


def _is_clustered(ask: Callable[..., Any]) -> bool:
    from redis.exceptions import RedisError

    try:
        return b"cluster_enabled:1" in ask("INFO", "cluster")
    except RedisError:
        return False  # the user may not read it


def _commands(ask: Callable[..., Any], commands: Sequence[str], setting: str) -> Iterable[Finding]:
    from redis.exceptions import RedisError

    try:
        infos = ask("COMMAND", "INFO", *commands) if commands else []
    except RedisError:
        return  # not allowed, or the server does not answer
    unknown = [name for name, info in zip(commands, infos, strict=False) if not info]
    if unknown:
        yield Finding(
            setting,
            f"The server does not know {', '.join(unknown)}, which {setting} needs: JSON and time "
            "series need Redis 8 or Redis Stack",
        )


def _finding(access: Access, error: Exception) -> Finding:
    text = str(error)
    refuses_user = any(
        word in text
        for word in ("WRONGPASS", "NOAUTH", "NOPERM", "assword", "AUTH", "uthentication")
    )
    setting = access.blame_user if refuses_user else access.blame
    return Finding(setting, _about(setting, text))


def _about(setting: str, text: str) -> str:
    return invalid(setting, "[hidden]", text)


def _named(text: str) -> str:
    """The setting at the start of a message."""
    words = text.removeprefix("Invalid value ").split()
    return next((word.strip(":,'") for word in words if "." in word and "/" not in word), "")

"""What the errors of servers mean: away or busy, moved, refused, or wrong for every record."""

from __future__ import annotations

from enum import Enum
from typing import Final

from penstock.api import DataError, PenstockError, Unavailable


class RedisUnavailable(Unavailable):
    """The server is away or busy; the call is repeated."""

    code = "redis.unavailable"


class RedisRefused(PenstockError):
    """The server refuses a call, whatever the record."""

    code = "redis.refused"


class RecordRefused(DataError):
    """The server refuses the command of one record."""

    code = "redis.record_refused"


class Answered(PenstockError):
    """What a server answered in place of a result; `text` begins with the error's code."""

    code = "redis.answered"

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)


class Meaning(Enum):
    """What the error of a command means."""

    BUSY = "busy"  # it passes; the command is repeated
    DEMOTED = "demoted"  # the server is no primary any more: another one is to be found
    MOVED = "moved"  # the key is at another node of the cluster
    ASK = "ask"  # the key is on its way there
    RECORD = "record"  # this command cannot be done
    FATAL = "fatal"  # no command of the kind can


_MEANINGS: Final = {
    "OOM": Meaning.BUSY,
    "LOADING": Meaning.BUSY,
    "BUSY": Meaning.BUSY,
    "MISCONF": Meaning.BUSY,
    "NOREPLICAS": Meaning.BUSY,
    "MASTERDOWN": Meaning.BUSY,
    "CLUSTERDOWN": Meaning.BUSY,
    "TRYAGAIN": Meaning.BUSY,
    "EXECABORT": Meaning.BUSY,  # the errors of the commands in it tell why
    "READONLY": Meaning.DEMOTED,
    "UNBLOCKED": Meaning.DEMOTED,
    "MOVED": Meaning.MOVED,
    "ASK": Meaning.ASK,
    "NOAUTH": Meaning.FATAL,
    "WRONGPASS": Meaning.FATAL,
    "NOPERM": Meaning.FATAL,
}
"""By the first word of an error."""


def meaning_of(error: str) -> Meaning:
    """What an error that a server answered means.

    >>> meaning_of("OOM command not allowed when used memory > 'maxmemory'.")
    <Meaning.BUSY: 'busy'>
    >>> meaning_of("WRONGTYPE Operation against a key holding the wrong kind of value")
    <Meaning.RECORD: 'record'>
    """
    if error.startswith("NOPERM") and "' command" not in error:
        return Meaning.RECORD  # other keys may be allowed
    if error.startswith("ERR unknown command"):
        return Meaning.FATAL
    if error.startswith("ERR max number of clients"):
        return Meaning.BUSY
    return _MEANINGS.get(error.partition(" ")[0], Meaning.RECORD)


def target_of(error: str) -> tuple[str, int]:
    """The host and port that MOVED or ASK names; an empty host is that of the answering node.

    >>> target_of("MOVED 3999 127.0.0.1:6381")
    ('127.0.0.1', 6381)
    """
    host, _, port = error.split()[2].rpartition(":")
    return host, int(port)


def fatal(error: str) -> RedisRefused:
    """An error that no other record would avoid, with what to do about it."""
    if error.startswith("ERR unknown command"):
        return RedisRefused(
            f"The server does not know the command: {error}. JSON and time series need Redis 8 or "
            "Redis Stack; change `redis.type` or the server"
        )
    return RedisRefused(f"The server refuses the user: {error}")


def not_alone(address: object) -> RedisRefused:
    """The error of a server that has only a part of the keys."""
    return RedisRefused(
        f"{address} is a node of a cluster: set redis.cluster=true (redis.client.mode=Cluster, "
        "penstock.cluster=true)"
    )


def error_of(error: Exception, what: str) -> PenstockError:
    """An error of redis-py, or of the socket, as one of ours; `what` failed."""
    from redis import exceptions as redis

    if isinstance(error, Answered):
        text = f"{what}: {error.text}"
        meaning = meaning_of(error.text)
        passes = meaning not in (Meaning.RECORD, Meaning.FATAL)
        return RedisUnavailable(text) if passes else RedisRefused(text)
    if isinstance(error, PenstockError):
        return error
    text = f"{what}: {error}"
    if isinstance(error, (redis.AuthenticationError, redis.NoPermissionError)):
        return RedisRefused(f"{text}. Check the user and the password")
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError, OSError)):
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return RedisRefused(f"{text}. Check the certificates that are trusted")
        return RedisUnavailable(text)
    code = getattr(error, "status_code", None)
    words = f"{code} {error}" if code and not str(error).startswith(code) else str(error)
    if meaning_of(words) in (Meaning.RECORD, Meaning.FATAL):
        return RedisRefused(f"{what}: {words}")
    return RedisUnavailable(f"{what}: {words}")

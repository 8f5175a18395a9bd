"""The meaning of server errors: unavailable or busy, moved, or refused for one or all records."""

from __future__ import annotations

from enum import Enum
from typing import Final

from penstock.api import DataError, PenstockError, Unavailable


class RedisUnavailable(Unavailable):
    """The server is unavailable or busy; the engine retries the call."""


class RedisRefused(PenstockError):
    """The server refuses a call for any record."""


class RecordRefused(DataError):
    """The server refuses the command of one record."""


class Answered(PenstockError):
    """An error reply of a server; `text` begins with the error's code."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)


class Meaning(Enum):
    """The meaning of a command's error."""

    BUSY = "busy"  # transient: retry the command
    DEMOTED = "demoted"  # the server is no longer a primary: find the new one
    MOVED = "moved"  # the key is on another node of the cluster
    ASK = "ask"  # the key is being moved there
    RECORD = "record"  # this command fails
    FATAL = "fatal"  # all commands of the kind fail


_MEANINGS: Final = {
    "OOM": Meaning.BUSY,
    "LOADING": Meaning.BUSY,
    "BUSY": Meaning.BUSY,
    "MISCONF": Meaning.BUSY,
    "NOREPLICAS": Meaning.BUSY,
    "MASTERDOWN": Meaning.BUSY,
    "CLUSTERDOWN": Meaning.BUSY,
    "TRYAGAIN": Meaning.BUSY,
    "EXECABORT": Meaning.BUSY,  # the errors of its commands have the reason
    "READONLY": Meaning.DEMOTED,
    "UNBLOCKED": Meaning.DEMOTED,
    "MOVED": Meaning.MOVED,
    "ASK": Meaning.ASK,
    "NOAUTH": Meaning.FATAL,
    "WRONGPASS": Meaning.FATAL,
    "NOPERM": Meaning.FATAL,
}
"""The meaning by the first word of an error."""


def meaning_of(error: str) -> Meaning:
    """The meaning of an error reply.

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
    """The host and port in MOVED or ASK; an empty host is the answering node's.

    >>> target_of("MOVED 3999 127.0.0.1:6381")
    ('127.0.0.1', 6381)
    """
    host, _, port = error.split()[2].rpartition(":")
    return host, int(port)


def fatal(error: str) -> RedisRefused:
    """The error for all records, with advice."""
    if error.startswith("ERR unknown command"):
        return RedisRefused(
            f"The server does not know the command: {error}. JSON and time series need Redis 8 or "
            "Redis Stack; change `redis.type` or the server"
        )
    return RedisRefused(f"The server refused the user: {error}")


def not_alone(address: object) -> RedisRefused:
    """The error for a cluster node that is configured as a single server."""
    return RedisRefused(
        f"{address} is a node of a cluster: set redis.cluster=true (redis.client.mode=Cluster, "
        "penstock.cluster=true)"
    )


def error_of(error: Exception, action: str) -> PenstockError:
    """Translates an error of redis-py or the socket; `action` describes what failed."""
    from redis import exceptions as redis

    if isinstance(error, Answered):
        text = f"{action}: {error.text}"
        meaning = meaning_of(error.text)
        is_transient = meaning not in (Meaning.RECORD, Meaning.FATAL)
        return RedisUnavailable(text) if is_transient else RedisRefused(text)
    if isinstance(error, PenstockError):
        return error
    text = f"{action}: {error}"
    if isinstance(error, (redis.AuthenticationError, redis.NoPermissionError)):
        return RedisRefused(f"{text}. Check the user and the password")
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError, OSError)):
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return RedisRefused(f"{text}. Check the trusted certificates")
        return RedisUnavailable(text)
    code = getattr(error, "status_code", None)
    words = f"{code} {error}" if code and not str(error).startswith(code) else str(error)
    if meaning_of(words) in (Meaning.RECORD, Meaning.FATAL):
        return RedisRefused(f"{action}: {words}")
    return RedisUnavailable(f"{action}: {words}")

"""What a cluster's errors mean: down, busy, or refused."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.api import PenstockError, Unavailable


class CassandraUnavailable(Unavailable):
    """The cluster is unreachable, busy or too slow; the call is retried."""


class CassandraRefused(PenstockError):
    """The cluster refuses a call for any record."""


class NotAllowed(CassandraRefused):
    """The cluster rejects the user, or denies the user the operation."""


def is_transient(error: BaseException) -> bool:
    """Whether an error is transient: a retry may succeed."""
    import cassandra
    from cassandra import connection, protocol
    from cassandra.cluster import NoHostAvailable

    if isinstance(error, NoHostAvailable):
        causes = _causes(error)
        return not causes or any(is_transient(each) for each in causes)
    return isinstance(
        error,
        (
            cassandra.OperationTimedOut,
            cassandra.Unavailable,
            cassandra.Timeout,
            cassandra.CoordinationFailure,
            protocol.OverloadedErrorMessage,
            protocol.IsBootstrappingErrorMessage,
            protocol.TruncateError,
            protocol.UnavailableErrorMessage,
            protocol.WriteTimeoutErrorMessage,
            protocol.ReadTimeoutErrorMessage,
            connection.ConnectionException,
            connection.ConnectionBusy,
            cassandra.UnresolvableContactPoints,
            OSError,
        ),
    ) and not isinstance(error, (connection.ProtocolVersionUnsupported,))


def is_forbidden(error: BaseException) -> bool:
    """Whether the cluster rejects the user, or denies the user the operation."""
    import cassandra
    from cassandra import protocol
    from cassandra.cluster import NoHostAvailable

    if isinstance(error, NoHostAvailable):
        return any(is_forbidden(each) for each in _causes(error))
    return isinstance(
        error,
        (
            cassandra.AuthenticationFailed,
            cassandra.Unauthorized,
            protocol.BadCredentials,
            protocol.UnauthorizedErrorMessage,
        ),
    )


def error_of(error: BaseException, what: str) -> PenstockError:
    """A driver's error as one of ours; `what` failed."""
    text = f"{what}: {shown(error)}"
    if is_forbidden(error):
        return NotAllowed(text)
    return CassandraUnavailable(text) if is_transient(error) else CassandraRefused(text)


def most_telling(errors: Sequence[BaseException]) -> BaseException:
    """The first error with a cause. When a node goes down, requests that find no node left fail
    before those that were on their way to it."""
    from cassandra.cluster import NoHostAvailable

    for error in errors:
        if not isinstance(error, NoHostAvailable) or _causes(error):
            return error
    return errors[0]


def shown(error: BaseException) -> str:
    """An error in one line."""
    from cassandra.cluster import NoHostAvailable

    if isinstance(error, NoHostAvailable):
        causes = _causes(error)
        if causes:
            return "; ".join(dict.fromkeys(shown(each) for each in causes))
        return "no node of the local data center responds"
    message = getattr(error, "message", "")
    text = message if isinstance(message, str) and message else str(error)
    return " ".join(text.split()) or type(error).__name__


def _causes(error: BaseException) -> list[BaseException]:
    errors = getattr(error, "errors", None)
    values = errors.values() if isinstance(errors, dict) else ()
    return [each for each in values if isinstance(each, BaseException)]

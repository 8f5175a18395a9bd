"""Classifies errors of the driver: unavailable, busy, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.api import PenstockError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pymongo.errors import PyMongoError

TRANSIENT: Final = frozenset(
    {
        6,  # HostUnreachable
        7,  # HostNotFound
        50,  # MaxTimeMSExpired
        64,  # WriteConcernFailed: a timeout
        89,  # NetworkTimeout
        91,  # ShutdownInProgress
        112,  # WriteConflict
        133,  # FailedToSatisfyReadPreference
        134,  # ReadConcernMajorityNotAvailableYet
        189,  # PrimarySteppedDown
        262,  # ExceededTimeLimit
        317,  # ConnectionPoolExpired
        9001,  # SocketException
        10107,  # NotWritablePrimary
        11600,  # InterruptedAtShutdown
        11602,  # InterruptedDueToReplStateChange
        13388,  # StaleConfig
        13435,  # NotPrimaryNoSecondaryOk
        13436,  # NotPrimaryOrSecondary
        16500,  # too many requests, as Azure's Cosmos DB says
    }
)
"""Codes of transient errors: the call is retried."""

NOT_ALLOWED: Final = frozenset({13, 18, 8000})
"""Unauthorized, AuthenticationFailed, and Atlas's own code."""


class MongoUnavailable(Unavailable):
    """The server is unavailable or busy; the call is retried."""


class MongoRefused(PenstockError):
    """The server refuses a call, regardless of the record."""


def is_transient(code: object, labels: object = ()) -> bool:
    """Whether an error with this code and these labels is transient."""
    marked = isinstance(labels, (list, tuple)) and "RetryableWriteError" in labels
    return code in TRANSIENT or marked


def error_of(error: PyMongoError, failure: str) -> PenstockError:
    """MongoUnavailable or MongoRefused for an error of the driver; `failure` says what failed."""
    from pymongo import errors

    text = f"{failure}: {shown(error)}"
    if isinstance(error, errors.ServerSelectionTimeoutError):
        return MongoUnavailable(text)
    if isinstance(error, errors.OperationFailure):
        details: Mapping[str, Any] = error.details or {}
        if is_transient(error.code, details.get("errorLabels", ())):
            return MongoUnavailable(text)
        return MongoRefused(text)
    if isinstance(error, (errors.ConnectionFailure, errors.ExecutionTimeout)):
        return MongoUnavailable(text)
    return MongoRefused(text)


def shown(error: PyMongoError) -> str:
    """An error in one line, without the description of the whole topology."""
    text = str(getattr(error, "_message", "") or error)
    return text.split(", Timeout: ")[0].split(", full error: ")[0]

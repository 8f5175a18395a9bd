"""Classifies errors of the SDK: the cluster is unavailable or busy, refuses one document, or
refuses every call."""

from __future__ import annotations

from typing import Final

from couchbase import exceptions as sdk

from penstock.api import DataError, PenstockError, Unavailable


class CouchbaseUnavailable(Unavailable):
    """The cluster is unavailable or busy; the call is repeated."""


class CouchbaseRefused(PenstockError):
    """The cluster refuses a call, regardless of the record."""


class WriteRefused(DataError):
    """The cluster refuses the write of a record."""


_TRANSIENT: Final = (
    sdk.TimeoutException,
    sdk.AmbiguousTimeoutException,
    sdk.UnAmbiguousTimeoutException,
    sdk.TemporaryFailException,
    sdk.ServiceUnavailableException,
    sdk.RequestCanceledException,
    sdk.DurabilitySyncWriteInProgressException,
    sdk.DurabilitySyncWriteAmbiguousException,
    sdk.DurabilityImpossibleException,  # too few replicas now
    sdk.DocumentLockedException,
    sdk.CasMismatchException,
    sdk.RateLimitedException,
    sdk.InternalServerFailureException,
)
_RECORDS: Final = (
    sdk.DocumentNotFoundException,
    sdk.DocumentExistsException,
    sdk.DocumentNotJsonException,
    sdk.InvalidArgumentException,  # such as an id that is too long
    sdk.InvalidValueException,
    sdk.ValueFormatException,
    sdk.ValueTooDeepException,
    sdk.NumberTooBigException,
    sdk.PathExistsException,
    sdk.PathInvalidException,
    sdk.PathMismatchException,
    sdk.PathNotFoundException,
    sdk.PathTooBigException,
    sdk.PathTooDeepException,
    sdk.SubdocCantInsertValueException,
    sdk.SubdocPathMismatchException,
)
_TOO_BIG: Final = "value_too_large"  # the SDK has no class for it


def shown(error: BaseException) -> str:
    """The message of an error, in one line."""
    context = getattr(error, "error_code", None)
    message = getattr(error, "message", None) or str(error)
    name = type(error).__name__
    return f"{name}: {message}" if context is None else f"{name}: {message} ({context})"


def is_transient(error: Exception) -> bool:
    """Whether the cluster is unavailable or busy."""
    return isinstance(error, _TRANSIENT)


def error_of(error: Exception, failure: str) -> PenstockError:
    """An error of the SDK as a PenstockError; `failure` says what failed."""
    text = f"{failure}: {shown(error)}"
    if is_transient(error):
        return CouchbaseUnavailable(text)
    if isinstance(error, _RECORDS) or _TOO_BIG in str(error).lower():
        return WriteRefused(text)
    return CouchbaseRefused(text)

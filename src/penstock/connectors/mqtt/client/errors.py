"""Errors of a broker."""

from __future__ import annotations

from typing import Final

from penstock.api import ConfigInvalid, PenstockError, Unavailable
from penstock.connectors.mqtt.client.options import Names, Server

# Reason codes of CONNACK; paho maps those of MQTT 3.1.1 to them.
_VERSION: Final = 132
_CLIENT_ID: Final = 133
_CREDENTIALS: Final = 134
_UNAUTHORIZED: Final = 135
_UNAVAILABLE: Final = frozenset({136, 137, 151, 156, 157, 159})
TAKEN_OVER: Final = 142
_NOT_AUTHORIZED: Final = frozenset({_CREDENTIALS, _UNAUTHORIZED, 138, 140})


class Unreachable(Unavailable):
    """No broker answers, or the connection broke."""


class Refused(PenstockError):
    """The broker refuses the connection or a subscription; no retry helps."""


class TakenOver(PenstockError):
    """Another client has connected with the same client id."""


def refusal(server: Server, reason: int, text: str, names: Names) -> PenstockError:
    """The error for the reason code of a CONNACK."""
    message = f"The broker {server} refused the connection: {text}."
    if reason in _UNAVAILABLE:
        return Unreachable(message)
    if reason in _NOT_AUTHORIZED:
        return Refused(f"{message} Check {names.username} and {names.password}.")
    if reason == _CLIENT_ID:
        return Refused(f"{message} Change {names.client_id}.")
    if reason == _VERSION:
        return Refused(f"{message} Change {names.version}.")
    return Refused(message)


def setting_of(error: Exception, names: Names) -> str:
    """The setting that a connection error is about."""
    text = str(error)
    for name in (names.username, names.client_id, names.version, names.trust):
        if name in text:
            return name
    return names.servers


def renamed(error: ConfigInvalid, new_names: dict[str, str]) -> ConfigInvalid:
    """The error with settings renamed."""
    problems = []
    for problem in error.problems:
        for old, new in new_names.items():
            problem = problem.replace(old, new)
        problems.append(problem)
    return ConfigInvalid(problems)

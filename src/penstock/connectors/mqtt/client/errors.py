"""What can go wrong with a broker."""

from __future__ import annotations

from typing import Final

from penstock.api import ConfigInvalid, PenstockError, Unavailable
from penstock.connectors.mqtt.client.options import Names, Server

# Of CONNACK, as paho gives them for MQTT 3.1.1 too.
_VERSION: Final = 132
_CLIENT_ID: Final = 133
_CREDENTIALS: Final = 134
_UNAUTHORIZED: Final = 135
_UNAVAILABLE: Final = frozenset({136, 137, 151, 156, 157, 159})
TAKEN_OVER: Final = 142
_NOT_AUTHORIZED: Final = frozenset({_CREDENTIALS, _UNAUTHORIZED, 138, 140})


class Unreachable(Unavailable):
    """No broker answers, or the connection broke."""

    code = "mqtt.unreachable"


class Refused(PenstockError):
    """The broker refuses the connection or a subscription; another try does not help."""

    code = "mqtt.refused"


class TakenOver(PenstockError):
    """Another client has connected with the same client id."""

    code = "mqtt.taken_over"


def refusal(server: Server, reason: int, text: str, names: Names) -> PenstockError:
    """The error for the reason code of a CONNACK."""
    told = f"The broker {server} refuses the connection: {text}."
    if reason in _UNAVAILABLE:
        return Unreachable(told)
    if reason in _NOT_AUTHORIZED:
        return Refused(f"{told} Check {names.username} and {names.password}.")
    if reason == _CLIENT_ID:
        return Refused(f"{told} Change {names.client_id}.")
    if reason == _VERSION:
        return Refused(f"{told} Change {names.version}.")
    return Refused(told)


def setting_of(error: Exception, names: Names) -> str:
    """The setting that an error of a connection is about."""
    text = str(error)
    for name in (names.username, names.client_id, names.version, names.trust):
        if name in text:
            return name
    return names.servers


def renamed(error: ConfigInvalid, new_names: dict[str, str]) -> ConfigInvalid:
    """The same error with other names of settings."""
    problems = []
    for problem in error.problems:
        for old, new in new_names.items():
            problem = problem.replace(old, new)
        problems.append(problem)
    return ConfigInvalid(problems)

"""Whether the server can be reached, and what its user may do there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.api import ConfigInvalid, Finding

WAIT_MS: Final = 5_000
"""How long a validation waits for the server."""


def unreachable(client: Any) -> Finding | None:
    """What is wrong with the server of a client, or with its user; None: it answers."""
    from pymongo.errors import OperationFailure, PyMongoError

    from penstock.connectors.mongodb.client.errors import shown

    try:
        client.admin.command("ping")
    except OperationFailure as error:
        return _finding(f"The server refuses the user: {shown(error)}")
    except PyMongoError as error:
        return _finding(f"Unable to connect to the server: {shown(error)}")
    return None


def refused(error: ConfigInvalid) -> Finding:
    """A URI or a file that cannot be used, as a finding of the setting it names."""
    text = str(error)
    for name in ("connection.ssl.truststore", "connection.ssl.keystore"):
        if text.startswith(name):
            return Finding(name, f"Invalid value for configuration {name}: {text}")
    return _finding(text)


def _finding(text: str) -> Finding:
    name = "connection.uri"
    return Finding(name, f"Invalid value [hidden] for configuration {name}: {text}")


def missing_actions(
    client: Any, wanted: Sequence[str], database: str, collection: str
) -> Finding | None:
    """The privileges that the user of a client lacks; None where it has them, or nobody can tell:
    without authentication everything is allowed."""
    from pymongo.errors import PyMongoError

    try:
        told = client.admin.command("connectionStatus", showPrivileges=True)
    except PyMongoError:
        return None
    about: Mapping[str, Any] = told.get("authInfo", {})
    if not about.get("authenticatedUsers"):
        return None
    missing = set(wanted) - _allowed(
        about.get("authenticatedUserPrivileges", ()), database, collection
    )
    if not missing:
        return None
    names = ", ".join(each for each in wanted if each in missing)
    return _finding(
        f"Invalid user permissions. Missing the following action permissions: {names} (on "
        f"{'.'.join(each for each in (database, collection) if each) or 'all databases'})"
    )


def _allowed(privileges: Iterable[Mapping[str, Any]], database: str, collection: str) -> set[str]:
    actions: set[str] = set()
    for each in privileges:
        resource: Mapping[str, Any] = each.get("resource", {})
        own = resource.get("anyResource") or (
            "db" in resource
            and resource["db"] in ("", database)
            and resource.get("collection", "") in ("", collection)
        )
        if own:
            actions.update(each.get("actions", ()))
    return actions

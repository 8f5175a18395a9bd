"""Checks that the server can be reached, and what its user may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.api import ConfigInvalid, Finding

WAIT_MS: Final = 5_000
"""How long a validation waits for the server."""


def unreachable(client: Any) -> Finding | None:
    """A finding if the client's server does not answer, or refuses the user."""
    from pymongo.errors import OperationFailure, PyMongoError

    from penstock.connectors.mongodb.client.errors import shown

    try:
        client.admin.command("ping")
    except OperationFailure as error:
        return _finding(f"The server refused the user: {shown(error)}")
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
    client: Any, actions: Sequence[str], database: str, collection: str
) -> Finding | None:
    """A finding of the privileges that a client's user lacks; None if it has all, or they are
    unknown: without authentication everything is allowed."""
    from pymongo.errors import PyMongoError

    try:
        status = client.admin.command("connectionStatus", showPrivileges=True)
    except PyMongoError:
        return None
    auth: Mapping[str, Any] = status.get("authInfo", {})
    if not auth.get("authenticatedUsers"):
        return None
    missing = set(actions) - _allowed(
        auth.get("authenticatedUserPrivileges", ()), database, collection
    )
    if not missing:
        return None
    names = ", ".join(action for action in actions if action in missing)
    return _finding(
        f"Invalid user permissions. Missing the following action permissions: {names} (on "
        f"{'.'.join(name for name in (database, collection) if name) or 'all databases'})"
    )


def _allowed(privileges: Iterable[Mapping[str, Any]], database: str, collection: str) -> set[str]:
    actions: set[str] = set()
    for privilege in privileges:
        resource: Mapping[str, Any] = privilege.get("resource", {})
        applies = resource.get("anyResource") or (
            "db" in resource
            and resource["db"] in ("", database)
            and resource.get("collection", "") in ("", collection)
        )
        if applies:
            actions.update(privilege.get("actions", ()))
    return actions

"""Parts of findings' messages about tables and users."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from penstock.api.settings import Config
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.settings import connection as keys

_MAX_NAMED: Final = 5  # in a message


def near(name: str, names: Sequence[str]) -> str:
    """The similar names, or else the first ones, as the end of a sentence."""
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=_MAX_NAMED)
    if close:
        return f"; similar: {', '.join(by_lower[lower] for lower in close)}"
    if not names:
        return ""
    more = ", …" if len(names) > _MAX_NAMED else ""
    return f"; existing: {', '.join(names[:_MAX_NAMED])}{more}"


def user_setting(config: Config) -> str:
    """The setting that names the user."""
    return (keys.CONNECTION_USER if config[keys.CONNECTION_USER] else keys.CONNECTION_URL).name


def user(connection: Connection) -> str:
    """The user, in the middle of a sentence."""
    name = connection.url.user
    return f"the user '{name}'" if name else "the user"


def hidden(connection: Connection) -> str:
    """Another possible reason for a missing table, for the middle of a sentence."""
    return f", or {user(connection)} may not see it" if connection.url.user else ""


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]

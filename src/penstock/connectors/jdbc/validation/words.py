"""What findings say of tables and users, in words that say what to do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from penstock.api.settings import Config
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.settings import connection as keys

_MOST_NAMED: Final = 5  # in a message


def near(name: str, names: Sequence[str]) -> str:
    """What may be meant, as the end of a sentence."""
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=_MOST_NAMED)
    if close:
        return f"; near it: {', '.join(by_lower[each] for each in close)}"
    if not names:
        return ""
    more = ", …" if len(names) > _MOST_NAMED else ""
    return f"; there: {', '.join(names[:_MOST_NAMED])}{more}"


def user_setting(config: Config) -> str:
    """The setting that says who connects."""
    return (keys.CONNECTION_USER if config[keys.CONNECTION_USER] else keys.CONNECTION_URL).name


def user(connection: Connection) -> str:
    """Who connects, in the middle of a sentence."""
    name = connection.url.user
    return f"the user '{name}'" if name else "the user"


def hidden(connection: Connection) -> str:
    """What else may be the reason that a table is not found."""
    return f", or {user(connection)} may not see it" if connection.url.user else ""


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]

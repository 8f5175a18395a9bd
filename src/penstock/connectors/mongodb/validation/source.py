"""Checks of a source's configuration against the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.api import ConfigInvalid, Finding
from penstock.api.settings import Config
from penstock.connectors.mongodb.settings import source as k
from penstock.connectors.mongodb.settings.connection import access_of
from penstock.connectors.mongodb.validation.connecting import (
    WAIT_MS,
    missing_actions,
    refused,
    unreachable,
)


def source_findings(config: Config) -> Iterator[Finding]:
    """Findings of a server that cannot be reached, refuses the user, or has no change streams."""
    try:
        with access_of(config, k.CONNECTION_URI, "source").connected(WAIT_MS) as client:
            yield from _server_findings(config, client)
    except ConfigInvalid as error:
        yield refused(error)


def _server_findings(config: Config, client: Any) -> Iterator[Finding]:
    from pymongo.errors import PyMongoError

    unavailable = unreachable(client)
    if unavailable is not None:
        yield unavailable
        return
    missing = missing_actions(
        client, ["changeStream", "find"], config[k.DATABASE], config[k.COLLECTION]
    )
    if missing is not None:
        yield missing
        return
    try:
        server = client.admin.command("isMaster")
        names = sorted(client.list_database_names())
    except PyMongoError:
        return  # the user may not be allowed to list databases
    if "setName" not in server and server.get("msg") != "isdbgrid":
        name = k.CONNECTION_URI.name
        yield Finding(
            name,
            f"Invalid value [hidden] for configuration {name}: change streams need a replica set "
            "or a sharded cluster; the server is standalone",
        )
    yield Finding(k.DATABASE.name, recommended=names)

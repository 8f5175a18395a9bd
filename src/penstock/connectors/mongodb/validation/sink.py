"""Checks of a sink's configuration against the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.api import ConfigInvalid, DataError, Finding
from penstock.api.settings import Config
from penstock.connectors.mongodb.settings import sink as k
from penstock.connectors.mongodb.settings.connection import access_of
from penstock.connectors.mongodb.settings.overrides import override_problems, topic_config
from penstock.connectors.mongodb.validation.connecting import (
    WAIT_MS,
    missing_actions,
    refused,
    unreachable,
)


def sink_findings(config: Config) -> Iterator[Finding]:
    """Findings of invalid settings of topics, of a server that cannot be reached or refuses the
    user, and of a collection that is not a time series."""
    topics = [topic.strip() for topic in config.props.get("topics", "").split(",") if topic.strip()]
    overridden = {name.split(".")[0] for name in config.under(k.OVERRIDE_PREFIX)}
    problems = [
        problem
        for topic in dict.fromkeys((*topics, *sorted(overridden)))
        for problem in override_problems(config, topic)
    ]
    for name, text in problems:
        yield Finding(name, text)
    if problems:
        return
    try:
        with access_of(config, k.CONNECTION_URI, "sink").connected(WAIT_MS) as client:
            yield from _server_findings(config, client, topics)
    except ConfigInvalid as error:
        yield refused(error)


def _server_findings(config: Config, client: Any, topics: list[str]) -> Iterator[Finding]:
    unavailable = unreachable(client)
    if unavailable is not None:
        yield unavailable
        return
    names = _databases(client)
    if names:
        yield Finding(k.DATABASE.name, recommended=names)
    for topic in topics or [""]:
        own = topic_config(config, topic)
        database, collection = own[k.DATABASE], own[k.COLLECTION] or topic
        actions = ["insert", "update", "remove"]
        series = own[k.TIME_FIELD].strip()
        missing = missing_actions(client, actions, database, collection)
        if missing is not None:
            yield missing
            return
        if series and collection:
            problem = _series_problem(client, database, collection)
            if problem is not None:
                yield Finding(k.TIME_FIELD.name, problem)


def _databases(client: Any) -> list[str]:
    from pymongo.errors import PyMongoError

    try:
        return sorted(client.list_database_names())
    except PyMongoError:
        return []  # the user may not be allowed to list them


def _series_problem(client: Any, database: str, collection: str) -> str | None:
    from pymongo.errors import PyMongoError

    from penstock.connectors.mongodb.write.namespaces import Namespace, checked

    try:
        checked(Namespace(database, collection))
        version = client.server_info()["versionArray"]
        if version[0] < 5:
            return "Timeseries support requires MongoDB 5.0 or newer"
        for existing in client[database].list_collections(filter={"name": collection}):
            if existing.get("type") != "timeseries":
                return (
                    f"A collection already exists for: `{database}.{collection}` that is not a "
                    "timeseries collection."
                )
    except (PyMongoError, DataError) as error:
        return f"timeseries.timefield: {error}"
    return None

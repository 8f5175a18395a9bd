"""What a look at the server says of a sink's configuration."""

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
    """Settings of topics that are wrong, a server that cannot be reached or refuses the user, a
    collection that is no time series."""
    topics = [each.strip() for each in config.props.get("topics", "").split(",") if each.strip()]
    overridden = {each.split(".")[0] for each in config.under(k.OVERRIDE_PREFIX)}
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
            yield from _looked(config, client, topics)
    except ConfigInvalid as error:
        yield refused(error)


def _looked(config: Config, client: Any, topics: list[str]) -> Iterator[Finding]:
    away = unreachable(client)
    if away is not None:
        yield away
        return
    names = _databases(client)
    if names:
        yield Finding(k.DATABASE.name, recommended=names)
    for topic in topics or [""]:
        own = topic_config(config, topic)
        database, collection = own[k.DATABASE], own[k.COLLECTION] or topic
        wanted = ["insert", "update", "remove"]
        series = own[k.TIME_FIELD].strip()
        missing = missing_actions(client, wanted, database, collection)
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
        return []  # it may be hidden from the user


def _series_problem(client: Any, database: str, collection: str) -> str | None:
    from pymongo.errors import PyMongoError

    from penstock.connectors.mongodb.write.namespaces import Namespace, checked

    try:
        checked(Namespace(database, collection))
        version = client.server_info()["versionArray"]
        if version[0] < 5:
            return "Timeseries support requires MongoDB 5.0 or newer"
        for each in client[database].list_collections(filter={"name": collection}):
            if each.get("type") != "timeseries":
                return (
                    f"A collection already exists for: `{database}.{collection}` that is not a "
                    "timeseries collection."
                )
    except (PyMongoError, DataError) as error:
        return f"timeseries.timefield: {error}"
    return None

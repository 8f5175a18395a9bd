"""Errors of a cluster."""

from __future__ import annotations

from penstock.connectors.cassandra.client.errors import most_telling
from penstock.connectors.cassandra.client.reactor import connection_class


def test_the_error_with_a_cause_is_shown() -> None:
    connection_class(encrypts=False)
    from cassandra.cluster import NoHostAvailable
    from cassandra.connection import ConnectionShutdown

    empty = NoHostAvailable("Unable to complete the operation against any hosts", {})
    shutdown = ConnectionShutdown("the connection is defunct")
    caused = NoHostAvailable("Unable to complete the operation", {"node": shutdown})
    assert most_telling([empty, shutdown, caused]) is shutdown
    assert most_telling([empty, caused]) is caused
    assert most_telling([empty]) is empty

"""Checks a configuration against the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.api import ConfigInvalid, Finding, PenstockError
from penstock.connectors.cassandra.client.access import Access, close
from penstock.connectors.cassandra.client.errors import NotAllowed
from penstock.connectors.cassandra.read.plan import SourcePlan
from penstock.connectors.cassandra.read.queries import problems as read_problems
from penstock.connectors.cassandra.write.binding import binding_of
from penstock.connectors.cassandra.write.plan import SinkPlan
from penstock.connectors.cassandra.write.tables import problems


def _refused(error: PenstockError, access: Access) -> Iterator[Finding]:
    """A failed attempt to connect, at the setting to change."""
    names = access.names
    address = names.bundle if access.bundle else names.points
    if isinstance(error, ConfigInvalid):
        for text in error.problems:
            settings = (names.bundle, names.tls, names.compression, names.auth)
            named = (setting for setting in settings if setting and setting in text)
            yield Finding(next(named, address), text)
    elif isinstance(error, NotAllowed):
        yield Finding(names.user, f"{error}. Check {names.user} and the password.")
    else:
        yield Finding(address, str(error))


def sink_findings(access: Access, plan: SinkPlan) -> Iterator[Finding]:
    """Reports a cluster that cannot be reached or refuses the user, missing keyspaces, tables and
    columns, and statements that cannot be prepared."""
    try:
        session = access.session()
    except PenstockError as error:
        yield from _refused(error, access)
        return
    try:
        yield from _tables(session, plan)
    finally:
        close(session)


def source_findings(access: Access, plan: SourcePlan) -> Iterator[Finding]:
    """Reports a cluster that cannot be reached or refuses the user, a missing keyspace, missing
    tables and columns, and columns of the wrong type."""
    try:
        session = access.session()
    except PenstockError as error:
        yield from _refused(error, access)
        return
    try:
        for table in plan.tables:
            for text in read_problems(session.cluster.metadata, table, plan.setting):
                yield Finding(text.split(": ")[0], text)
    finally:
        close(session)


def _tables(session: Any, plan: SinkPlan) -> Iterator[Finding]:
    for topic in plan.topics.values():
        for table in topic.tables:
            missing = list(problems(session.cluster.metadata, table))
            for setting, text in missing:
                yield Finding(setting, f"{setting}: {text}")
            if missing:
                continue
            try:
                binding_of(session, table, topic.texts)
            except ConfigInvalid as error:
                for text in error.problems:
                    yield Finding(text.split(": ")[0], text)
            except PenstockError as error:
                yield Finding(table.setting, f"{table.setting}: {error}")

"""What a look at the cluster says of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.api import ConfigInvalid, Finding, PenstockError
from penstock.connectors.cassandra.client.access import Access, Names, close
from penstock.connectors.cassandra.client.errors import NotAllowed
from penstock.connectors.cassandra.read.plan import SourcePlan
from penstock.connectors.cassandra.read.queries import problems as read_problems
from penstock.connectors.cassandra.write.binding import binding_of
from penstock.connectors.cassandra.write.plan import SinkPlan
from penstock.connectors.cassandra.write.tables import problems


def refused(error: PenstockError, names: Names) -> Iterator[Finding]:
    """What an attempt to connect says, at the setting to blame."""
    if isinstance(error, ConfigInvalid):
        for text in error.problems:
            own = [each for each in (names.bundle, names.tls, names.compression) if each in text]
            yield Finding(next(filter(None, own), names.points), text)
    elif isinstance(error, NotAllowed):
        yield Finding(names.user, f"{error}. Check {names.user} and the password.")
    else:
        yield Finding(names.points, str(error))


def sink_findings(access: Access, plan: SinkPlan) -> Iterator[Finding]:
    """A cluster that cannot be reached or refuses the user; keyspaces, tables and columns that do
    not exist, statements that cannot be prepared."""
    try:
        session = access.session()
    except PenstockError as error:
        yield from refused(error, access.names)
        return
    try:
        yield from _tables(session, plan)
    finally:
        close(session)


def source_findings(access: Access, plan: SourcePlan) -> Iterator[Finding]:
    """A cluster that cannot be reached or refuses the user; a keyspace, tables and columns that do
    not exist or are of another type than is needed."""
    try:
        session = access.session()
    except PenstockError as error:
        yield from refused(error, access.names)
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
            found = list(problems(session.cluster.metadata, table))
            for setting, text in found:
                yield Finding(setting, f"{setting}: {text}")
            if found:
                continue
            try:
                binding_of(session, table, topic.texts)
            except ConfigInvalid as error:
                for text in error.problems:
                    yield Finding(text.split(": ")[0], text)
            except PenstockError as error:
                yield Finding(table.setting, f"{table.setting}: {error}")

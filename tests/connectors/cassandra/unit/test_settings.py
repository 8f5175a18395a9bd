"""Settings of the Cassandra connectors, as plans."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.connectors.cassandra.read.plan import Mode
from penstock.connectors.cassandra.settings import datastax, lenses_sink, source
from penstock.connectors.cassandra.settings.topics import topic_plans
from penstock.connectors.cassandra.sink import CassandraSink, LensesSink
from penstock.connectors.cassandra.source import CassandraSource
from penstock.connectors.cassandra.text.mapping import Entry
from penstock.connectors.cassandra.write.plan import Ignore, Mapped

TABLE = "topic.a.b-c.ks.t."


def plan_of(**given: str) -> Mapped:
    props = {f"{TABLE}mapping": "id=key", **{f"{TABLE}{k}": v for k, v in given.items()}}
    plans, problems = topic_plans(props)
    assert problems == []
    (table,) = plans["a.b-c"].tables
    assert isinstance(table, Mapped)
    return table


def test_topics_may_have_dots_and_names_quotes() -> None:
    assert plan_of().entries == (Entry("id", "key", ""),)
    plans, problems = topic_plans({'topic.t."My Ks".Tab.mapping': "id=key"})
    assert problems == []
    (table,) = plans["t"].tables
    assert (table.keyspace, table.table) == ("My Ks", "Tab")


def test_times_to_live_are_in_their_unit() -> None:
    assert plan_of().ttl_s is None
    assert plan_of(ttl="90").ttl_s == 90
    assert plan_of(ttl="90", ttlTimeUnit="MINUTES").ttl_s == 5_400
    assert plan_of(ttl="90", ttlTimeUnit="MILLISECONDS").ttl_s == 0


def test_astra_writes_at_no_lower_level_than_local_quorum() -> None:
    for level, used in (("LOCAL_ONE", "LOCAL_QUORUM"), ("all", "ALL"), ("ANY", "LOCAL_QUORUM")):
        props = {f"{TABLE}mapping": "id=key", f"{TABLE}consistencyLevel": level}
        plans, _ = topic_plans(props, is_cloud=True)
        assert plans["a.b-c"].tables[0].consistency == used


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"topic.t.x": "1"}, "topic.t.x"),
        ({"topic.t.codec.locale": "en_US"}, "topic.t.codec"),
        ({"topic.t.k.t.ttl": "5"}, "topic.t.k.t.mapping"),
        ({"topic.t.k.t.mapping": "id=key", "topic.t.k.t.ttl": "x"}, "topic.t.k.t.ttl"),
        ({"topic.t.k.t.mapping": "id=key", "topic.t.k.t.query": "X"}, "topic.t.k.t.query"),
        ({"topic.t.k.t.mapping": "id=key", "topic.t.codec.unit": "X"}, "topic.t.codec.unit"),
    ],
)
def test_an_error_names_the_setting(given: dict[str, str], setting: str) -> None:
    _, problems = topic_plans(given)
    assert {name for name, _ in problems} == {setting}
    assert setting in problems[0][1] or setting == "topic.t.codec"


def config(**given: str) -> Any:
    return CassandraSink.plugin.config.parse(
        {name.replace("__", "-").replace("_", "."): value for name, value in given.items()}
    )


def test_settings_of_javas_driver_count_where_there_is_no_other() -> None:
    driver = {"datastax__java__driver_basic_load__balancing__policy_local__datacenter": "far"}
    assert datastax.local_dc(config(**driver)) == "far"
    assert datastax.local_dc(config(loadBalancing_localDc="near", **driver)) == "near"
    access = datastax.access(config(contactPoints="a, b", **driver))
    assert (access.points, access.port, access.dc) == (("a", "b"), 9042, "far")
    assert datastax.access(config()).points == ("127.0.0.1",)


@pytest.mark.parametrize(
    ("value", "ignore"),
    [("None", Ignore.NONE), ("ALL", Ignore.ALL), ("driver", Ignore.DRIVER),
     ("false", Ignore.NONE), ("true", Ignore.DRIVER)],
)  # fmt: skip
def test_errors_are_ignored_under_old_names_too(value: str, ignore: Ignore) -> None:
    assert datastax.sink_plan(config(ignoreErrors=value)).ignore is ignore


def test_kcql_of_the_sink_is_a_mapping() -> None:
    props = {
        "connect.cassandra.kcql": "INSERT INTO ks.t SELECT _key AS k, _value.a.b AS c, d, now() AS "
        "n, e AS __ttl, _header.h AS h FROM topic TTL=5 PROPERTIES('nullToUnset'='false')"
    }
    config = LensesSink.plugin.config.parse(props)
    assert lenses_sink.problems(config) == []
    (table,) = lenses_sink.sink_plan(config).topics["topic"].tables
    assert isinstance(table, Mapped)
    assert [(each.column, each.shown) for each in table.entries] == [
        ("k", "key"),
        ("c", "value.a.b"),
        ("d", "value.d"),
        ("n", "now()"),
        ("message_internal_ttl", "value.e"),
        ("h", "header.h"),
    ]
    assert (table.ttl_s, table.null_to_unset) == (5, False)


def test_kcql_of_the_source_is_tables() -> None:
    props = {
        "connect.cassandra.key.space": "ks",
        "connect.cassandra.kcql": "INSERT INTO a SELECT x, y AS z FROM t PK x "
        "INCREMENTALMODE=TIMEUUID; INSERT INTO b SELECT * FROM u IGNORE v",
    }
    plan = source.source_plan(CassandraSource.plugin.config.parse(props))
    first, second = plan.tables
    assert (first.topic, first.table, first.mode, first.column) == ("a", "t", Mode.TIMEUUID, "x")
    assert first.columns == (("x", "x"), ("y", "z"))
    assert (second.mode, second.columns, second.ignored) == (Mode.BULK, (), ("v",))
    assert plan.initial_ms == -2_208_988_800_000


@pytest.mark.parametrize(
    ("sink", "given", "setting"),
    [
        (CassandraSink, {"topic.t.k.t.mapping": "id=key"}, "auth.provider"),
        (
            LensesSink,
            {"connect.cassandra.kcql": "INSERT INTO k.t SELECT _key AS k FROM t"},
            "connect.cassandra.auth.provider",
        ),
    ],
)
def test_kerberos_without_its_packages_is_reported_at_its_setting(
    sink: type[CassandraSink | LensesSink], given: dict[str, str], setting: str
) -> None:
    config = sink.plugin.config.parse({"name": "s", "topics": "t", **given, setting: "GSSAPI"})
    [finding] = sink().validate_live(config)
    assert finding.setting == setting
    assert str(finding.error).startswith(f"{setting}=GSSAPI needs packages")

"""Tasks, KCQL, the records of messages and the topics and payloads of records."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.api import ConfigInvalid, DataError, Failed, Header, Records
from penstock.api.schema import STRING
from penstock.connectors.mqtt.client.packets import Message
from penstock.connectors.mqtt.client.properties import Properties
from penstock.connectors.mqtt.read.plan import Payload, Route, Shape, SourcePlan
from penstock.connectors.mqtt.read.records import Converting
from penstock.connectors.mqtt.settings.kcql import parse
from penstock.connectors.mqtt.sink import LensesMqttSink
from penstock.connectors.mqtt.source import LensesMqttSource, MqttSource
from penstock.connectors.mqtt.write.targets import Target, pattern_problem, payload_of
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub

CONFLUENT = {"name": "s", "mqtt.server.uri": "tcp://h"}
LENSES = {"connect.mqtt.hosts": "tcp://h", "connect.mqtt.service.quality": "1"}


@pytest.mark.parametrize(
    ("topics", "tasks", "expected"),
    [
        ("a,b,c", 2, ["a,c", "b"]),
        ("a,a", 2, ["a"]),
        ("$share/g/a", 3, ["$share/g/a"] * 3),
        ("$share/g/a,b", 2, ["$share/g/a,b", "$share/g/a"]),
    ],
)
def test_filters_are_divided_and_shared_ones_are_not(
    topics: str, tasks: int, expected: list[str]
) -> None:
    config = MqttSource.plugin.config.parse({**CONFLUENT, "mqtt.topics": topics})
    assert [each["mqtt.topics"] for each in MqttSource().plan_tasks(config, tasks)] == expected


@pytest.mark.parametrize(("replicates", "expected"), [("false", 2), ("true", 3)])
def test_lenses_statements_are_divided(replicates: str, expected: int) -> None:
    config = LensesMqttSource.plugin.config.parse(
        {
            **LENSES,
            "connect.mqtt.kcql": "INSERT INTO a SELECT * FROM `$share/g/x`;"
            "INSERT INTO b SELECT * FROM y",
            "connect.mqtt.share.replicate": replicates,
        }
    )
    assert len(LensesMqttSource().plan_tasks(config, 3)) == expected


def test_a_statement_has_clauses() -> None:
    (found,) = parse(
        "insert into `k` select * from /a/+ withconverter=`x.JsonSimpleConverter` "
        "WITHKEY(a.b, `c`) KEYDELIMITER='|' WITHREGEX=`/a/[0-9]+` PROPERTIES('p'='1', 'q'=true)"
    )
    assert (found.target, found.source, found.converter) == ("k", "/a/+", "x.JsonSimpleConverter")
    assert (found.keys, found.delimiter) == ((("a", "b"), ("c",)), "|")
    assert (found.regex, found.properties) == ("/a/[0-9]+", {"p": "1", "q": "true"})


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"connect.mqtt.hosts": "x://h"}, "connect.mqtt.hosts"),
        ({"connect.mqtt.service.quality": "3"}, "connect.mqtt.service.quality"),
        ({"connect.mqtt.kcql": "nonsense"}, "connect.mqtt.kcql"),
        ({"connect.mqtt.kcql": "INSERT INTO a/# SELECT * FROM b"}, "connect.mqtt.kcql"),
        ({"connect.mqtt.ssl.cert": "x"}, "connect.mqtt.ssl.key"),
        ({"connect.mqtt.password": "secret"}, "connect.mqtt.username"),
        ({"connect.mqtt.error.policy": "WHAT"}, "connect.mqtt.error.policy"),
    ],
)
def test_a_setting_that_cannot_be_is_named(changes: dict[str, str], reported: str) -> None:
    whole = {**LENSES, "connect.mqtt.kcql": "INSERT INTO a SELECT * FROM b", **changes}
    with pytest.raises(ConfigInvalid) as caught:
        LensesMqttSink.plugin.config.parse(whole)
    assert reported in str(caught.value)
    assert "secret" not in str(caught.value)


def test_messages_of_confluents_source() -> None:
    plan = SourcePlan((Route("#", "k"),), 1, Shape.CONFLUENT, headers=True)
    packed = Properties(content_type="c", user=(("u", "v"),)).packed()[1:]
    records = Converting(plan).records(
        [Message(b"a/b", b"1", 0b0011, 7, packed), Message(b"c", b"", 0b1000, 0, b"")]
    )
    assert (records.topics, records.keys.values) == (["k", "k"], ["a/b", "c"])
    assert records.values.values == [b"1", b""]
    assert [each.value for each in records.headers[0]] == [7, 1, True, False, "c", "v"]
    assert [each.value for each in records.headers[1]] == [0, 0, False, True]
    plain = SourcePlan((Route("#", "k"),), 1, Shape.CONFLUENT, headers=False)
    assert Converting(plain).records([Message(b"a", b"1", 0, 0, packed)]).headers == []


def test_routes_are_found_by_filter_and_by_regex() -> None:
    plan = SourcePlan(
        (Route("+/x", "one"), Route("#", "two", pattern="[a-c]/y"), Route("z/#", "$")),
        0,
        Shape.LENSES,
        headers=True,
    )
    topics = [b"a/x", b"b/y", b"z//q/r"]
    records = Converting(plan).records([Message(topic, b"", 0, 0, b"") for topic in topics])
    assert records.topics == ["one", "two", "z_q_r"]
    assert records.keys.values[0] == {"topic": "a/x", "id": "0"}


@pytest.mark.parametrize("payload", [b"{", b"[1, {}]", b'{"a": 1, "c": [1, "x"]}', b'{"b": 1}'])
def test_documents_that_cannot_be_are_skipped_or_fail(payload: bytes) -> None:
    route = Route("#", "k", Payload.JSON, (("a",),))
    messages = [Message(b"t", payload, 0, 0, b""), Message(b"t", b'{"a": 1}', 0, 0, b"")]
    skips = SourcePlan((route,), 0, Shape.LENSES, headers=False, skips_malformed=True)
    assert Converting(skips).records(messages).keys.values == ["1"]
    fails = SourcePlan((route,), 0, Shape.LENSES, headers=False)
    with pytest.raises(DataError):
        Converting(fails).records(messages)


def test_topics_of_records() -> None:
    records = Records.of("k", [{"a": {"b": 5}}], keys=["key"])
    records.headers = [[Header("h", "x", STRING)]]
    pattern = "${topic}/${key}/${header.h}/${value.a.b}"
    assert Target(pattern).of(records, 0) == "k/key/x/5"
    for wrong in ("${header.none}", "${value.a}", "${value.none}"):
        with pytest.raises(DataError):
            Target(wrong).of(records, 0)
    with pytest.raises(DataError, match="'\\+' or '#'"):
        Target("${key}").of(Records.of("k", ["v"], keys=["a/#"]), 0)


@pytest.mark.parametrize("pattern", ["", "a/#", "${x}", "${header.}", "${value}"])
def test_patterns_that_cannot_be_have_a_problem(pattern: str) -> None:
    assert pattern_problem(pattern) is not None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x00", b"\x00"),
        ("ü", "ü".encode()),
        (None, b""),
        ({"a": Decimal("1.5"), "b": b"\x01"}, b'{"a":1.5,"b":"AQ=="}'),
        ([1, None], b"[1,null]"),
        (True, b"true"),
        (1.5, b"1.5"),
        ({"at": datetime(2026, 1, 31, tzinfo=UTC)}, b'{"at":"2026-01-31T00:00:00+00:00"}'),
    ],
)
def test_payloads(value: Any, expected: bytes) -> None:
    assert payload_of(value, None) == expected


def test_a_preview_tells_topics_and_payloads() -> None:
    config = LensesMqttSink.plugin.config.parse(
        {**LENSES, "connect.mqtt.kcql": "INSERT INTO _key SELECT * FROM t"}
    )
    reported: list[str] = []
    writer = LensesMqttSink().open_preview(config, SinkContextStub(), reported.append)
    failed: Failed = {}
    writer.write(records_of([{"a": 1}, "x"], keys=["p/1", None], topic="t"), failed)
    assert reported == ['p/1 {"a":1}']
    assert list(failed) == [1]

"""Packets, properties and topics as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.mqtt.client import packets as p
from penstock.connectors.mqtt.client import properties
from penstock.connectors.mqtt.client.options import server_of
from penstock.connectors.mqtt.client.packets import Malformed, Message
from penstock.connectors.mqtt.client.properties import Properties
from penstock.connectors.mqtt.client.topics import filter_problem, matches, topic_problem

TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)


@given(
    topic=st.binary(max_size=40),
    payload=st.binary(max_size=400),
    qos=st.integers(0, 2),
    mid=st.integers(1, 65_535),
    v5=st.booleans(),
    user=st.lists(st.tuples(TEXTS, TEXTS), max_size=20),
)
def test_a_published_packet_can_be_read(
    topic: bytes, payload: bytes, qos: int, mid: int, v5: bool, user: list[tuple[str, str]]
) -> None:
    given_properties = Properties(user=tuple(user))
    packed = given_properties.packed() if v5 else None
    packet = p.publish(p.PUBLISH | qos << 1, p.Item(topic, payload, packed), mid)
    length, at = p.read_length(packet, 1)
    assert at + length == len(packet)
    found = p.read_publish(packet[0], packet, at, len(packet), v5=v5)
    assert (found.topic, found.payload, found.qos) == (topic, payload, qos)
    assert found.mid == (mid if qos else 0)
    if v5:
        assert properties.read(found.properties) == given_properties


@given(st.binary(max_size=30), st.integers(0, 15), st.booleans())
def test_packets_of_any_bytes_are_read_or_malformed(data: bytes, flags: int, v5: bool) -> None:
    try:
        found = p.read_publish(p.PUBLISH | flags, data, 0, len(data), v5=v5)
        properties.read(found.properties)
    except Malformed:
        return
    assert isinstance(found, Message)


@given(st.binary(max_size=40))
def test_properties_of_any_bytes_are_read_or_malformed(data: bytes) -> None:
    try:
        properties.read(data)
    except Malformed:
        return


def test_all_properties_go_both_ways() -> None:
    whole = Properties(1, 3600, "text/plain", "answers/1", b"\x00\xff", (("a", "1"), ("a", "ü")))
    packed = whole.packed()
    assert properties.read(packed[1:]) == whole


@pytest.mark.parametrize(
    "wrong", [Properties(expiry_s=-1), Properties(content_type="x" * 70_000), Properties(2)]
)
def test_properties_that_cannot_be_are_refused(wrong: Properties) -> None:
    with pytest.raises(ValueError, match=r"longer|must be"):
        wrong.packed()


def test_acknowledgements_are_packets_side_by_side() -> None:
    assert p.acknowledgements(p.PUBACK, [1, 258]).hex(" ") == "40 02 00 01 40 02 01 02"
    assert p.acknowledgements(p.PUBREL, [1]).hex(" ") == "62 02 00 01"


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("+/+", "/a", True),
        ("#", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("$share/g/a/+", "a/b", True),
        ("$share/g//a", "/a", True),
    ],
)
def test_filters_match_topics(topic_filter: str, topic: str, expected: bool) -> None:
    assert matches(topic_filter, topic) is expected


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "a#",
        "#/a",
        "a/b+",
        "a\x00",
        "x" * 70_000,
        "$share/g",
        "$share//a",
        "$share/+/a",
        "\ud800",
    ],
)
def test_filters_that_cannot_be_have_a_problem(wrong: str) -> None:
    assert filter_problem(wrong) is not None


@pytest.mark.parametrize("wrong", ["", "a/+", "#", "a\x00", "x" * 70_000])
def test_topics_that_cannot_be_have_a_problem(wrong: str) -> None:
    assert topic_problem(wrong) is not None


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("tcp://h", "tcp://h:1883"),
        ("h:1", "tcp://h:1"),
        ("mqtts://h", "ssl://h:8883"),
        ("tls://[::1]:9", "ssl://[::1]:9"),
    ],
)
def test_servers(uri: str, expected: str) -> None:
    assert str(server_of(uri)) == expected


@pytest.mark.parametrize(
    "uri",
    ["ws://h", "tcp://", "tcp://h:0", "tcp://h:x", "tcp://h:99999", "tcp://u:p@h", "tcp://h/p"],
)
def test_servers_that_cannot_be_are_refused_without_a_password(uri: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        server_of(uri)
    assert "u:p" not in str(caught.value)

"""How the search connectors reach a cluster: TLS, users, proxies, Amazon's signatures, and clusters
that are slow or busy."""

from __future__ import annotations

import base64
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.api import Failed, PenstockError, SinkConnector, Unavailable
from penstock.connectors.search.sink import (
    AivenElasticsearchSink,
    ElasticsearchSink,
    OpenSearchSink,
)
from penstock.connectors.search.source import ElasticsearchSource, OpenSearchSource
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from tests.servers.certificates import Authority
from tests.servers.search import SearchServer, shared

from .front import Asked, Front, HttpProxy, is_signed, server_tls

NUMBERS = count()
TRUSTED = "elastic.https.ssl.truststore.certificates"
AIVENS_TRUSTED = "connection.ssl.truststore.certificates"


@pytest.fixture(scope="module")
def server() -> SearchServer:
    return shared("opensearch")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def topic() -> str:
    return f"access-{next(NUMBERS)}.a"


def config_of(connector: type[SinkConnector], **given: str) -> Any:
    settings = {
        name if "." in name else name.replace("_", "."): value for name, value in given.items()
    }
    base = {"schema.ignore": "true", "max.retries": "0", "topics": "t"}
    return connector.plugin.config.parse({**base, **settings})


def write(topic: str, connector: type[SinkConnector], rows: int = 3, **given: str) -> None:
    """Writes records, and closes the writer."""
    writer = connector().open(config_of(connector, **given), SinkContextStub())
    failed: Failed = {}
    try:
        values = [{"v": number} for number in range(rows)]
        writer.write(records_of(values, keys=list(range(rows)), topic=topic), failed)
        writer.flush()
    finally:
        writer.close()
    assert not failed


def findings(connector: type[SinkConnector], **given: str) -> dict[str, str]:
    found = connector().validate_live(config_of(connector, **given))
    return {each.setting: str(each.error) for each in found}


def test_tls_with_an_authority_that_is_trusted(
    server: SearchServer, topic: str, authority: Authority, tmp_path: Path
) -> None:
    with Front(server, tls=server_tls(authority, tmp_path)) as front:
        given = {"connection.url": front.url, "elastic.security.protocol": "SSL"}
        write(topic, ElasticsearchSink, **given, **{TRUSTED: authority.pem()})
        assert findings(ElasticsearchSink, **given, **{TRUSTED: authority.pem()}) == {}
        reported = findings(ElasticsearchSink, **given)
        assert "certificate verify failed" in reported["connection.url"].lower()
        reported = findings(ElasticsearchSink, **given, **{TRUSTED: Authority("another").pem()})
        assert "certificate verify failed" in reported["connection.url"].lower()
        aivens = {"connection.url": front.url}
        write(topic, OpenSearchSink, **aivens, **{"connection.trust.all.certificates": "true"})
        write(topic, OpenSearchSink, **aivens, **{AIVENS_TRUSTED: authority.pem()})
    assert server.count(topic) == 3


def test_names_of_servers_are_checked_unless_they_are_not_to_be(
    server: SearchServer, topic: str, authority: Authority, tmp_path: Path
) -> None:
    with Front(server, tls=server_tls(authority, tmp_path, "10.0.0.1")) as front:
        given = {
            "connection.url": front.url,
            "elastic.security.protocol": "SSL",
            TRUSTED: authority.pem(),
        }
        assert "mismatch" in findings(ElasticsearchSink, **given)["connection.url"]
        given["elastic.https.ssl.endpoint.identification.algorithm"] = ""
        write(topic, ElasticsearchSink, **given)
    assert server.count(topic) == 3


def test_certificates_of_clients(
    server: SearchServer, topic: str, authority: Authority, tmp_path: Path
) -> None:
    with Front(server, tls=server_tls(authority, tmp_path, clients=True)) as front:
        given = {
            "connection.url": front.url,
            "elastic.security.protocol": "SSL",
            TRUSTED: authority.pem(),
        }
        assert "connection.url" in findings(ElasticsearchSink, **given)
        store = tmp_path / "client.p12"
        store.write_bytes(authority.issue("client").pkcs12("secret"))
        given |= {
            "elastic.https.ssl.keystore.location": str(store),
            "elastic.https.ssl.keystore.password": "secret",
            "elastic.https.ssl.keystore.type": "PKCS12",
        }
        write(topic, ElasticsearchSink, **given)
        source = ElasticsearchSource()
        settings = {**given, "indices": topic}
        config = source.plugin.config.parse(settings)
        (props,) = source.plan_tasks(config, 1)
        reader = source.open(source.plugin.config.parse(props), SourceContextStub())
        polled = reader.poll(1_000, 5_000)
        reader.close()
        assert polled is not None
        assert sorted(polled.records.keys.values) == ["0", "1", "2"]


def test_users_that_are_refused(server: SearchServer, topic: str) -> None:
    wanted = f"Basic {base64.b64encode(b'me:right').decode()}"

    def answer(asked: Asked) -> int | None:
        return None if asked.headers.get("authorization") == wanted else 401

    with Front(server, answer) as front:
        given = {"connection.url": front.url, "connection.username": "me"}
        write(topic, ElasticsearchSink, **given, connection_password="right")
        assert findings(ElasticsearchSink, **given, connection_password="right") == {}
        reported = findings(ElasticsearchSink, **given, connection_password="wrong")
        assert reported.keys() == {"connection.username", "connection.password"}
        assert "wrong" not in str(reported)
        with pytest.raises(PenstockError, match="401") as refused:
            write(topic, ElasticsearchSink, **given, connection_password="wrong")
        assert not refused.value.retriable
        assert "connection.username" in findings(ElasticsearchSink, connection_url=front.url)
    assert server.count(topic) == 3


@pytest.mark.parametrize("secure", [False, True])
def test_proxies(
    server: SearchServer, topic: str, authority: Authority, tmp_path: Path, *, secure: bool
) -> None:
    tls = server_tls(authority, tmp_path) if secure else None
    with Front(server, tls=tls) as front, HttpProxy("me:right") as proxy:
        given = {
            "connection.url": front.url,
            "proxy.host": "127.0.0.1",
            "proxy.port": str(proxy.port),
            "proxy.username": "me",
        }
        if secure:
            given |= {"elastic.security.protocol": "SSL", TRUSTED: authority.pem()}
        write(topic, ElasticsearchSink, **given, proxy_password="right")
        assert set(proxy.targets) == {front.url.partition("//")[2]}
        reported = findings(ElasticsearchSink, **given, proxy_password="wrong")
        assert "407" in reported["connection.url"]
    assert server.count(topic) == 3


def test_requests_are_signed(
    server: SearchServer, topic: str, authority: Authority, tmp_path: Path
) -> None:
    def answer(asked: Asked) -> int | None:
        return None if is_signed(asked, "my+secret") else 403

    with Front(server, answer, tls=server_tls(authority, tmp_path)) as front:
        given = {
            "connection.url": front.url,
            "aws.access_key_id": "AKIDEXAMPLE",
            "aws.secret_access_key": "my+secret",
            "aws.region": "eu-central-1",
            "aws.service.signing.name": "es",
            AIVENS_TRUSTED: authority.pem(),
        }
        write(topic, OpenSearchSink, **given)
        source = OpenSearchSource()
        config = source.plugin.config.parse({**given, "indices": f"{topic[:-1]}*,-nothing*"})
        (props,) = source.plan_tasks(config, 1)
        reader = source.open(source.plugin.config.parse(props), SourceContextStub())
        polled = reader.poll(1_000, 5_000)
        reader.close()
        assert polled is not None
        assert sorted(polled.records.keys.values) == ["0", "1", "2"]
        authorization = front.asked[0].headers["authorization"]
        assert "/eu-central-1/es/aws4_request" in authorization
        with pytest.raises(PenstockError, match="403"):
            write(topic, OpenSearchSink, **{**given, "aws.secret_access_key": "another"})
    assert server.count(topic) == 3


def test_answers_that_are_late_are_asked_for_again(server: SearchServer, topic: str) -> None:
    closing = threading.Event()

    def answer(asked: Asked) -> int | None:
        if asked.bulk in (0, 1):
            closing.wait(1.5)
        return None

    with Front(server, answer) as front:
        given = {"connection.url": front.url, "read.timeout.ms": "700", "max.retries": "5"}
        write(topic, ElasticsearchSink, 100, retry_backoff_ms="5", **given)
        assert front.sent == 3
        closing.set()
    assert server.count(topic) == 100


def test_a_source_waits_for_a_cluster_that_is_busy_or_slow(
    server: SearchServer, topic: str
) -> None:
    write(topic, ElasticsearchSink, 300, connection_url=server.url)
    closing = threading.Event()
    numbers = count()

    def answer(asked: Asked) -> int | None:
        if "_search" not in asked.path or "point_in_time" in asked.path:
            return None
        number = next(numbers)
        if number == 1:
            closing.wait(1.5)
        return (429, None, 503)[number] if number < 3 else None

    with Front(server, answer) as front:
        source = OpenSearchSource()
        given = {"connection.url": front.url, "indices": topic, "read.timeout.ms": "700"}
        config = source.plugin.config.parse({**given, "batch.size": "50"})
        (props,) = source.plan_tasks(config, 1)
        reader = source.open(source.plugin.config.parse(props), SourceContextStub())
        read: list[Any] = []
        failures = 0
        while len(read) < 300:
            try:
                polled = reader.poll(10_000, 100)
            except Unavailable:
                failures += 1
                continue
            read += polled.records.keys.values if polled is not None else []
        closing.set()
        reader.close()
    assert failures == 3
    assert sorted(read, key=int) == [str(number) for number in range(300)]


def test_the_older_name_of_aivens_connector(server: SearchServer, topic: str) -> None:
    write(
        topic,
        AivenElasticsearchSink,
        connection_url=server.url,
        type_name="_doc",
        behavior_on_version_conflict="report",
    )
    assert server.documents(topic) == {str(number): {"v": number} for number in range(3)}

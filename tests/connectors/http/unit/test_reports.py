"""Reports, with a producer that keeps what it receives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.api import ConfigInvalid, Unavailable
from penstock.connectors.http.client.messages import Answer, Request
from penstock.connectors.http.sink import ConfluentHttpSink, LensesHttpSink
from penstock.connectors.http.templates import Row
from penstock.connectors.http.write.reports import Reporter, ReportLost, producer_settings
from tests.servers.certificates import Authority

ROW = Row("t", 2, 5, 1_700, "k", None, {"a": 1}, None)
REQUEST = Request("POST", "http://h/x", (), b'{"a":1}')
PLACE = [
    ("input_record_offset", b"5"),
    ("input_record_timestamp", b"1700"),
    ("input_record_partition", b"2"),
    ("input_record_topic", b"t"),
]


class Producer:
    """Keeps produced records; delivery fails with `error`, and `produce` already if `raises`."""

    made: list[Producer]
    error: KafkaError | None = None
    raises = False

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.produced: list[tuple[str, dict[str, Any]]] = []
        Producer.made.append(self)

    def produce(self, topic: str, *, on_delivery: Callable[..., None], **given: Any) -> None:
        if Producer.raises:
            raise KafkaException(Producer.error)
        self.produced.append((topic, given))
        on_delivery(Producer.error, None)

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        return 0

    def purge(self) -> None:
        return None


@pytest.fixture(autouse=True)
def _producer(monkeypatch: pytest.MonkeyPatch) -> None:
    Producer.made, Producer.error = [], None
    monkeypatch.setattr("penstock.connectors.http.write.reports.Producer", Producer)
    monkeypatch.setattr("penstock.connectors.http.write.reports._create", lambda *_: None)


def confluent(**given: str) -> Reporter:
    connector = ConfluentHttpSink()
    whole = {"http.api.url": "http://h", "reporter.bootstrap.servers": "a:1, b:2", "name": "c"}
    config = connector.plugin.config.parse(
        {**whole, **{key.replace("_", "."): value for key, value in given.items()}}
    )
    plan = connector.reports(config)
    assert plan is not None
    return Reporter(plan)


def test_answers_and_failures_are_reported_as_confluents_connector_does() -> None:
    reporter = confluent(reporter_result_topic_name="${connector}-ok")
    reporter.taken(ROW, REQUEST, Answer(200, "OK", {}, b'"yes"'))
    reporter.refused(ROW, REQUEST, Answer(307, "", {}, b""), ValueError("x"))
    reporter.flush()
    results, errors = Producer.made
    assert results.config["bootstrap.servers"] == "a:1,b:2"
    ((topic, result),) = results.produced
    assert topic == "c-ok"
    assert (result["key"], result["value"]) == (b'"k"', b'"\\"yes\\""')
    assert result["headers"] == PLACE
    ((topic, error),) = errors.produced
    assert topic == "error-responses"
    assert error["headers"] == [
        *PLACE,
        ("error_message", b"null"),
        ("exception", b"null"),
        ("response_content", b""),
        ("status_code", b"307"),
        ("payload", b'{"a":1}'),
        ("reason_phrase", b""),
        ("url", b"http://h/x"),
    ]
    assert error["value"] == (
        b'"Retry time lapsed, unable to process HTTP request. HTTP Response code: 307, Reason '
        b'phrase: , Url: http://h/x, Response content: , Exception: null, Error message: null"'
    )


def test_texts_and_answers_as_errors() -> None:
    given = {"reporter_error_topic_value_format": "string", "report_errors_as": "http_response"}
    reporter = confluent(reporter_result_topic_name="", **given)
    reporter.taken(ROW, REQUEST, Answer(200))
    reporter.refused(ROW, REQUEST, Answer(400, "Bad", {}, b"why"), ValueError("x"))
    (errors,) = Producer.made
    assert [given["value"] for _, given in errors.produced] == [b"why"]


def test_reports_that_do_not_arrive_keep_offsets_from_being_committed() -> None:
    reporter = confluent()
    Producer.error = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)
    reporter.taken(ROW, REQUEST, Answer(200))
    for _ in range(2):
        with pytest.raises(Unavailable, match="in-sync replicas"):
            reporter.flush()
    Producer.error = None
    reporter.flush()
    reporter.flush()
    sent = [len(producer.produced) for producer in Producer.made]
    assert sent == [4, 0], "sent by every flush until it arrives"


@pytest.mark.parametrize("raises", [True, False])
def test_after_a_report_that_kafka_never_accepts_no_flush_succeeds(raises: bool) -> None:
    reporter = confluent()
    Producer.error, Producer.raises = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), raises
    reporter.taken(ROW, REQUEST, Answer(200))
    Producer.error, Producer.raises = None, False
    for _ in range(2):
        with pytest.raises(ReportLost, match="does not accept a report to 'success-responses'"):
            reporter.flush()


def test_lenses_reports() -> None:
    connector = LensesHttpSink()
    start = "connect.reporting.success.config."
    config = connector.plugin.config.parse(
        {
            "connect.http.endpoint": "http://h",
            "connect.http.request.content": "x",
            f"{start}enabled": "true",
            f"{start}bootstrap.servers": "a:1",
            f"{start}topic": "ok",
            f"{start}partition": "3",
        }
    )
    plan = connector.reports(config)
    assert plan is not None
    Reporter(plan).taken(ROW, REQUEST, Answer(201, "Created", {}, b"yes"))
    ((topic, given),) = Producer.made[0].produced
    assert (topic, given["partition"], given["value"]) == ("ok", 3, b'{"a":1}')
    assert given["headers"][-2:] == [
        ("response_content", b"yes"),
        ("response_status_code", b"201"),
    ]


def test_settings_of_javas_producer() -> None:
    jaas = 'org.apache.kafka…PlainLoginModule required username="u" password="p\\"q";'
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    settings = producer_settings(given, "reporter.")
    assert (
        settings.items()
        >= {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": 'p"q',
        }.items()
    )
    assert settings["partitioner"] == "murmur2_random", "as Java distributes keys"


@pytest.mark.parametrize(
    ("named", "bad"),
    [
        ("interceptor.classes", {}),
        ("sasl.jaas.config", {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}),
        ("ssl.truststore.location", {"security.protocol": "SSL"}),
        ("acks", {}),
        ("linger.ms", {}),
    ],
)
def test_a_setting_that_reports_cannot_use_is_named_with_its_prefix(
    named: str, bad: dict[str, str]
) -> None:
    with pytest.raises(ConfigInvalid, match=rf"for configuration reporter\.{named}:"):
        producer_settings({**bad, named: "/nothing.jks"}, "reporter.")


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_reports_read_javas_key_stores(kind: str, tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue("client")
    own, trusted = tmp_path / "own", tmp_path / "trusted"
    if kind == "PEM":
        own.write_text(issued.pem("secret"))
        trusted.write_text(authority.pem())
    else:
        own.write_bytes(issued.pkcs12("secret"))
        trusted.write_bytes(authority.pkcs12("secret"))
    stores = {
        "ssl.keystore.location": str(own),
        "ssl.keystore.type": kind,
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.type": kind,
    }
    stores |= {
        "PEM": {"ssl.key.password": "secret"},
        "PKCS12": {"ssl.keystore.password": "secret", "ssl.truststore.password": "secret"},
    }[kind]
    settings = producer_settings({"security.protocol": "SSL", **stores}, "reporter.")
    assert (
        settings.items()
        >= {
            "security.protocol": "SSL",
            "ssl.ca.pem": authority.pem().strip(),
            "ssl.certificate.pem": issued.chain_pem().strip(),
            "ssl.key.pem": issued.key_pem().strip(),
        }.items()
    )

"""The tracing interceptors, against an OTLP receiver over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.api import Header, Records, StageDone
from penstock.ids import TaskId
from penstock.interceptors import tracing
from penstock.interceptors.tracing import CONFIG, TracingConsumer, TracingProducer
from penstock.testing.conformance import records_of

from .otlp import Receiver, attributes

ERROR = 2
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


class Context:
    task = TaskId("shop", 3)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def config(receiver: Receiver, **more: str) -> Any:
    given = {f"penstock.tracing.{name.replace('_', '.')}": value for name, value in more.items()}
    return CONFIG.parse({"penstock.tracing.endpoint": receiver.url, **given})


def with_parent(records: Records, *parents: str | None) -> Records:
    return records.with_headers(
        [[] if each is None else [Header("traceparent", each.encode())] for each in parents]
    )


def done(stage: str, failed: int = 0, error: str | None = None) -> StageDone:
    return StageDone(stage, 2, failed, 1_000, 2_000, error)


def test_a_source_traces_batches_and_puts_the_context_into_headers(receiver: Receiver) -> None:
    producer = TracingProducer(config(receiver, service_name="orders"), Context())
    producer.on_stage(done("convert", failed=1))
    records = with_parent(records_of([b"a", b"b"], topic="t"), None, PARENT)
    sent = producer.on_send(records)
    producer.on_acknowledgement({}, [("t", "too large")])
    producer.close()
    ((service, span),) = [each for each in receiver.spans if each[1].name == "send"]
    assert service == "orders"
    (convert,) = receiver.named("convert")
    assert convert.parent_span_id == span.span_id
    assert (convert.start_time_unix_nano, convert.end_time_unix_nano) == (1_000, 2_000)
    assert attributes(convert)["penstock.failed"] == 1
    assert convert.status.code == ERROR
    about = attributes(span)
    assert about == {
        "messaging.system": "kafka",
        "messaging.batch.message_count": 2,
        "messaging.destination.name": "t",
        "penstock.connector": "shop",
        "penstock.task": 3,
        "penstock.refused": 1,
    }
    assert (span.status.code, span.status.message) == (ERROR, "t: too large")
    ((name, added, _),), kept = sent.headers
    assert name == "traceparent"
    assert added.startswith(f"00-{span.trace_id.hex()}-{span.span_id.hex()}-".encode())
    assert int(added[-2:], 16) & 1  # recorded
    assert kept == [Header("traceparent", PARENT.encode())]
    assert [link.trace_id.hex() for link in span.links] == [TRACE]


def test_a_sink_continues_the_trace_of_its_records(receiver: Receiver) -> None:
    consumer = TracingConsumer(config(receiver), Context())
    records = with_parent(records_of([b"a", b"b"], topic="t"), PARENT, PARENT)
    assert consumer.on_consume(records) is records
    consumer.on_stage(done("convert"))
    consumer.on_stage(done("put", error="Unavailable: away"))
    consumer.on_stage(done("put"))
    consumer.close()
    (receive,), (convert,) = receiver.named("receive"), receiver.named("convert")
    failed, put = receiver.named("put")
    assert receive.trace_id.hex() == TRACE
    assert receive.parent_span_id.hex() == PARENT.split("-")[2]
    assert not receive.links
    for child in (convert, failed, put):
        assert (child.trace_id, child.parent_span_id) == (receive.trace_id, receive.span_id)
    assert (failed.status.code, failed.status.message) == (ERROR, "Unavailable: away")
    assert put.status.code != ERROR


def test_a_batch_of_several_traces_links_to_them(receiver: Receiver) -> None:
    consumer = TracingConsumer(config(receiver), Context())
    other = PARENT.replace(TRACE, "a" * 32)
    for _ in range(2):
        consumer.on_consume(with_parent(records_of([b"a"] * 4), PARENT, other, "no context", None))
        consumer.on_stage(done("convert"))
    consumer.on_stage(done("put"))
    consumer.close()
    receives = receiver.named("receive")
    for receive in receives:
        assert not receive.parent_span_id
        assert {link.trace_id.hex() for link in receive.links} == {TRACE, "a" * 32}
    (put,) = receiver.named("put")
    assert put.parent_span_id == receives[1].span_id
    assert [link.span_id for link in put.links] == [receives[0].span_id]


def test_a_part_of_the_traces_can_be_recorded(receiver: Receiver) -> None:
    producer = TracingProducer(config(receiver, sample_ratio="0"), Context())
    sent = producer.on_send(records_of([b"a"]))
    producer.on_acknowledgement({}, [])
    producer.close()
    assert receiver.spans == []
    assert not int(sent.headers[0][0].value[-2:], 16) & 1


def test_tasks_share_an_exporter_until_the_last_one_ends(receiver: Receiver) -> None:
    settings = config(receiver, headers="api-key=secret, x=y")
    first, second = (TracingProducer(settings, Context()) for _ in range(2))
    assert len(tracing._shared) == 1
    first.on_send(records_of([b"a"]))
    first.close()
    second.on_send(records_of([b"a"]))
    second.close()
    assert tracing._shared == {}
    assert len(receiver.named("send")) == 2
    assert {(each["Api-Key"], each["X"]) for each in map(_titled, receiver.requests)} == {
        ("secret", "y")
    }
    assert {each["path"] for each in receiver.requests} == {"/v1/traces"}


def _titled(headers: dict[str, str]) -> dict[str, str]:
    return {name if name == "path" else name.title(): text for name, text in headers.items()}


def test_an_unreachable_receiver_costs_only_the_spans(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_EXPORT_S", 0.2)
    settings = config(receiver)
    receiver.server.server_close()
    producer = TracingProducer(settings, Context())
    records = records_of([b"a"])
    assert producer.on_send(records).values.values == [b"a"]
    producer.on_acknowledgement({}, [])
    producer.close()

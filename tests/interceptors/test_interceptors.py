"""Interceptors on a real worker: a file is copied through a topic into a file, while the records
are counted at `/metrics` and traced to an OTLP receiver."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.interceptors.unit.otlp import Receiver, attributes

pytestmark = pytest.mark.timeout(300)

WAIT_S: Final = 90.0
LINES: Final = 5_000
CONFLUENT: Final = "io.confluent.monitoring.clients.interceptor."
TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def worker(make_worker: Callable[..., WorkerProcess], receiver: Receiver) -> WorkerProcess:
    settings = {"key.converter": TEXT, "value.converter": TEXT}
    for client, kind in (("producer", "Producer"), ("consumer", "Consumer")):
        settings[f"{client}.interceptor.classes"] = (
            f"{CONFLUENT}Monitoring{kind}Interceptor,Tracing{kind}Interceptor"
        )
        settings[f"{client}.penstock.tracing.endpoint"] = receiver.url
    started = make_worker(**settings).start()
    started.await_rest()
    return started


def test_records_that_pass_are_counted_and_traced(
    worker: WorkerProcess,
    receiver: Receiver,
    topics: Topics,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    topic, source, sink = topics.create(unique("lines")), unique("in"), unique("out")
    given, written = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("".join(f"line {number}\n" for number in range(LINES)))
    worker.create(
        source, {"connector.class": "FileStreamSource", "file": str(given), "topic": topic}
    )
    worker.create(
        sink, {"connector.class": "FileStreamSink", "file": str(written), "topics": topic}
    )
    wait_until(
        lambda: written.exists() and written.read_text() == given.read_text(),
        WAIT_S,
        "the lines",
    )

    def figure(name: str) -> float:
        found = re.findall(
            rf'^penstock_monitoring_{name}{{.*topic="{topic}".*}} (\S+)$',
            worker.request("GET", "/metrics").text,
            re.MULTILINE,
        )
        return sum(map(float, found))

    for name in ("sent", "acknowledged", "consumed"):
        wait_until(lambda n=name: figure(f"{n}_records_total") == LINES, WAIT_S, f"{name} records")
    assert figure("refused_records_total") == 0
    assert figure("acknowledge_latency_ms_total") > 0
    assert figure("end_to_end_latency_ms_max") > 0

    for name in (source, sink):
        worker.request("DELETE", f"/connectors/{name}")
    wait_until(lambda: receiver.named("send") and receiver.named("put"), WAIT_S, "the spans")
    sent = {span.trace_id for span in receiver.named("send")}
    received = receiver.named("receive")
    followed = {span.trace_id for span in received} | {
        link.trace_id for span in received for link in span.links
    }
    assert sent
    assert sent <= followed, "what is read goes on with the traces of what was sent"
    counts = [attributes(span)["messaging.batch.message_count"] for span in received]
    assert sum(counts) == LINES
    assert {attributes(span)["penstock.connector"] for span in received} == {sink}

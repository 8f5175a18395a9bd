"""OpenTelemetry tracing: spans of batches, and trace context in the headers of records.

    source  send (of what was polled together) ─ convert
    sink    receive (a chunk) ─ convert, put (what is written together; links to what it received)

Sent records get the `traceparent` of their batch's span, unless they have one: then the span links
to it. A consumed batch continues the trace of its records if they share one, and otherwise links to
theirs. Spans are exported by OTLP over HTTP; tasks of a process share an exporter.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.api import (
    VERSION,
    Acknowledged,
    ConsumerInterceptor,
    Extra,
    Header,
    InterceptorContext,
    Plugin,
    ProducerInterceptor,
    Records,
    StageDone,
    TopicPartition,
)
from penstock.api.settings import (
    HIGH,
    LOW,
    Config,
    ConfigDef,
    checking,
    double,
    secret,
    text,
    unless_none,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span

TRACING: Final = Extra("tracing", "Tracing interceptors", ("opentelemetry",))


def _endpoint_problem(url: str) -> str | None:
    if url.startswith(("http://", "https://")):
        return None
    return "The endpoint must be a URL that begins with http:// or https://"


# fmt: off
ENDPOINT: Final = text("penstock.tracing.endpoint", None,
    "Where to send spans: the full URL of an OTLP receiver, such as "
    "http://collector:4318/v1/traces. By default what OpenTelemetry's variables specify "
    "(`OTEL_EXPORTER_OTLP_ENDPOINT`, …), or http://localhost:4318/v1/traces.",
    check=unless_none(checking("an http or https URL", _endpoint_problem)), importance=HIGH)
SERVICE: Final = text("penstock.tracing.service.name", "penstock", "The service name of the spans.")
RATIO: Final = double("penstock.tracing.sample.ratio", 1.0,
    "The fraction of new traces that is recorded, from 0 to 1. A continued trace is recorded if "
    "it was recorded before.", at_least=0, at_most=1)
HEADERS: Final = secret("penstock.tracing.headers", "",
    "Headers of requests to the receiver: `name=value`, separated by commas.", importance=LOW)
# fmt: on
CONFIG: Final = ConfigDef(ENDPOINT, SERVICE, RATIO, HEADERS)

_OURS: Final = "io.penstock.interceptors."
_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
_MOST_LINKS: Final = 128
_EXPORT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class _Target:
    """Where spans are exported, and which."""

    endpoint: str | None
    service: str
    ratio: float
    headers: str


_shared: dict[_Target, tuple[Any, int]] = {}
_sharing: Final = threading.Lock()


def _provider(target: _Target) -> Any:
    """The process's tracer provider for a target, created for its first user."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    with _sharing:
        provider, users = _shared.get(target, (None, 0))
        if provider is None:
            pairs = (pair.partition("=") for pair in target.headers.split(",") if "=" in pair)
            exporter = OTLPSpanExporter(
                endpoint=target.endpoint,
                headers={name.strip(): value.strip() for name, _, value in pairs} or None,
                timeout=_EXPORT_S,
            )
            provider = TracerProvider(
                sampler=ParentBased(TraceIdRatioBased(target.ratio)),
                resource=Resource.create({"service.name": target.service}),
                shutdown_on_exit=False,
            )
            provider.add_span_processor(BatchSpanProcessor(exporter))
        _shared[target] = provider, users + 1
        return provider


def _release(target: _Target) -> None:
    """Shuts the provider down after its last user; exports the remaining spans."""
    with _sharing:
        provider, users = _shared.pop(target)
        if users > 1:
            _shared[target] = provider, users - 1
            return
    provider.shutdown()


class _Tracing:
    """The common part of both interceptors."""

    def __init__(self, config: Config, context: InterceptorContext) -> None:
        self._target = _Target(
            config[ENDPOINT], config[SERVICE], config[RATIO], config[HEADERS].value
        )
        self._tracer = _provider(self._target).get_tracer("penstock", VERSION)
        self._about = {
            "messaging.system": "kafka",
            "penstock.connector": context.task.connector,
            "penstock.task": context.task.number,
        }

    def begin(
        self,
        name: str,
        kind: str,
        count: int,
        topics: Sequence[str],
        contexts: Sequence[Any],
        began_ns: int | None = None,
        *,
        continues: bool = False,
    ) -> Span:
        """A span of a batch. `continues`: a single context is its parent, and not linked."""
        from opentelemetry import trace

        parent = None
        if continues and len(contexts) == 1:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(contexts[0]))
            contexts = ()
        about = {**self._about, "messaging.batch.message_count": count}
        if len(topics) == 1:
            about["messaging.destination.name"] = topics[0]
        return self._tracer.start_span(  # type: ignore[no-any-return]
            name,
            context=parent,
            kind=getattr(trace.SpanKind, kind),
            attributes=about,
            links=[trace.Link(context) for context in contexts[:_MOST_LINKS]],
            start_time=began_ns,
        )

    def stage(self, done: StageDone, parent: Span | None, links: Sequence[Any] = ()) -> None:
        """The whole span of a stage."""
        from opentelemetry import trace

        context = None if parent is None else trace.set_span_in_context(parent)
        span = self._tracer.start_span(
            done.stage,
            context=context,
            attributes={
                **self._about,
                "penstock.records": done.records,
                "penstock.failed": done.failed,
            },
            links=[trace.Link(link) for link in links[:_MOST_LINKS]],
            start_time=done.began_ns,
        )
        if done.error is not None:
            span.set_status(trace.StatusCode.ERROR, done.error)
        elif done.failed:
            span.set_status(trace.StatusCode.ERROR, f"{done.failed} records failed")
        span.end(done.ended_ns)

    def close(self) -> None:
        """Releases the exporter."""
        _release(self._target)


class TracingProducer(ProducerInterceptor):
    """Traces what a source sends."""

    plugin = Plugin(
        class_name=f"{_OURS}TracingProducerInterceptor",
        version=VERSION,
        config=CONFIG,
        extra=TRACING,
    )

    def __init__(self, config: Config, context: InterceptorContext) -> None:
        super().__init__(config, context)
        self._tracing = _Tracing(config, context)
        self._open: list[Span] = []
        self._converted: StageDone | None = None

    def on_stage(self, done: StageDone) -> None:
        self._unsent()
        self._converted = done

    def on_send(self, records: Records) -> Records:
        topics = list(dict.fromkeys(records.topics))
        converted, self._converted = self._converted, None
        began = None if converted is None else converted.began_ns
        span = self._tracing.begin(
            "send", "PRODUCER", len(records), topics, contexts_of(records), began
        )
        self._open.append(span)
        if converted is not None:
            self._tracing.stage(converted, span)
        return with_context(records, span)

    def on_acknowledgement(
        self,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        refused: Sequence[tuple[str, str]],
    ) -> None:
        from opentelemetry.trace import StatusCode

        ending, self._open = self._open, []
        for span in ending:
            if refused:
                span.set_attribute("penstock.refused", len(refused))
                span.set_status(StatusCode.ERROR, f"{refused[0][0]}: {refused[0][1]}")
            span.end()

    def close(self) -> None:
        self._unsent()
        for span in self._open:
            span.end()
        self._tracing.close()

    def _unsent(self) -> None:
        """Traces a batch from which nothing was sent."""
        if self._converted is not None:
            self._tracing.stage(self._converted, None)
            self._converted = None


class TracingConsumer(ConsumerInterceptor):
    """Traces what a sink reads."""

    plugin = Plugin(
        class_name=f"{_OURS}TracingConsumerInterceptor",
        version=VERSION,
        config=CONFIG,
        extra=TRACING,
    )

    def __init__(self, config: Config, context: InterceptorContext) -> None:
        super().__init__(config, context)
        self._tracing = _Tracing(config, context)
        self._received: Span | None = None
        self._unwritten: list[Span] = []

    def on_consume(self, records: Records) -> Records:
        topics = list(dict.fromkeys(records.topics))
        self._received = self._tracing.begin(
            "receive",
            "CONSUMER",
            len(records),
            topics,
            contexts_of(records),
            continues=True,
        )
        return records

    def on_stage(self, done: StageDone) -> None:
        if done.stage == "convert":
            span, self._received = self._received, None
            self._tracing.stage(done, span)
            if span is not None:
                span.end()
                self._unwritten = [*self._unwritten[1 - _MOST_LINKS :], span]
            return
        spans = self._unwritten
        parent = spans[-1] if spans else None
        self._tracing.stage(done, parent, [span.get_span_context() for span in spans[:-1]])
        if done.error is None:
            self._unwritten = []

    def close(self) -> None:
        if self._received is not None:
            self._received.end()
        self._tracing.close()


def contexts_of(records: Records) -> list[Any]:
    """The distinct span contexts in the headers of records, at most `_MOST_LINKS`."""
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parents: dict[tuple[str, str], None] = {}
    for headers in records.headers:
        parent = _text(headers, _PARENT)
        if parent:
            parents[parent, _text(headers, _STATE)] = None
            if len(parents) == _MOST_LINKS:
                break
    contexts = []
    for parent, state in parents:
        carrier = {_PARENT: parent, _STATE: state} if state else {_PARENT: parent}
        context = trace.get_current_span(
            TraceContextTextMapPropagator().extract(carrier)
        ).get_span_context()
        if context.is_valid:
            contexts.append(context)
    return contexts


def with_context(records: Records, span: Span) -> Records:
    """The records with the span's context in their headers, except those that have one."""
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(span))
    added = tuple(Header(name, text.encode()) for name, text in carrier.items())
    rows: Iterable[Sequence[Header]] = records.headers or [()] * len(records)
    return records.with_headers(
        [
            headers if any(header.name == _PARENT for header in headers) else (*headers, *added)
            for headers in rows
        ]
    )


def _text(headers: Sequence[Header], name: str) -> str:
    for header in reversed(headers):
        if header.name == name:
            value = header.value
            return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
    return ""

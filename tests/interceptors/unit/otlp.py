"""An OTLP receiver over HTTP, for tests of tracing."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Receiver:
    """An OTLP receiver: keeps received spans by name."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.requests: list[dict[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest.FromString(body)
                receiver.requests.append({"path": self.path, **dict(self.headers)})
                for resource in request.resource_spans:
                    service = attributes(resource.resource)["service.name"]
                    for scope in resource.scope_spans:
                        receiver.spans += [(service, span) for span in scope.spans]
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *given: Any) -> None:
                """Logs nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    def named(self, name: str) -> list[Any]:
        return [span for _, span in self.spans if span.name == name]

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def attributes(of: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in of.attributes}

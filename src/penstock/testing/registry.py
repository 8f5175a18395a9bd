"""A Schema Registry for tests: its REST API, in its own process.

    python -m penstock.testing.registry --port 8081

    with RegistryProcess(folder) as registry:
        settings = {"schema.registry.url": registry.url}

It keeps everything in memory and forgets it when it ends, has no authorisation beyond one user, and
checks the compatibility of JSON Schema and Protobuf more strictly than necessary. For tests of
connectors and converters it responds as Confluent's does; it is not meant for production.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.schema_registry.memory import MemoryRegistry, Response

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_METHODS: Final = ["GET", "POST", "PUT", "DELETE"]
_STOP_S: Final = 10.0


def app(registry: MemoryRegistry, user_info: str | None = None) -> Starlette:
    """The REST API of `registry`; with `user_info`, `user:password`, only for that user."""
    expected = user_info and "Basic " + base64.b64encode(user_info.encode()).decode()

    async def respond(request: Request) -> HttpResponse:
        credentials = request.headers.get("authorization", "")
        if expected and not secrets.compare_digest(credentials.encode(), expected.encode()):
            return _response(
                _error(401, "Unauthorized"), {"WWW-Authenticate": 'Basic realm="registry"'}
            )
        body: Any = None
        raw = await request.body()
        if raw:
            try:
                body = json.loads(raw)
            except ValueError:
                return _response(_error(400, "Malformed JSON"))
            if not isinstance(body, dict):
                return _response(_error(422, "The body must be a JSON object"))
        path = request.scope["raw_path"].decode("ascii")
        query = request.url.query
        # The path includes the query: a key may occur several times.
        answer = await run_in_threadpool(
            registry.answer,
            request.method,
            f"{path}?{query}" if query else path,
            dict(request.query_params),
            body,
        )
        return _response(answer)

    async def fail(request: Request, error: Exception) -> HttpResponse:
        return _response(
            Response(500, {"error_code": 50001, "message": f"Error in the backend: {error}"})
        )

    return Starlette(
        routes=[Route("/{path:path}", respond, methods=_METHODS)],
        exception_handlers={Exception: fail},
    )


def _error(status: int, message: str) -> Response:
    return Response(status, {"error_code": status, "message": message})


def _response(answer: Response, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return HttpResponse(
        json.dumps(answer.body, ensure_ascii=False).encode(),
        answer.status,
        headers,
        media_type=CONTENT_TYPE,
    )


class RegistryProcess:
    """One registry in its own process, with its log in `folder`.

    As a context manager, it is ready when the block begins, and stops after it. `certificate` and
    `key` are PEM files: with them it speaks HTTPS.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        user_info: str | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self.port = port or free_port()
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "penstock.testing.registry", "--port", str(self.port)]
        for option, text in (
            ("--user-info", user_info),
            ("--certificate", certificate),
            ("--key", key),
        ):
            if text is not None:
                command += [option, str(text)]
        self._process = Process(
            command, folder / f"registry-{self.port}.log", folder, name="The registry"
        )

    def start(self) -> None:
        """Starts the process and waits for an answer. Raises StartupFailed if it ends."""
        self._process.start()
        with httpx.Client(base_url=self.url, verify=False, trust_env=False) as client:

            def answers() -> bool:
                with contextlib.suppress(httpx.TransportError):
                    return client.get("/subjects").status_code in (200, 401)
                return False

            self._process.wait_for(answers, 30, f"an answer from {self.url}")

    def stop(self) -> None:
        """Stops it; it forgets everything."""
        self._process.stop(_STOP_S)

    def __enter__(self) -> RegistryProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@click.command(help="A Schema Registry for tests, in memory.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8081, show_default=True, help="Port to listen on.")
@click.option("--user-info", help="user:password that every request must carry.")
@click.option("--certificate", type=click.Path(exists=True), help="PEM file; speaks HTTPS.")
@click.option("--key", type=click.Path(exists=True), help="PEM file of the certificate's key.")
def main(
    host: str, port: int, user_info: str | None, certificate: str | None, key: str | None
) -> None:
    click.echo(f"Schema Registry for tests on {host}:{port}")
    uvicorn.run(
        app(MemoryRegistry(), user_info),
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
    )


if __name__ == "__main__":
    main()

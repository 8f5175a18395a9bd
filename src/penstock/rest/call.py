"""The requests that handlers get, and what they return: a response, or a raised error."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import orjson

from penstock.rest.forward import Client, Remote
from penstock.runtime.worker import Worker


class HttpError(Exception):
    """An error response: `{"error_code": …, "message": …}`."""

    def __init__(self, status: int, message: str, error_code: int | None = None) -> None:
        self.status = status
        self.error_code = status if error_code is None else error_code
        super().__init__(message)


class Unroutable(HttpError):
    """No handler matches the path, the method or a media type. As in Kafka Connect, the response
    has no Content-Type."""


def error_of(error: Exception) -> tuple[int, int, str]:
    """Status, error code and message for anything a handler raises (kafka-connect.md §1.2)."""
    if isinstance(error, HttpError):
        return error.status, error.error_code, str(error)
    if isinstance(error, Remote):
        return error.http_status, error.error_code, str(error)
    status = getattr(error, "status", 500)
    return status, status, str(error)


@dataclass(frozen=True, slots=True)
class Response:
    """A response: status, JSON body (None: none at all), further headers."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """One request and its context."""

    worker: Worker
    client: Client
    method: str
    path: str
    params: Mapping[str, str]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    scheme: str = "http"
    description: Mapping[str, object] = field(default_factory=dict)
    """The endpoints of this listener as OpenAPI."""

    @property
    def connector(self) -> str:
        return self.params["connector"]

    def flag(self, name: str, default: bool) -> bool:
        values = self.query.get(name)
        return default if not values else values[0].lower() == "true"

    def json(self) -> Any:
        """The body, None when it is empty; numbers keep their spelling."""
        if not self.body:
            return None
        try:
            self.body.decode()
            read = json.loads(
                self.body, parse_int=Number, parse_float=Number, parse_constant=_not_json
            )
            orjson.dumps(read)  # half a surrogate pair cannot be stored
        except (ValueError, TypeError, RecursionError) as error:
            # kafka-connect.md §1.2: malformed JSON is a 500.
            raise HttpError(500, f"Unexpected content in the request body: {error}") from error
        return read

    def config(self) -> dict[str, str | None]:
        return texts(self.json())

    @property
    def address(self) -> str:
        """The scheme and host that the client used."""
        host = self.headers.get("host")
        return f"{self.scheme}://{host}" if host else ""


Handler = Callable[[Call], Awaitable[Response]]


class Number(str):
    """A JSON number as written: `1.50` stays `1.50`."""

    __slots__ = ()


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def texts(value: object) -> dict[str, str | None]:
    """A flat map of strings; numbers and booleans become strings, anything nested is a 500."""
    if not isinstance(value, dict):
        raise HttpError(500, "Cannot deserialize value of type a map of strings from the body")
    return {name: text_of(name, item) for name, item in value.items()}


def text_of(name: str, value: object) -> str | None:
    """One value as a string, or None; anything nested is a 500."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case str():
            return str(value)
    raise HttpError(500, f"Cannot deserialize value of type a string from the value of '{name}'")

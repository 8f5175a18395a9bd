"""The REST API as an OpenAPI 3.1 document and as a table for the docs, generated from the
routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from penstock import VERSION
from penstock.rest.routes import Query, Route
from penstock.rest.shapes import SCHEMAS, ref

Json = dict[str, Any]

_ERROR: Final[Json] = {"application/json": {"schema": ref("Error")}}
_ANYWHERE: Final = (400, 500)
"""Errors of every endpoint: a malformed path, a malformed Content-Type, an internal error."""

_UNTYPED: Final = (406, 415)
"""Errors before any handler, whose response has no Content-Type."""

_TASK: Final[Json] = {"type": "integer", "format": "int32", "minimum": 0}
_NAME: Final[Json] = {"type": "string", "minLength": 1}


def document(routes: Sequence[Route]) -> Json:
    """The description of a listener that offers `routes`."""
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "penstock",
            "version": VERSION,
            "description": "Kafka Connect's REST API, as a penstock worker serves it. Every "
            "error response has a code and a message.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "responses": {
                "Refused": {"description": "An error.", "content": _ERROR},
                "NotUnderstood": {
                    "description": "Unsupported media type. The body is an error; as in "
                    "Kafka Connect, the response has no Content-Type."
                },
            },
        },
    }


def _operation(route: Route) -> Json:
    operation: Json = {
        "operationId": _identifier(route),
        "summary": route.summary,
        "tags": [_tag(route)],
        "responses": _responses(route),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _TASK if name == "task" else _NAME}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    parameters += [_query(parameter) for parameter in route.query]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": route.body}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _query(query: Query) -> Json:
    return {
        "name": query.name,
        "in": "query",
        "required": False,
        "description": query.doc,
        "schema": query.schema,
    }


def _responses(route: Route) -> Json:
    responses: Json = {}
    for status, shape in sorted(route.answers.items()):
        response: Json = {"description": HTTPStatus(status).phrase}
        if shape is not None:
            response["content"] = {route.media: {"schema": shape}}
        if status == HTTPStatus.CREATED:
            response["headers"] = {
                "Location": {
                    "description": "Where the new connector is.",
                    "schema": {"type": "string"},
                }
            }
        responses[str(status)] = response
    refused = {str(status): _component("Refused") for status in (*_ANYWHERE, *route.errors)}
    unread = {str(status): _component("NotUnderstood") for status in _UNTYPED}
    return dict(sorted({**refused, **unread, **responses}.items()))


def _component(name: str) -> Json:
    return {"$ref": f"#/components/responses/{name}"}


def _identifier(route: Route) -> str:
    """The method and the path's words, as one word: `getConnectorsConnectorStatus`."""
    words = re.findall(r"\w+", route.path) or ["root"]
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _tag(route: Route) -> str:
    """The endpoint's subject: the path's first word; `worker` for a path without one."""
    first = route.path.split("/")[1]
    return first if first in ("connectors", "connector-plugins", "admin") else "worker"


def markdown(routes: Sequence[Route]) -> str:
    """The endpoints as a Markdown table."""
    rows = [("Method", "Path", "Query", "Success", "What it does"), ("---",) * 5]
    for route in routes:
        query = ", ".join(f"`{parameter.name}`" for parameter in route.query)
        answers = ", ".join(str(status) for status in sorted(route.answers) if status < 300)
        rows.append((route.method, f"`{route.path}`", query, answers, route.summary))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)

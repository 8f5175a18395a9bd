"""Kafka Connect's REST interface (kafka-connect.md §1): paths, response shapes, error meanings.
Pure; `client` sends the requests."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from penstock.cli.exits import CommandError, Exit

NOT_VALID: Final = re.compile(
    r"Connector configuration is invalid|Failed to find any class that implements Connector"
    r"|More than one connector matches alias|contains no connector type"
    r"|Connector name configuration .* doesn't match"
)
"""Errors about the configuration itself (kafka-connect.md §1.6, §1.8)."""

_PASSING: Final = re.compile(r"momentarily|conflicting operation \(e\.g\. worker rebalance\)")
"""A 409 with these words is transient: nothing was done; retry (kafka-connect.md §1.3)."""


class RequestRefused(CommandError):
    """The worker answered with an error."""

    exit_code = Exit.REFUSED

    def __init__(self, status: int, message: str, body: bytes, advice: str = "") -> None:
        self.http_status = status
        self.message = message
        self.body = body
        super().__init__(f"{message} (HTTP {status})", advice)

    @property
    def passing(self) -> bool:
        """Whether the error is transient: the cluster is rebalancing."""
        return self.http_status == 409 and bool(_PASSING.search(self.message))


class Unknown(RequestRefused):
    """An unknown connector, task, plugin or logger."""

    exit_code = Exit.NOT_FOUND


class Invalid(RequestRefused):
    """The worker found the configuration to be invalid."""

    exit_code = Exit.INVALID


_OLDER: Final = "This worker does not support the request: it is an older version."
_REDIRECTED: Final = "Use the URL that it redirects to."
_NAMES: Final = "`penstock list connectors` lists them."
_BUSY: Final = "The cluster is rebalancing: retry, or wait longer with --patience."

ADVICE: Final[tuple[tuple[int | None, str, str], ...]] = (
    (401, "", "Set user and password in the URL, or user and password_file of the cluster."),
    (409, "already exists", "`penstock update` updates it, `penstock diff` shows the changes."),
    (409, "momentarily|conflicting operation", _BUSY),
    (
        400,
        "in the STOPPED state",
        "`penstock stop {name} --wait` first, `penstock resume {name}` afterwards.",
    ),
    (400, "configuration is invalid", "`penstock validate FILE` shows errors by key."),
    (None, "Failed to find any class", "`penstock list plugins` lists the classes."),
    (404, "HTTP 404 Not Found", f"{_OLDER} Or it serves it on another listener (admin.listeners)."),
    (405, "", _OLDER),
    (501, "", _OLDER),
    (404, "[Cc]onnector|[Tt]ask", _NAMES),
    (404, "[Ll]ogger|log level", "`penstock logs level` lists the loggers."),
    (404, "[Pp]lugin", "`penstock list plugins` lists them."),
    (301, "", _REDIRECTED),
    (302, "", _REDIRECTED),
    (308, "", _REDIRECTED),
    (503, "", "The worker is still starting: retry, or run `penstock health --wait`."),
    (500, "timed out", "It may have been executed: check with `penstock status {name}`."),
)
"""Status, pattern of the message, and advice; the first match applies. `{name}` stands for the
connector of the request."""


def advice_for(status: int, message: str, name: str = "NAME") -> str:
    """Advice for an error about a connector of that name, or nothing."""
    for expected, words, text in ADVICE:
        if expected in (None, status) and re.search(words, message):
            return text.replace("{name}", shlex.quote(name))
    return ""


def named(path: str, body: object = None) -> str:
    """The connector that a request is about; empty if it is about none.

    >>> named("/connectors/a%20b/status"), named("/connectors", {"name": "c"}), named("/health")
    ('a b', 'c', '')
    """
    _, first, *rest = path.split("/")
    if first != "connectors":
        return ""
    if rest:
        return unquote(rest[0])
    return str(body["name"]) if isinstance(body, dict) and "name" in body else ""


def refusal(status: int, body: bytes, name: str = "NAME") -> RequestRefused:
    """The error of a response to a request about a connector of that name."""
    message = _message(status, body)
    advice = advice_for(status, message, name)
    kind = RequestRefused
    if status in (400, 500) and NOT_VALID.search(message):
        kind = Invalid
    elif status == 404 and _is_error(body) and not message.startswith("HTTP 404"):
        kind = Unknown
    return kind(status, message, body, advice)


def _is_error(body: bytes) -> bool:
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and isinstance(document.get("message"), str)


def _message(status: int, body: bytes) -> str:
    if _is_error(body):
        return str(json.loads(body)["message"])
    text = body.decode("utf-8", "replace").strip()
    if not text:
        return "The worker gave no reason"
    if text.startswith("<"):
        return "The response is not Kafka Connect's"
    return text[:500]


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """A worker's response."""

    status: int
    content: bytes

    def read(self, shape: object) -> Any:
        """Its JSON. Raises RequestRefused when it does not have this shape."""
        try:
            body = json.loads(self.content)
        except ValueError:
            body = None
        if not fits(body, shape):
            raise RequestRefused(
                self.status,
                "The server there is not Kafka Connect, or another version of it: it answered "
                f"{self.content[:80]!r}",
                self.content,
                "Check the URL: `penstock clusters` shows which one is used.",
            )
        return body


# Shapes (kafka-connect.md §1.5): only the members that are used. A key "*" stands for all.
NAMES: Final = [str]
INFO: Final = {"name": str, "config": dict, "tasks": list}
STATUS: Final = {
    "name": str,
    "connector": {"state": str},
    "tasks": [{"id": int, "state": str}],
}
INFOS: Final = {"*": {"info": INFO}}
STATUSES: Final = {"*": {"status": STATUS}}
PLUGINS: Final = [{"class": str, "type": str}]
VALIDATION: Final = {"configs": [{"value": ({"name": str, "errors": list}, None)}]}
TOPICS: Final = {"*": {"topics": [str]}}
OFFSETS: Final = {"offsets": [{"partition": object, "offset": object}]}
MESSAGE: Final = {"message": str}
TRACE: Final = {"records": [{"steps": [dict], "outcome": str}]}
LEVEL: Final = {"level": str}
LEVELS: Final = {"*": LEVEL}


def fits(value: object, shape: object) -> bool:
    """Whether a JSON document has a shape; a tuple is a choice.

    >>> fits([{"name": "a", "n": 1}], [{"name": str}]), fits({"a": {}}, {"*": list})
    (True, False)
    >>> fits({"a": None}, {"a": (str, None)}), fits({"a": 1}, {"a": (str, None)})
    (True, False)
    """
    match shape:
        case None:
            return value is None
        case tuple():
            return any(fits(value, alternative) for alternative in shape)
        case type():
            return isinstance(value, shape)
        case [each]:
            return isinstance(value, list) and all(fits(item, each) for item in value)
        case {"*": each}:
            return isinstance(value, dict) and all(fits(item, each) for item in value.values())
        case dict():
            return isinstance(value, dict) and all(
                key in value and fits(value[key], expected) for key, expected in shape.items()
            )
    raise AssertionError(shape)


def in_path(name: str) -> str:
    """Any name as one segment of a path.

    >>> in_path("a/b ü"), in_path("..")
    ('a%2Fb%20%C3%BC', '%2E%2E')
    """
    if name in (".", ".."):  # would be folders
        return name.replace(".", "%2E")
    return quote(name, safe="")


def connector(name: str, *parts: str) -> str:
    """The path of a connector, or of something that belongs to it."""
    return "/".join(("/connectors", in_path(name), *parts))

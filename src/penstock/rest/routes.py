"""The routes as a table: method, path, what answers. To add an endpoint, add a row.

Paths are matched on the raw request path, segment by segment, so that a connector's name may hold
anything, percent-encoded. Every handler gets a `Call` and returns an `Answer`; errors are raised.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn
from urllib.parse import quote, unquote

import orjson

from penstock.cluster import events as e
from penstock.cluster.records import Target
from penstock.config import connector as connector_keys
from penstock.config import render
from penstock.config import worker as worker_keys
from penstock.errors import BadRequest
from penstock.ids import TaskId
from penstock.loggers import LEVELS
from penstock.metrics import CONTENT_TYPE
from penstock.offset_admin import requested
from penstock.plugins import Found, Kind
from penstock.rest import model
from penstock.rest.forward import Client, Remote, next_hop, verify
from penstock.worker import Worker

REQUEST_TIMEOUT_S: Final = 90.0
HEALTH_TIMEOUT_S: Final = 10.0

_CONFLICT: Final = (
    "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
)
_NO_LEADER: Final = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
    "was underway."
)


class HttpError(Exception):
    """An answer that is an error: `{"error_code": …, "message": …}`."""

    def __init__(self, status: int, message: str, error_code: int | None = None) -> None:
        self.status = status
        self.error_code = status if error_code is None else error_code
        super().__init__(message)


class Unroutable(HttpError):
    """No handler was asked: the path, the method or a media type is none of ours. Like the
    reference's, the answer says nothing about its own type."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: status, JSON body (None: none at all), further headers."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, and what it is served with."""

    worker: Worker
    client: Client
    method: str
    path: str
    params: Mapping[str, str]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    scheme: str = "http"

    @property
    def connector(self) -> str:
        return self.params["connector"]

    def flag(self, name: str, default: bool) -> bool:
        values = self.query.get(name)
        return default if not values else values[0].lower() == "true"

    def json(self) -> Any:
        """The body, None when it is empty; numbers as they were written."""
        if not self.body:
            return None
        try:
            self.body.decode()
            read = json.loads(
                self.body, parse_int=Number, parse_float=Number, parse_constant=_not_json
            )
            orjson.dumps(read)  # half a surrogate pair is no text that could be stored
        except (ValueError, TypeError, RecursionError) as error:
            # Reference §1.2: malformed JSON is a 500 there, and so it is here.
            raise HttpError(500, f"Unexpected content in the request body: {error}") from error
        return read

    def config(self) -> dict[str, str | None]:
        return texts(self.json())

    @property
    def address(self) -> str:
        """Where the caller found this worker: scheme and host."""
        host = self.headers.get("host")
        return f"{self.scheme}://{host}" if host else ""


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One row: `{name}` segments are parameters; `takes_body` wants `application/json`."""

    method: str
    path: str
    handler: Handler
    takes_body: bool = False

    @property
    def admin(self) -> bool:
        """An admin endpoint: where it is offered, `admin.listeners` says (reference §1.1)."""
        return self.path.startswith("/admin/")

    def match(self, segments: list[str]) -> dict[str, str] | None:
        """The parameters if the path is this route's."""
        own = self.path.strip("/").split("/") if self.path.strip("/") else []
        if len(own) != len(segments):
            return None
        params: dict[str, str] = {}
        for pattern, segment in zip(own, segments, strict=True):
            if pattern.startswith("{"):
                params[pattern[1:-1]] = _decoded(segment)
            elif pattern != _decoded(segment):
                return None
        return params


def _decoded(segment: str) -> str:
    """A path segment as text, without its matrix parameters."""
    return unquote(segment.split(";")[0])


class Number(str):
    """A JSON number as it was written: `1.50` stays `1.50`."""

    __slots__ = ()


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def texts(value: object) -> dict[str, str | None]:
    """A flat map of texts; numbers and booleans become texts, anything nested is refused (500)."""
    if not isinstance(value, dict):
        raise HttpError(500, "Cannot deserialize value of type a map of strings from the body")
    return {name: text_of(name, item) for name, item in value.items()}


def text_of(name: str, value: object) -> str | None:
    """One value as text, None as it is; anything nested is refused (500)."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case str():
            return str(value)
    raise HttpError(500, f"Cannot deserialize value of type a string from the value of '{name}'")


# ── serving through the herder ───────────────────────────────────────────────────────────────────


async def operate(call: Call, operation: e.Operation) -> e.Done | Answer:
    """Has the operation served here, or by whoever may; a forwarded answer comes back as it is."""
    result: e.Result = await within(
        call.worker.submit(operation), REQUEST_TIMEOUT_S, "Request timed out"
    )
    match result:
        case e.Done():
            return result
        case e.Refused():
            raise HttpError(result.status, result.message)
        case e.Elsewhere():
            return await forward(call, result.url)


async def forward(call: Call, url: str | None) -> Answer:
    """Sends the request on, at most two hops (reference §1.3)."""
    given = call.query.get("forward")
    hop = next_hop(given[0] if given else None)
    if hop is None:
        raise HttpError(409, _CONFLICT)
    if not url:
        raise HttpError(409, _NO_LEADER)
    query = {name: values[0] for name, values in call.query.items()} | {"forward": hop}
    passed = {name: text for name, text in call.headers.items() if name == "Authorization"}
    answer = await asyncio.to_thread(
        call.client.send,
        call.method,
        url.rstrip("/") + call.path,
        query=query,
        body=call.body,
        headers=passed,
    )
    body = orjson.loads(answer.content) if answer.content else None
    return Answer(answer.status_code, body)


async def within(future: Future[Any], timeout_s: float, text: str) -> Any:
    """The future's result; 500 with `text` when it takes too long."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)
    except TimeoutError:
        raise HttpError(500, text) from None


async def ready(call: Call) -> None:
    """Waits until the worker has read its topics: before that it knows nothing to tell."""
    try:
        await asyncio.wait_for(_until_ready(call.worker), REQUEST_TIMEOUT_S)
    except TimeoutError:
        raise HttpError(500, "Request timed out. The worker is still reading its topics.") from None


async def _until_ready(worker: Worker) -> None:
    while not worker.state.ready:
        if worker.ended.is_set():
            raise HttpError(500, "Worker is shutting down")
        await asyncio.sleep(0.02)


def existing(found: Any, text: str) -> Answer:
    """200 with what was found, or 404."""
    if found is None:
        raise HttpError(404, text)
    return Answer(body=found)


# ── handlers ─────────────────────────────────────────────────────────────────────────────────────


async def root(call: Call) -> Answer:
    return Answer(body=model.server_info(call.worker.kafka_cluster_id))


async def health(call: Call) -> Answer:
    result = call.worker.submit(e.Ping())
    try:
        await asyncio.wait_for(asyncio.wrap_future(result), HEALTH_TIMEOUT_S)
    except TimeoutError:
        if not call.worker.started:
            text = "Worker is still starting up. It has not joined its group yet."
            return Answer(503, {"status": "starting", "message": text})
        text = (
            "Worker was unable to handle this request and may be unable to handle other requests."
        )
        return Answer(500, {"status": "unhealthy", "message": text})
    text = "Worker has completed startup and is ready to handle requests."
    return Answer(body={"status": "healthy", "message": text})


async def metrics(call: Call) -> Answer:
    """What Prometheus scrapes; beyond the reference, which leaves it to an agent."""
    worker = call.worker
    shown = await asyncio.to_thread(worker.metrics.exposition, worker.state, worker.registry)
    return Answer(body=shown, headers={"Content-Type": CONTENT_TYPE})


async def list_connectors(call: Call) -> Answer:
    state, registry = call.worker.state, call.worker.registry
    names = state.cluster.connectors()
    expand = call.query.get("expand")
    if expand is None:
        return Answer(body=list(names))
    makers = {"status": model.connector_status, "info": model.connector_info}
    wanted = {kind: makers[kind] for kind in expand if kind in makers}
    found = {
        name: {kind: make(state, registry, name) for kind, make in wanted.items()} for name in names
    }
    return Answer(body={name: parts for name, parts in found.items() if None not in parts.values()})


async def create_connector(call: Call) -> Answer:
    request = call.json()
    if not isinstance(request, dict):
        raise HttpError(500, "Cannot deserialize value of type a create request from the body")
    unknown = set(request) - {"name", "config", "initial_state"}
    if unknown:
        raise HttpError(500, f'Unrecognized field "{sorted(unknown)[0]}" in the create request')
    name = (text_of("name", request.get("name")) or "").strip()
    if request.get("config") is None:
        raise HttpError(500, "The create request has no 'config'")
    config = checked_name(texts(request["config"]), name)
    target = initial_target(request.get("initial_state"))
    await validated(call, config)
    done = await operate(call, e.CreateConnector(name, config, target))
    return located(call, name, done if isinstance(done, Answer) else info(call, name, config))


async def put_config(call: Call) -> Answer:
    config = checked_name(call.config(), call.connector)
    await validated(call, config)
    done = await operate(call, e.PutConfig(call.connector, config))
    if isinstance(done, Answer):
        return located(call, call.connector, done) if done.status == 201 else done
    answer = info(call, call.connector, config)
    return located(call, call.connector, answer) if done.created else answer


async def get_connector(call: Call) -> Answer:
    found = model.connector_info(call.worker.state, call.worker.registry, call.connector)
    return existing(found, f"Connector {call.connector} not found")


async def delete_connector(call: Call) -> Answer:
    done = await operate(call, e.DeleteConnector(call.connector))
    return done if isinstance(done, Answer) else Answer(204)


async def get_config(call: Call) -> Answer:
    config = call.worker.state.cluster.config(call.connector)
    found = None if config is None else model.in_stored_order(config)
    return existing(found, f"Connector {call.connector} not found")


async def get_status(call: Call) -> Answer:
    found = model.connector_status(call.worker.state, call.worker.registry, call.connector)
    return existing(found, f"No status found for connector {call.connector}")


async def get_tasks(call: Call) -> Answer:
    found = model.task_infos(call.worker.state, call.connector)
    return existing(found, f"Connector {call.connector} not found")


async def get_task_status(call: Call) -> Answer:
    number = task_number(call)
    state, registry = call.worker.state, call.worker.registry
    found = model.task_status(state, registry, call.connector, number)
    return existing(found, f"No status found for task {call.connector}-{number}")


def check_signed(call: Call) -> None:
    """Raises unless the request comes from a worker, where requests between workers are signed."""
    state = call.worker.state
    if state.member is not None and state.member.protocol == "sessioned":
        allowed = call.worker.config[worker_keys.INTER_WORKER_VERIFICATION_ALGORITHMS]
        verify(call.body, call.headers, state.cluster.session_key, allowed)


async def fence(call: Call) -> Answer:
    """Internal: a follower wants a connector's older tasks fenced by the leader (KIP-618)."""
    check_signed(call)
    done = await operate(call, e.FenceZombies(call.connector))
    return done if isinstance(done, Answer) else Answer(204)


async def put_tasks(call: Call) -> Answer:
    """Internal: a follower hands a task set to the leader."""
    check_signed(call)
    configs = call.json()
    if not isinstance(configs, list):
        raise HttpError(500, "Cannot deserialize value of type a list from the body")
    done = await operate(call, e.PutTasks(call.connector, tuple(map(texts, configs))))
    return done if isinstance(done, Answer) else Answer(204)


async def restart_connector(call: Call) -> Answer:
    include_tasks, only_failed = call.flag("includeTasks", False), call.flag("onlyFailed", False)
    if not (include_tasks or only_failed):
        done = await operate(call, e.RestartConnector(call.connector))
        return done if isinstance(done, Answer) else Answer(204)
    done = await operate(call, e.RestartAll(call.connector, include_tasks, only_failed))
    if isinstance(done, Answer):
        return done
    assert done.restarting is not None
    state, registry = call.worker.state, call.worker.registry
    return Answer(202, model.restarting(state, registry, call.connector, done.restarting))


async def restart_task(call: Call) -> Answer:
    done = await operate(call, e.RestartTask(TaskId(call.connector, task_number(call))))
    return done if isinstance(done, Answer) else Answer(204)


def set_target(target: Target, status: int) -> Handler:
    async def handler(call: Call) -> Answer:
        done = await operate(call, e.SetTarget(call.connector, target))
        return done if isinstance(done, Answer) else Answer(status)

    return handler


async def get_topics(call: Call) -> Answer:
    if not call.worker.config[worker_keys.TOPIC_TRACKING_ENABLE]:
        raise HttpError(403, "Topic tracking is disabled.")
    return Answer(body=model.active_topics(call.worker.state, call.connector))


async def patch_config(call: Call) -> Answer:
    """Changes single settings; null removes one (KIP-477)."""
    there = await operate(call, e.CheckThere(call.connector))
    if isinstance(there, Answer):
        return there
    patch = call.config()
    stored = model.in_stored_order(call.worker.state.cluster.config(call.connector) or {})
    config = model.patched(stored, patch)
    await validated(call, config)
    done = await operate(call, e.PutConfig(call.connector, config))
    return done if isinstance(done, Answer) else info(call, call.connector, config)


async def reset_topics(call: Call) -> Answer:
    config = call.worker.config
    if not config[worker_keys.TOPIC_TRACKING_ENABLE]:
        raise HttpError(403, "Topic tracking is disabled.")
    if not config[worker_keys.TOPIC_TRACKING_ALLOW_RESET]:
        raise HttpError(403, "Topic tracking reset is disabled.")
    done = await operate(call, e.ResetTopics(call.connector))
    return done if isinstance(done, Answer) else Answer(202)


# ── offsets (reference §1.7) ─────────────────────────────────────────────────────────────────────


async def get_offsets(call: Call) -> Answer:
    found, config = connector_class(call)
    offsets = call.worker.offset_admin
    return Answer(body=await asyncio.to_thread(offsets.read, call.connector, found, config))


async def patch_offsets(call: Call) -> Answer:
    call.json()
    pairs = requested(orjson.loads(call.body) if call.body else None)
    refused = await for_offsets(call)
    if refused is not None:
        return refused
    found, config = connector_class(call)
    alter = call.worker.offset_admin.alter
    text = await asyncio.to_thread(alter, call.connector, found, config, pairs)
    return Answer(body={"message": text})


async def delete_offsets(call: Call) -> Answer:
    refused = await for_offsets(call)
    if refused is not None:
        return refused
    found, config = connector_class(call)
    reset = call.worker.offset_admin.reset
    return Answer(body={"message": await asyncio.to_thread(reset, call.connector, found, config)})


async def for_offsets(call: Call) -> Answer | None:
    """Sees to it that a connector's offsets may be changed here: this worker leads, the connector
    is stopped by all there is in the config topic, and no older task can write any more. An answer
    if somebody else has done everything."""
    done = await operate(call, e.CheckStopped(call.connector))
    if isinstance(done, Answer):
        return done
    if not await asyncio.to_thread(call.worker.read_config_to_end):
        raise HttpError(
            500, "Failed to read to end of config topic before modifying connector offsets"
        )
    done = await operate(call, e.CheckStopped(call.connector))
    if isinstance(done, Answer):
        return done
    found, _ = connector_class(call)
    if found.kind is Kind.SOURCE and call.worker.exactly_once:
        try:
            await operate(call, e.FenceZombies(call.connector))
        except HttpError as error:
            text = (
                "Failed to perform zombie fencing for source connector prior to modifying offsets"
            )
            raise HttpError(500, text) from error
    return None


def connector_class(call: Call) -> tuple[Found, Mapping[str, str | None]]:
    """A connector's plugin and configuration; 404 when there is none."""
    config = call.worker.state.cluster.config(call.connector)
    if config is None:
        raise HttpError(404, f"Connector {call.connector} not found")
    return call.worker.registry.connector((config.get("connector.class") or "").strip()), config


# ── loggers ──────────────────────────────────────────────────────────────────────────────────────


async def list_loggers(call: Call) -> Answer:
    return Answer(body=call.worker.loggers.all())


async def get_logger(call: Call) -> Answer:
    return Answer(body=call.worker.loggers.get(call.params["logger"]))


async def set_logger(call: Call) -> Answer:
    body = call.json()
    level = text_of("level", body.get("level")) if isinstance(body, dict) else None
    if level is None:
        raise HttpError(400, "Desired 'level' parameter was not specified in request.")
    if level.upper() not in LEVELS:
        raise HttpError(404, f"invalid log level '{level}'.")
    namespace = call.params["logger"]
    if call.query.get("scope", ["worker"])[0].lower() != "cluster":
        return Answer(body=call.worker.loggers.set_level(namespace, level))
    done = await operate(call, e.SetLevel(namespace, level.upper()))
    return done if isinstance(done, Answer) else Answer(204)


# ── plugins ──────────────────────────────────────────────────────────────────────────────────────


async def list_plugins(call: Call) -> Answer:
    connectors_only = call.flag("connectorsOnly", True)
    return Answer(body=model.plugin_infos(call.worker.registry, connectors_only=connectors_only))


async def plugin_config(call: Call) -> Answer:
    """What a plugin's settings are; for connectors also what every connector has."""
    return Answer(body=model.plugin_config(call.worker.registry, call.params["plugin"]))


async def validate_plugin(call: Call) -> Answer:
    config, plugin = call.config(), call.params["plugin"]
    named = config.get(connector_keys.CONNECTOR_CLASS.name)
    if named is not None and not _trimmed(named).endswith(_trimmed(plugin)):
        raise HttpError(
            400, f"Included connector type {named} does not match request type {plugin}"
        )
    try:
        infos = await asyncio.to_thread(call.worker.planner.validate, config)
    except BadRequest as error:  # wrapped there, too: it is another thread that validates
        wrapped = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"
        raise HttpError(500, f"{wrapped}: {error}") from error
    return Answer(body=infos)


def _trimmed(name: str) -> str:
    return name.removesuffix("Connector")


# ── parts of handlers ────────────────────────────────────────────────────────────────────────────


def checked_name(config: dict[str, str | None], name: str) -> dict[str, str | None]:
    """The config with `name` in it; 400 when it holds another one."""
    given = config.get(connector_keys.NAME.name)
    if given is None:
        return {**config, connector_keys.NAME.name: name}
    if given != name:
        raise HttpError(
            400,
            f"Connector name configuration ({given}) doesn't match connector name in the URL "
            f"({name})",
        )
    return config


def initial_target(value: object) -> Target | None:
    """The target state an `initial_state` asks for."""
    if value is None:
        return None
    states = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}
    if not isinstance(value, str) or value.upper() not in states:
        raise HttpError(
            500, f"Cannot deserialize 'initial_state' {value!r}: not one of {', '.join(states)}"
        )
    return states[value.upper()]


async def validated(call: Call, config: Mapping[str, str | None]) -> None:
    """400 with every error when the configuration is not valid."""
    infos = await asyncio.to_thread(call.worker.planner.validate, config)
    text = render.invalid_text(infos)
    if text is not None:
        raise HttpError(400, text)


def task_number(call: Call) -> int:
    """The task's number; 404 for anything that is no 32-bit integer."""
    given = call.params["task"]
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", given) or not -(2**31) <= int(given) < 2**31:
        raise HttpError(404, "HTTP 404 Not Found")
    return int(given)


def located(call: Call, name: str, answer: Answer) -> Answer:
    """201 and where the new connector is found."""
    return Answer(201, answer.body, {"Location": f"{call.address}/connectors/{in_path(name)}"})


def in_path(name: str) -> str:
    """A name as JAX-RS puts it into a path: escapes that stand in it already are left alone."""
    parts = re.split(r"(%[0-9A-Fa-f]{2})", name)
    return "".join(
        part if at % 2 else quote(part, safe="/:@!$&'()*+,;=~") for at, part in enumerate(parts)
    )


def info(call: Call, name: str, config: Mapping[str, str | None]) -> Answer:
    """The connector after a change, its configuration in the order it was sent in."""
    found = model.connector_info(call.worker.state, call.worker.registry, name)
    if found is None:
        raise HttpError(404, f"Connector {name} not found")  # deleted since
    return Answer(body={**found, "config": dict(config)})


ROUTES: Final = (
    Route("GET", "/", root),
    Route("GET", "/health", health),
    Route("GET", "/metrics", metrics),
    Route("GET", "/connectors", list_connectors),
    Route("POST", "/connectors", create_connector, takes_body=True),
    Route("GET", "/connectors/{connector}", get_connector),
    Route("DELETE", "/connectors/{connector}", delete_connector),
    Route("GET", "/connectors/{connector}/config", get_config),
    Route("PUT", "/connectors/{connector}/config", put_config, takes_body=True),
    Route("GET", "/connectors/{connector}/status", get_status),
    Route("GET", "/connectors/{connector}/tasks", get_tasks),
    Route("POST", "/connectors/{connector}/tasks", put_tasks, takes_body=True),
    Route("PUT", "/connectors/{connector}/fence", fence),
    Route("GET", "/connectors/{connector}/tasks/{task}/status", get_task_status),
    Route("POST", "/connectors/{connector}/tasks/{task}/restart", restart_task),
    Route("POST", "/connectors/{connector}/restart", restart_connector),
    Route("PUT", "/connectors/{connector}/pause", set_target(Target.PAUSED, 202)),
    Route("PUT", "/connectors/{connector}/resume", set_target(Target.STARTED, 202)),
    Route("PUT", "/connectors/{connector}/stop", set_target(Target.STOPPED, 204)),
    Route("PATCH", "/connectors/{connector}/config", patch_config, takes_body=True),
    Route("GET", "/connectors/{connector}/topics", get_topics),
    Route("PUT", "/connectors/{connector}/topics/reset", reset_topics),
    Route("GET", "/connectors/{connector}/offsets", get_offsets),
    Route("PATCH", "/connectors/{connector}/offsets", patch_offsets, takes_body=True),
    Route("DELETE", "/connectors/{connector}/offsets", delete_offsets),
    Route("GET", "/connector-plugins", list_plugins),
    Route("GET", "/connector-plugins/{plugin}/config", plugin_config),
    Route("PUT", "/connector-plugins/{plugin}/config/validate", validate_plugin, takes_body=True),
    Route("GET", "/admin/loggers", list_loggers),
    Route("GET", "/admin/loggers/{logger}", get_logger),
    Route("PUT", "/admin/loggers/{logger}", set_logger, takes_body=True),
)

ALWAYS: Final = frozenset({root, health, metrics, list_plugins})
"""Handlers that need nothing from the topics and answer at once, however young the worker is."""


def error_of(error: Exception) -> tuple[int, int, str]:
    """Status, error code and message for anything a handler raises (reference §1.2)."""
    if isinstance(error, HttpError):
        return error.status, error.error_code, str(error)
    if isinstance(error, Remote):
        return error.http_status, error.error_code, str(error)
    status = getattr(error, "status", 500)
    return status, status, str(error)

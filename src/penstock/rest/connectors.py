"""Connectors and their tasks: configurations, states, topics."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from urllib.parse import quote

from penstock.cluster import events as e
from penstock.cluster.records import Target
from penstock.config import connector_keys, render, worker_keys
from penstock.ids import TaskId
from penstock.rest import model
from penstock.rest.call import Call, Handler, HttpError, Response, text_of, texts
from penstock.rest.operations import existing, operate


async def list_connectors(call: Call) -> Response:
    state, registry = call.worker.state, call.worker.registry
    names = state.cluster.connectors()
    expand = call.query.get("expand")
    if expand is None:
        return Response(body=list(names))
    makers = {"status": model.connector_status, "info": model.connector_info}
    chosen = {kind: makers[kind] for kind in expand if kind in makers}
    connectors = {
        name: {kind: make(state, registry, name) for kind, make in chosen.items()} for name in names
    }
    return Response(
        body={name: parts for name, parts in connectors.items() if None not in parts.values()}
    )


async def create_connector(call: Call) -> Response:
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
    return located(call, name, done if isinstance(done, Response) else info(call, name, config))


async def put_config(call: Call) -> Response:
    config = checked_name(call.config(), call.connector)
    await validated(call, config)
    done = await operate(call, e.PutConfig(call.connector, config))
    if isinstance(done, Response):
        return located(call, call.connector, done) if done.status == 201 else done
    answer = info(call, call.connector, config)
    return located(call, call.connector, answer) if done.created else answer


async def get_connector(call: Call) -> Response:
    body = model.connector_info(call.worker.state, call.worker.registry, call.connector)
    return existing(body, f"Connector {call.connector} not found")


async def delete_connector(call: Call) -> Response:
    done = await operate(call, e.DeleteConnector(call.connector))
    return done if isinstance(done, Response) else Response(204)


async def get_config(call: Call) -> Response:
    config = call.worker.state.cluster.config(call.connector)
    body = None if config is None else model.in_stored_order(config)
    return existing(body, f"Connector {call.connector} not found")


async def get_status(call: Call) -> Response:
    body = model.connector_status(call.worker.state, call.worker.registry, call.connector)
    return existing(body, f"No status found for connector {call.connector}")


async def get_tasks(call: Call) -> Response:
    body = model.task_infos(call.worker.state, call.connector)
    return existing(body, f"Connector {call.connector} not found")


async def get_task_status(call: Call) -> Response:
    number = task_number(call)
    state, registry = call.worker.state, call.worker.registry
    body = model.task_status(state, registry, call.connector, number)
    return existing(body, f"No status found for task {call.connector}-{number}")


async def restart_connector(call: Call) -> Response:
    include_tasks, only_failed = call.flag("includeTasks", False), call.flag("onlyFailed", False)
    if not (include_tasks or only_failed):
        done = await operate(call, e.RestartConnector(call.connector))
        return done if isinstance(done, Response) else Response(204)
    done = await operate(call, e.RestartAll(call.connector, include_tasks, only_failed))
    if isinstance(done, Response):
        return done
    assert done.restarting is not None
    state, registry = call.worker.state, call.worker.registry
    return Response(202, model.restarting(state, registry, call.connector, done.restarting))


async def restart_task(call: Call) -> Response:
    done = await operate(call, e.RestartTask(TaskId(call.connector, task_number(call))))
    return done if isinstance(done, Response) else Response(204)


def set_target(target: Target, status: int) -> Handler:
    async def handler(call: Call) -> Response:
        done = await operate(call, e.SetTarget(call.connector, target))
        return done if isinstance(done, Response) else Response(status)

    return handler


async def get_topics(call: Call) -> Response:
    if not call.worker.config[worker_keys.TOPIC_TRACKING_ENABLE]:
        raise HttpError(403, "Topic tracking is disabled.")
    return Response(body=model.active_topics(call.worker.state, call.connector))


async def patch_config(call: Call) -> Response:
    """Changes single settings; null removes one (KIP-477)."""
    exists = await operate(call, e.CheckExists(call.connector))
    if isinstance(exists, Response):
        return exists
    patch = call.config()
    stored = model.in_stored_order(call.worker.state.cluster.config(call.connector) or {})
    config = model.patched(stored, patch)
    await validated(call, config)
    done = await operate(call, e.PutConfig(call.connector, config))
    return done if isinstance(done, Response) else info(call, call.connector, config)


async def reset_topics(call: Call) -> Response:
    config = call.worker.config
    if not config[worker_keys.TOPIC_TRACKING_ENABLE]:
        raise HttpError(403, "Topic tracking is disabled.")
    if not config[worker_keys.TOPIC_TRACKING_ALLOW_RESET]:
        raise HttpError(403, "Topic tracking reset is disabled.")
    done = await operate(call, e.ResetTopics(call.connector))
    return done if isinstance(done, Response) else Response(202)


def checked_name(config: dict[str, str | None], name: str) -> dict[str, str | None]:
    """The config with `name` in it; 400 when it holds another one."""
    configured = config.get(connector_keys.NAME.name)
    if configured is None:
        return {**config, connector_keys.NAME.name: name}
    if configured != name:
        raise HttpError(
            400,
            f"Connector name configuration ({configured}) doesn't match connector name in the URL "
            f"({name})",
        )
    return config


def initial_target(value: object) -> Target | None:
    """The target state of an `initial_state`."""
    if value is None:
        return None
    states = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}
    if not isinstance(value, str) or value.upper() not in states:
        raise HttpError(
            500, f"Cannot deserialize 'initial_state' {value!r}: not one of {', '.join(states)}"
        )
    return states[value.upper()]


async def validated(call: Call, config: Mapping[str, str | None]) -> None:
    """400 with every error when the configuration is invalid."""
    infos = await asyncio.to_thread(call.worker.planner.validate, config)
    text = render.invalid_text(infos)
    if text is not None:
        raise HttpError(400, text)


def task_number(call: Call) -> int:
    """The task's number; 404 for anything but a 32-bit integer."""
    text = call.params["task"]
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", text) or not -(2**31) <= int(text) < 2**31:
        raise HttpError(404, "HTTP 404 Not Found")
    return int(text)


def located(call: Call, name: str, answer: Response) -> Response:
    """201 with the Location of the new connector."""
    return Response(201, answer.body, {"Location": f"{call.address}/connectors/{in_path(name)}"})


def in_path(name: str) -> str:
    """A name as JAX-RS puts it into a path: existing escapes stay."""
    parts = re.split(r"(%[0-9A-Fa-f]{2})", name)
    return "".join(
        part if at % 2 else quote(part, safe="/:@!$&'()*+,;=~") for at, part in enumerate(parts)
    )


def info(call: Call, name: str, config: Mapping[str, str | None]) -> Response:
    """The connector after a change, its configuration in the order of the request."""
    body = model.connector_info(call.worker.state, call.worker.registry, name)
    if body is None:
        raise HttpError(404, f"Connector {name} not found")  # deleted meanwhile
    return Response(body={**body, "config": dict(config)})

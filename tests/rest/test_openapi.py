"""A live worker answers every request as its OpenAPI description says.

Schemathesis generates requests from the description that the worker serves, valid and invalid ones;
half of them are about connectors that exist. The description must contain the status, type and
shape of every answer. The requests are the same in every run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from penstock.rest.routes import ROUTES, Route
from penstock.testing.processes import WorkerProcess
from penstock.testing.waiting import wait_until

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow(160)]

EXAMPLES: Final = 12
"""Requests per endpoint and way of generating them."""

CHECKS: Final[list[CheckFunction]] = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

REPEATABLE: Final = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate,),  # no shrinking: a request changes the worker
    suppress_health_check=list(HealthCheck),
)

SURPRISE: Final = re.compile(r"^.* ERROR .*\(penstock\.rest.*$", re.MULTILINE)
"""The log line of an unexpected error."""

STOPPED: Final = "stopped"
RUNNING: Final = "running"


class Live:
    """A worker with a running and a stopped connector, and its description."""

    def __init__(self, worker: WorkerProcess, file: Path, topic: str) -> None:
        self.worker = worker
        self.http = requests.Session()
        self.http.trust_env = False
        self.config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
        served = self.http.get(f"{worker.url}/openapi.json", timeout=60)
        self.schema = schemathesis.openapi.from_dict(served.json())

    def restore(self) -> None:
        """Restores the connectors and their states."""
        for name, target in ((RUNNING, "resume"), (STOPPED, "stop")):
            configured = self.worker.request("PUT", f"/connectors/{name}/config", self.config)
            assert configured.status_code in (200, 201), configured.text
            moved = self.worker.request("PUT", f"/connectors/{name}/{target}")
            assert moved.status_code in (202, 204), moved.text

    def send(self, case: Any) -> Any:
        return case.call(base_url=self.worker.url, session=self.http, timeout=100)


@pytest.fixture(scope="module")
def live(
    make_worker: Callable[..., WorkerProcess],
    cluster: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Live]:
    file = tmp_path_factory.mktemp("files") / "in.txt"
    file.write_text("one\ntwo\n")
    # Without automatic restarts, which would also change states.
    worker = make_worker(penstock_restart_policy="off").start()
    worker.await_rest()
    live = Live(worker, file, f"{cluster}-lines")
    live.restore()
    wait_until(lambda: worker.status(RUNNING), 60, "a status of the connector")
    yield live
    live.http.close()


def bodies(live: Live, route: Route) -> st.SearchStrategy[Any] | None:
    """Bodies that are valid, or nearly so: of random ones hardly any would be."""
    texts = st.text(max_size=8)
    changes = st.dictionaries(
        st.sampled_from(["file", "topic", "tasks.max", "key.converter", "transforms", "x"]) | texts,
        texts | st.integers() | st.booleans(),
        max_size=2,
    )
    configs = changes.map(lambda changed: {**live.config, **changed})
    match route.method, route.path:
        case "POST", "/connectors":
            names = st.sampled_from([RUNNING, "made"])
            states = st.sampled_from(["STOPPED", "paused", None])
            return st.fixed_dictionaries(
                {"name": names, "config": configs, "initial_state": states}
            )
        case "PUT", "/connectors/{connector}/config":
            return configs
        case "PATCH", "/connectors/{connector}/config":
            return changes
        case "PUT", "/connector-plugins/{plugin}/config/validate":
            return configs
        case "PATCH", "/connectors/{connector}/offsets":
            places = st.sampled_from([{"filename": live.config["file"]}, {"filename": 5}, None])
            offsets = st.sampled_from([{"position": 3}, {"position": "x"}, None])
            pairs = st.fixed_dictionaries({"partition": places, "offset": offsets})
            return st.fixed_dictionaries({"offsets": st.lists(pairs, max_size=2)})
        case "PUT", "/admin/loggers/{logger}":
            return st.fixed_dictionaries({"level": st.sampled_from(["INFO", "debug", "LOUD"])})
    return None


PARAMETERS: Final = {
    "connector": st.sampled_from([RUNNING, STOPPED]),
    "task": st.sampled_from([0, 1, 7]),
    "plugin": st.sampled_from(["FileStreamSource", "FileStreamSink", "JsonConverter"]),
    "logger": st.sampled_from(["root", "penstock.made.up", "org.apache.kafka.connect"]),
}


def there(data: st.DataObject, live: Live, route: Route, case: Any) -> None:
    """Changes a request so that it concerns an existing connector."""
    for name in case.path_parameters or {}:
        case.path_parameters[name] = data.draw(PARAMETERS[name])
    made = bodies(live, route)
    if made is not None:
        case.body = data.draw(made)
        case.media_type = "application/json"


def ways(route: Route) -> Iterator[str]:
    """How requests to an endpoint are generated. Any text is a valid name: without a number, a
    query or a body, no request is invalid."""
    yield "that fit"
    if "{" in route.path or route.takes_body:
        yield "about what is there"
    if "{task}" in route.path or route.query or route.takes_body:
        yield "that do not fit"


CASES: Final = [
    pytest.param(route, way, id=f"{route.method} {route.path} {way}")
    for route in ROUTES
    for way in ways(route)
]


@pytest.mark.parametrize(("route", "way"), CASES)
def test_every_answer_is_described(live: Live, route: Route, way: str) -> None:
    operation = live.schema[route.path][route.method]
    fits = way != "that do not fit"
    mode = GenerationMode.POSITIVE if fits else GenerationMode.NEGATIVE
    cases = operation.as_strategy(mode)
    seen: set[int] = set()

    @REPEATABLE
    @given(case=cases, data=st.data())
    def ask(case: Any, data: st.DataObject) -> None:
        if way == "about what is there":
            there(data, live, route, case)
        answer = live.send(case)
        seen.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    live.restore()
    ask()
    if way == "about what is there":
        # These requests are unsigned, so internal endpoints refuse them.
        assert seen & set(route.answers) or route.summary.startswith("Internal"), seen


def test_nothing_went_wrong_inside(live: Live) -> None:
    live.restore()
    assert SURPRISE.findall(live.worker.log_text()) == []

"""What `apply` reads, decides, requests and prints. Bodies are those of kafka-connect.md §1.5."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import resources
from penstock.cli.apply import CREATE, DELETE, UNCHANGED, UPDATE, plan
from penstock.cli.exits import Unusable
from penstock.cli.resources import Resources, Wanted

from .workers import FakeWorkers, Penstock

ORDERS = {"name": "orders", "connector.class": "FileStreamSink", "topics": "orders"}
RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnector
metadata:
  name: orders
  labels: {strimzi.io/cluster: main}
spec:
  class: FileStreamSink
  tasksMax: 2
  config:
    topics: orders
    a.version: 1.10
    a.date: 2026-01-31
    a.flag: yes
    octal: 010
"""
VALID = (200, {"name": "x", "error_count": 0, "groups": [], "configs": []})
VALIDATE = "/connector-plugins/FileStreamSink/config/validate"
READS = {("GET", "/connectors?expand=info"), ("GET", "/connectors?expand=status")}


def info(config: dict[str, str]) -> dict[str, Any]:
    return {"info": {"name": config["name"], "config": config, "tasks": [], "type": "sink"}}


def status(name: str, state: str, tasks: int = 1) -> dict[str, Any]:
    own = {"state": state, "worker_id": "w:8083"}
    return {
        "name": name,
        "connector": own,
        "tasks": [{"id": number, **own} for number in range(tasks)],
        "type": "sink",
    }


def there(workers: FakeWorkers, *configs: dict[str, str], **states: str) -> None:
    """The cluster has these connectors, RUNNING unless another state is given."""
    workers.on("GET", "/connectors?expand=info", (200, {c["name"]: info(c) for c in configs}))
    found = {
        c["name"]: {"status": status(c["name"], states.get(c["name"], "RUNNING"))} for c in configs
    }
    workers.on("GET", "/connectors?expand=status", (200, found))
    workers.on("PUT", VALIDATE, VALID)
    for config in configs:
        name = config["name"]
        one = found[name]["status"]
        workers.on("GET", f"/connectors/{name}/status", (200, one))


def changes(workers: FakeWorkers) -> list[tuple[str, str, object]]:
    """The requests that change something."""
    return [each for each in workers.asked if each[0] != "GET" and "config/validate" not in each[1]]


def written(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.write_text(content)
    return str(path)


def test_a_resource_of_strimzi_is_the_connector_that_its_operator_would_create(
    tmp_path: Path,
) -> None:
    [orders] = resources.read([written(tmp_path, "orders.yaml", RESOURCE)]).wanted
    assert orders.config == {
        "name": "orders",
        "connector.class": "FileStreamSink",
        "tasks.max": "2",
        "topics": "orders",
        "a.version": "1.10",
        "a.date": "2026-01-31",
        "a.flag": "true",
        "octal": "010",
    }
    assert (orders.state, orders.labels) == ("RUNNING", {"strimzi.io/cluster": "main"})


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ("  state: stopped\n", "STOPPED"),
        ("  state: paused\n", "PAUSED"),
        ("  pause: true\n", "PAUSED"),
        ("  pause: false\n", "RUNNING"),
        ("  pause: true\n  state: running\n", "RUNNING"),
    ],
)
def test_a_resource_has_a_state(tmp_path: Path, lines: str, state: str) -> None:
    path = written(tmp_path, "orders.yaml", RESOURCE + lines)
    assert resources.read([path]).wanted[0].state == state


def test_settings_of_the_operator_or_forbidden_ones_are_ignored_with_a_note(tmp_path: Path) -> None:
    text = RESOURCE + "    tasks.max: 9\n  autoRestart: {enabled: true}\n  version: '[3.0,)'\n"
    [orders] = resources.read([written(tmp_path, "orders.yaml", text)]).wanted
    assert orders.config["tasks.max"] == "2"
    assert orders.config["connector.plugin.version"] == "[3.0,)"
    assert ["tasks.max" in n or "autoRestart" in n for n in orders.notes] == [True, True]


def test_a_folder_holds_connectors_of_all_forms(tmp_path: Path) -> None:
    written(tmp_path, "a.json", '{"name": "a", "config": {"connector.class": "X", "n": 1}}')
    written(tmp_path, "b.json", '{"name": "b", "connector.class": "X"}')
    written(tmp_path, "c.properties", "name=c\nconnector.class=X\n")
    written(tmp_path, "d.yml", "name: d\nconfig: {connector.class: X, n: 2}\n---\n" + RESOURCE)
    written(tmp_path, "e.json", '{"kind": "List", "apiVersion": "v1", "items": []}')
    written(tmp_path, "README.md", "no connector")
    (tmp_path / "more").mkdir()
    written(tmp_path / "more", "f.properties", "name=f\nconnector.class=X\n")
    names = [each.name for each in resources.read([str(tmp_path)]).wanted]
    assert names == ["a", "b", "c", "d", "orders"]
    deep = [each.name for each in resources.read([str(tmp_path)], recursive=True).wanted]
    assert deep == [*names, "f"]


def test_a_selector_chooses_among_resources(tmp_path: Path) -> None:
    other = RESOURCE.replace("orders", "bills").replace("main", "other")
    path = written(tmp_path, "all.yaml", f"{RESOURCE}---\n{other}")
    with pytest.raises(Unusable, match="several clusters: main, other"):
        resources.read([path])
    chosen = resources.read([path], selector={resources.CLUSTER_LABEL: "other"})
    assert [each.name for each in chosen.wanted] == ["bills"]


def test_resources_of_other_kinds_and_unreconciled_ones_are_passed_over(tmp_path: Path) -> None:
    cluster = "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnect\nmetadata: {name: main}\n"
    paused = RESOURCE.replace(
        "labels:", "annotations: {strimzi.io/pause-reconciliation: 'true'}\n  labels:"
    )
    found = resources.read([written(tmp_path, "all.yaml", f"{cluster}---\n{paused}")])
    assert found.wanted == ()
    assert ["KafkaConnect 'main'" in found.notes[0], "pause-recon" in found.notes[1]] == [True] * 2
    assert plan(found, {"orders": ORDERS}, {}, prune=True) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "a: [", "is not YAML"),
        ("a.yaml", "- 1", "does not contain a mapping"),
        ("a.yaml", RESOURCE.replace("tasksMax", "taskMax"), "spec.taskMax"),
        ("a.yaml", RESOURCE.replace("  class: FileStreamSink\n", ""), "spec.class"),
        ("a.yaml", RESOURCE.replace("name: orders", "nam: orders"), "metadata.name"),
        ("a.yaml", RESOURCE.replace("octal: 010", "octal: [1]"), "'octal'"),
        ("a.yaml", RESOURCE + "  state: off\n", "spec.state is 'False'"),
        ("a.json", '{"connector.class": "X"}', "missing the mandatory 'name'"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(Unusable) as refused:
        resources.read([path])
    assert said in str(refused.value)
    assert path in str(refused.value)


def test_two_files_must_not_describe_one_connector(tmp_path: Path) -> None:
    paths = [written(tmp_path, n, "name=c\nconnector.class=X\n") for n in ("1.properties", "2")]
    with pytest.raises(Unusable, match="both describe 'c'"):
        resources.read(paths)


def test_without_pyyaml_only_yaml_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def importing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "yaml":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(Unusable) as refused:
        resources.read([written(tmp_path, "a.yaml", RESOURCE)])
    assert "penstock[yaml]" in refused.value.advice
    resources.read([written(tmp_path, "c.properties", "name=c\n")])


def wanted(state: str | None = None, **more: str) -> Wanted:
    return Wanted("orders", {**ORDERS, **more}, "orders.json", state)


@pytest.mark.parametrize(
    ("each", "stored", "current", "action", "state", "expected"),
    [
        (wanted(), None, None, CREATE, None, "RUNNING"),
        (wanted("STOPPED"), None, None, CREATE, None, "STOPPED"),
        (wanted(), ORDERS, "RUNNING", UNCHANGED, None, "RUNNING"),
        (wanted(a="b"), ORDERS, "RUNNING", UPDATE, None, "RUNNING"),
        (wanted(), {**ORDERS, "null": None}, "RUNNING", UNCHANGED, None, "RUNNING"),
        (wanted(), ORDERS, "PAUSED", UNCHANGED, None, "PAUSED"),
        (wanted("RUNNING"), ORDERS, "PAUSED", UNCHANGED, "RUNNING", "RUNNING"),
        (wanted("RUNNING"), ORDERS, "FAILED", UNCHANGED, None, "RUNNING"),
        (wanted("PAUSED"), ORDERS, "RUNNING", UNCHANGED, "PAUSED", "PAUSED"),
        (wanted("PAUSED"), ORDERS, "FAILED", UNCHANGED, "PAUSED", "PAUSED"),
        (wanted("PAUSED"), ORDERS, None, UNCHANGED, "PAUSED", "PAUSED"),
        (wanted("STOPPED"), ORDERS, "STOPPED", UNCHANGED, None, "STOPPED"),
    ],
)
def test_a_step_is_what_is_missing(
    each: Wanted,
    stored: dict[str, str | None] | None,
    current: str | None,
    action: str,
    state: str | None,
    expected: str,
) -> None:
    [step] = plan(
        Resources((each,)),
        {} if stored is None else {"orders": stored},
        {} if current is None else {"orders": current},
    )
    assert (step.action, step.state, step.expected) == (action, state, expected)


def test_pruning_deletes_what_no_file_describes_last() -> None:
    stored = {name: {**ORDERS, "name": name} for name in ("a", "kept-1", "orders", "z")}
    steps = plan(Resources((wanted(),)), stored, {}, prune=True, keep=["kept-*"])
    assert [(s.name, s.action) for s in steps] == [
        ("orders", UNCHANGED),
        ("a", DELETE),
        ("z", DELETE),
    ]


@pytest.fixture
def orders(tmp_path: Path) -> str:
    return written(tmp_path, "orders.json", json.dumps(ORDERS))


def test_a_connector_is_created_updated_and_then_left_alone(
    penstock: Penstock, workers: FakeWorkers, orders: str
) -> None:
    there(workers)
    workers.on("POST", "/connectors", (201, info(ORDERS)["info"]))
    assert penstock("apply", "-f", orders).out == "created orders\n"
    assert changes(workers) == [("POST", "/connectors", {"name": "orders", "config": ORDERS})]

    workers.asked.clear()
    there(workers, {**ORDERS, "topics": "bills"})
    workers.on("PUT", "/connectors/orders/config", (200, info(ORDERS)["info"]))
    assert penstock("apply", "-f", orders).lines == [
        "updated orders",
        "-topics=bills",
        "+topics=orders",
    ]
    assert changes(workers) == [("PUT", "/connectors/orders/config", ORDERS)]

    workers.asked.clear()
    there(workers, ORDERS)
    assert penstock("apply", "-f", orders).out == "orders is unchanged\n"
    assert {each[:2] for each in workers.asked} == READS


def test_a_dry_run_shows_what_would_change_and_says_so_by_its_exit_code(
    penstock: Penstock, workers: FakeWorkers, orders: str
) -> None:
    there(workers, {**ORDERS, "topics": "bills"}, {**ORDERS, "name": "old"})
    result = penstock("apply", "-f", orders, "--prune", "--dry-run")
    assert result.code == 1
    assert result.lines == [
        "would update orders",
        "-topics=bills",
        "+topics=orders",
        "would delete old",
    ]
    assert changes(workers) == []
    there(workers, ORDERS)
    assert penstock("apply", "-f", orders, "--dry-run").code == 0


def test_pruning_deletes(penstock: Penstock, workers: FakeWorkers, orders: str) -> None:
    there(workers, ORDERS, {**ORDERS, "name": "old"})
    workers.on("DELETE", "/connectors/old", (204, None))
    assert penstock("apply", "-f", orders, "--prune").lines == [
        "orders is unchanged",
        "deleted old",
    ]
    assert changes(workers) == [("DELETE", "/connectors/old", None)]


def test_no_files_do_not_delete_all_connectors(
    penstock: Penstock, workers: FakeWorkers, tmp_path: Path
) -> None:
    there(workers, ORDERS)
    refused = penstock("apply", "-f", str(tmp_path), "--prune")
    assert (refused.code, workers.asked) == (2, [])
    assert "--allow-empty" in refused.err
    workers.on("DELETE", "/connectors/orders", (204, None))
    assert penstock("apply", "-f", str(tmp_path), "--prune", "--allow-empty").code == 0
    assert changes(workers) == [("DELETE", "/connectors/orders", None)]


def test_an_invalid_configuration_keeps_everything_as_it_is(
    penstock: Penstock, workers: FakeWorkers, orders: str, tmp_path: Path
) -> None:
    there(workers)
    bad = {"name": "file.password", "value": "x", "errors": ["Value must be another one"]}
    configs = [{"definition": None, "value": bad}]
    workers.on("PUT", VALIDATE, VALID, (200, {"error_count": 1, "configs": configs}))
    other = written(tmp_path, "b.json", json.dumps({**ORDERS, "name": "b"}))
    result = penstock("apply", "-f", orders, "-f", other)
    assert result.code == 3
    assert "b (" in result.err
    assert "file.password=********: Value must be another one" in result.err
    assert changes(workers) == []


def test_the_state_of_a_resource_is_restored(
    penstock: Penstock, workers: FakeWorkers, tmp_path: Path
) -> None:
    path = written(tmp_path, "orders.yaml", RESOURCE)
    stored = dict(resources.read([path]).wanted[0].config)
    there(workers, stored, orders="PAUSED")
    workers.on("PUT", "/connectors/orders/resume", (202, None))
    assert "target state is RUNNING" in penstock("apply", "-f", path).out
    assert changes(workers) == [("PUT", "/connectors/orders/resume", None)]


def test_a_stopped_resource_is_created_stopped_and_awaited(
    penstock: Penstock, workers: FakeWorkers, tmp_path: Path
) -> None:
    path = written(tmp_path, "orders.yaml", RESOURCE + "  state: stopped\n")
    there(workers)
    workers.on("POST", "/connectors", (201, info(ORDERS)["info"]))
    workers.on("GET", "/connectors/orders/status", (200, status("orders", "STOPPED", 0)))
    assert penstock("apply", "-f", path, "--wait").code == 0
    [(_, _, body)] = changes(workers)
    assert isinstance(body, dict)
    assert body["initial_state"] == "STOPPED"


@pytest.mark.parametrize(("state", "code"), [("RUNNING", 0), ("FAILED", 4), ("UNASSIGNED", 7)])
def test_waiting_ends_with_what_became_of_it(
    penstock: Penstock, workers: FakeWorkers, orders: str, state: str, code: int
) -> None:
    there(workers, ORDERS, orders=state)
    assert penstock("apply", "-f", orders, "--wait", "--timeout", "5").code == code


def test_programs_read_what_was_done(penstock: Penstock, workers: FakeWorkers, orders: str) -> None:
    there(workers, {**ORDERS, "topics": "bills"}, {**ORDERS, "name": "old"})
    result = penstock("apply", "-f", orders, "--prune", "--dry-run", "--json")
    assert json.loads(result.out) == {
        "dry_run": True,
        "connectors": [
            {
                "name": "orders",
                "exists": True,
                "added": {},
                "removed": {},
                "changed": {"topics": {"from": "bills", "to": "orders"}},
                "action": "update",
                "state": None,
                "source": orders,
            },
            {"name": "old", "action": "delete", "state": None},
        ],
    }

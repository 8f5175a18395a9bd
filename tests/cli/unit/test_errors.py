"""Failures between the command and the workers: which worker it asks, messages, exit codes."""

from __future__ import annotations

import json
import re
import ssl
from pathlib import Path

import httpx
import pytest

from penstock.cli.app import cli
from penstock.cli.exits import MEANING, Exit
from penstock.cli.rest import ADVICE, refusal
from penstock.config.render import invalid_text
from tests.places import ROOT

from .workers import FakeClock, FakeWorkers, Penstock

REFUSED = httpx.ConnectError("[Errno 111] Connection refused")
STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a "
    "concurrent config change)"
)
REBALANCE = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
NO_LEADER = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
    "was underway."
)


def error(status: int, message: str) -> tuple[int, object]:
    return status, {"error_code": status, "message": message}


@pytest.mark.parametrize(
    ("status", "message", "code", "advice"),
    [
        (404, "Connector c not found", Exit.NOT_FOUND, "penstock list connectors"),
        (404, "Unknown connector c", Exit.NOT_FOUND, "penstock list connectors"),
        (404, "Unknown task: c-3", Exit.NOT_FOUND, "penstock list connectors"),
        (404, "Unknown plugin Nope.", Exit.NOT_FOUND, "penstock list plugins"),
        (404, "Logger a.b not found.", Exit.NOT_FOUND, "penstock logs level"),
        (404, "HTTP 404 Not Found", Exit.REFUSED, "does not support the request"),
        (405, "HTTP 405 Method Not Allowed", Exit.REFUSED, "does not support the request"),
        (501, "Not offered yet", Exit.REFUSED, "does not support the request"),
        (409, "Connector c already exists", Exit.REFUSED, "penstock update"),
        (409, STALE, Exit.REFUSED, "--patience"),
        (400, "Connectors must be in the STOPPED state before …", Exit.REFUSED, "penstock stop"),
        (400, "Connector configuration is invalid and …", Exit.INVALID, "penstock validate"),
        (500, "Request timed out. The worker is …", Exit.REFUSED, "penstock status"),
        (503, "still starting", Exit.REFUSED, "penstock health --wait"),
        (403, "Topic tracking is disabled.", Exit.REFUSED, ""),
        (500, "whatever", Exit.REFUSED, ""),
    ],
)
def test_a_refusal_has_a_code_and_advice(
    status: int, message: str, code: Exit, advice: str
) -> None:
    found = refusal(status, json.dumps({"error_code": status, "message": message}).encode())
    assert str(found) == f"{message} (HTTP {status})"
    assert found.exit_code == code
    assert advice in found.advice
    assert bool(advice) == bool(found.advice)


def test_the_servers_own_words_for_an_invalid_configuration_are_known() -> None:
    text = invalid_text({"error_count": 1, "configs": [{"value": {"errors": ["Bad"]}}]})
    assert text is not None
    found = refusal(400, json.dumps({"error_code": 400, "message": text}).encode())
    assert found.exit_code == Exit.INVALID


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"User cannot access the resource.", "User cannot access the resource. (HTTP 401)"),
        (b"", "The worker gave no reason (HTTP 401)"),
        (b"<html>nginx</html>", "is not Kafka Connect's (HTTP 401)"),
        (b'["x"]', '["x"] (HTTP 401)'),
    ],
)
def test_a_refusal_in_other_words_is_reported_too(body: bytes, said: str) -> None:
    found = refusal(401, body)
    assert said in str(found)
    assert "user and password" in found.advice


def test_every_piece_of_advice_names_commands_that_exist() -> None:
    named = {word for _, _, text in ADVICE for word in re.findall("`penstock ([a-z]+)", text)}
    assert named
    assert named <= set(cli.commands)


def test_errors_go_to_standard_error_and_for_programs_the_body_to_standard_output(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("PUT", "/connectors/c/pause", error(404, "Unknown connector c"))
    result = penstock("pause", "c")
    assert (result.code, result.out) == (5, "")
    assert result.err.splitlines()[0] == "penstock: Unknown connector c (HTTP 404)"
    result = penstock("pause", "c", "--json")
    assert json.loads(result.out) == {"error_code": 404, "message": "Unknown connector c"}
    assert result.code == 5


@pytest.mark.parametrize("message", [STALE, REBALANCE, NO_LEADER])
def test_a_cluster_that_is_rebalancing_is_asked_again(
    penstock: Penstock, workers: FakeWorkers, message: str
) -> None:
    busy = error(409, message)
    workers.on("PUT", "/connectors/c/pause", busy, busy, (202, None))
    assert penstock("pause", "c").code == 0
    assert len(workers.asked) == 3


def test_patience_has_an_end(penstock: Penstock, workers: FakeWorkers, clock: FakeClock) -> None:
    workers.on("PUT", "/connectors/c/pause", error(409, STALE))
    began = clock.now()
    assert penstock("pause", "c").code == 8
    assert 10_000 < clock.now() - began <= 15_000
    asked = len(workers.asked)
    assert penstock("pause", "c", "--patience", "0").code == 8
    assert len(workers.asked) == asked + 1


def test_an_existing_connector_is_not_created_again(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("POST", "/connectors", error(409, "Connector file-sink already exists"))
    assert penstock("load", "file-sink").code == 8
    assert len(workers.asked) == 1


def test_advice_names_the_connector(penstock: Penstock, workers: FakeWorkers) -> None:
    path = "/connectors/my%20orders/offsets"
    workers.on("DELETE", path, error(400, "Connectors must be in the STOPPED state before …"))
    advice = penstock("offsets", "reset", "my orders").err.splitlines()[1]
    assert advice == (
        "`penstock stop 'my orders' --wait` first, `penstock resume 'my orders'` afterwards."
    )
    workers.on("POST", "/connectors", error(500, "Request timed out. The worker is …"))
    assert "`penstock status file-sink`" in penstock("load", "file-sink").err


@pytest.mark.parametrize(
    ("options", "variables", "origin"),
    [
        ([], {}, "That is the default: --url, --cluster, PENSTOCK_URL and "),
        (["--url", "http://localhost:1"], {}, "--url names it."),
        ([], {"PENSTOCK_URL": "http://localhost:1"}, "PENSTOCK_URL names it."),
        ([], {"PENSTOCK_CONFIG": "config.toml"}, "It is the cluster 'dev' in "),
        (
            ["--cluster", "dev"],
            {"PENSTOCK_CONFIG": "config.toml"},
            "config.toml; --cluster names it.",
        ),
    ],
)
def test_without_an_answer_it_says_who_named_the_worker(
    penstock: Penstock,
    workers: FakeWorkers,
    environ: dict[str, str],
    tmp_path: Path,
    options: list[str],
    variables: dict[str, str],
    origin: str,
) -> None:
    workers.down["localhost"] = REFUSED
    (tmp_path / "config.toml").write_text('[clusters.dev]\nurl = "http://localhost:1"\n')
    environ |= {
        name: str(tmp_path / text) if name == "PENSTOCK_CONFIG" else text
        for name, text in variables.items()
    }
    result = penstock("status", *options)
    assert result.code == 6
    first, where, how, *_ = result.err.splitlines()
    assert first.startswith("penstock: No worker answers at http://localhost:")
    assert origin in where
    assert "--url http://HOST:PORT" in how
    assert "export PENSTOCK_URL=" in how


def hosts(workers: FakeWorkers) -> list[str]:
    return [request.url.netloc.decode() for request in workers.requests]


def test_without_a_word_it_is_this_machine(penstock: Penstock, workers: FakeWorkers) -> None:
    workers.on("GET", "/connectors", (200, []))
    penstock("list", "connectors", "-q")
    assert hosts(workers) == ["localhost:8083"]


def test_workers_are_tried_in_turn_and_the_one_that_answers_is_kept(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.down = {"w1": REFUSED, "w2": httpx.ConnectTimeout("")}
    for name in ("a", "b"):
        workers.on("DELETE", f"/connectors/{name}", (204, None))
    result = penstock("delete", "a", "b", "--url", "w1:1,w2:2,w3:3")
    assert (result.code, hosts(workers)) == (0, ["w3:3", "w3:3"])


def test_when_nobody_answers_all_that_were_tried_are_reported(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.down = {"w1": REFUSED, "w2": httpx.ConnectError("Name or service not known")}
    result = penstock("status", "--url", "http://me:hunter2@w1:1,w2:2")
    assert result.code == 6
    assert "http://w1:1: connection refused; nothing listens there" in result.err
    assert "http://w2:2: Name or service not known" in result.err
    assert "penstock distributed" in result.err
    assert "hunter2" not in result.err


def test_a_change_that_may_have_been_made_is_not_asked_for_elsewhere(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("DELETE", "/connectors/c", (204, None))
    workers.down = {"w1": httpx.ReadTimeout("")}
    result = penstock("delete", "c", "--url", "w1:1,w2:2")
    assert (result.code, workers.asked) == (6, [])
    assert "may have been executed" in result.err


def test_a_question_without_an_answer_is_asked_elsewhere(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("GET", "/connectors", (200, []))
    workers.down = {"w1": httpx.ReadTimeout("")}
    assert penstock("list", "connectors", "-q", "--url", "w1:1,w2:2").code == 0
    assert hosts(workers) == ["w2:2"]


def test_a_certificate_that_is_not_trusted_has_advice_of_its_own(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.down = {"w1": httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")}
    result = penstock("status", "--url", "https://w1:1")
    assert result.code == 6
    assert "`ca`" in result.err


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("status", "/connectors?expand=status"),
        ("status c", "/connectors/c/status"),
        ("wait c", "/connectors/c/status"),
        ("list connectors", "/connectors?expand=info"),
        ("list connectors -q", "/connectors"),
        ("list plugins", "/connector-plugins"),
        ("config c", "/connectors/c/config"),
        ("topics c", "/connectors/c/topics"),
        ("offsets get c", "/connectors/c/offsets"),
        ("logs level", "/admin/loggers"),
        ("logs level x", "/admin/loggers/x"),
    ],
)
@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"a": 1}', b"[1]", b"", b"null"])
def test_an_answer_of_another_server_is_reported(
    penstock: Penstock, workers: FakeWorkers, command: str, path: str, body: bytes
) -> None:
    if command == "config c" and body == b'{"a": 1}':
        body = b'"a"'  # `body` is a configuration
    workers.on("GET", path, (200, body))
    result = penstock(*command.split())
    assert result.code == 8
    assert "not Kafka Connect" in result.err


def test_a_redirect_is_an_error(penstock: Penstock, workers: FakeWorkers) -> None:
    workers.on("GET", "/connectors", (301, b""))
    assert penstock("list", "connectors", "-q").code == 8


CONFIG = """
default = "prod"

[clusters.prod]
url = ["http://p1:1", "http://p2:2/connect/"]
user = "ops"
password_file = "secret.txt"

[clusters.dev]
url = "http://d:3"
"""


@pytest.fixture
def config(environ: dict[str, str]) -> Path:
    folder = Path(environ["XDG_CONFIG_HOME"]) / "penstock"
    folder.mkdir(parents=True)
    (folder / "secret.txt").write_text("hunter2\n")
    file = folder / "config.toml"
    file.write_text(CONFIG)
    return file


BASIC = httpx.BasicAuth("ops", "hunter2")._auth_header
IN_URL = httpx.BasicAuth("me", "p@ss")._auth_header


@pytest.mark.parametrize(
    ("args", "env", "host", "authorization"),
    [
        ([], {}, "p1:1", BASIC),
        (["--cluster", "dev"], {}, "d:3", None),
        ([], {"PENSTOCK_CLUSTER": "dev"}, "d:3", None),
        ([], {"PENSTOCK_URL": "http://e:4"}, "e:4", None),
        (["--cluster", "prod"], {"PENSTOCK_URL": "http://e:4"}, "p1:1", BASIC),
        (["--url", "u:5"], {"PENSTOCK_URL": "http://e:4"}, "u:5", None),
        (["--url", "u:5"], {}, "u:5", None),  # the default cluster's password is not sent
        (["--url", "u:5", "--cluster", "prod"], {}, "u:5", BASIC),
        (["--url", "http://me:p%40ss@u:5"], {}, "u:5", IN_URL),
        (["--url", "http://me:p%40ss@u:5", "--cluster", "prod"], {}, "u:5", IN_URL),
    ],
)
@pytest.mark.usefixtures("config")
def test_whom_it_asks_and_what_it_shows(
    penstock: Penstock,
    workers: FakeWorkers,
    environ: dict[str, str],
    args: list[str],
    env: dict[str, str],
    host: str,
    authorization: str | None,
) -> None:
    environ.update(env)
    workers.on("GET", "/connectors", (200, []))
    for words in (["list", "connectors", "-q", *args], [*args, "list", "connectors", "-q"]):
        workers.requests.clear()
        assert penstock(*words).code == 0
        assert hosts(workers) == [host]
        assert workers.requests[0].headers.get("Authorization") == authorization


@pytest.mark.usefixtures("config")
def test_a_path_before_the_interface_is_kept(penstock: Penstock, workers: FakeWorkers) -> None:
    workers.down = {"p1": REFUSED}
    workers.on("GET", "/connect/connectors", (200, []))
    assert penstock("list", "connectors", "-q").code == 0


@pytest.mark.usefixtures("config")
def test_the_clusters_are_shown_and_which_one_is_asked(penstock: Penstock) -> None:
    assert [line.split() for line in penstock("clusters").lines[1:]] == [
        ["*", "prod", "ops", "http://p1:1,", "http://p2:2/connect"],
        ["dev", "http://d:3"],
    ]
    shown = penstock("clusters", "--url", "http://me:pw@u:5")
    assert shown.lines[-1].split() == ["*", "-", "me", "http://u:5"]
    assert "pw" not in shown.out
    chosen = json.loads(penstock("clusters", "--json", "--cluster", "dev").out)["chosen"]
    assert chosen == {"name": "dev", "urls": ["http://d:3"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[clusters.a]", "'url' must be a string"),
        ('[clusters.a]\nurl = ""', "The URL is empty"),
        ('[clusters.a]\nurl = "ftp://x"', "is not the URL"),
        ('[clusters.a]\nurl = "http://x:99999"', "is not the URL"),
        ('[clusters.a]\nurl = "x"\npassword = "p"', "password_file"),
        ('[clusters.a]\nurl = "x"\nuser = "u"', "must be set together"),
        ('[clusters.a]\nurl = "x"\nkey = "k"', "requires a 'cert'"),
        ('[clusters.a]\nurl = "x"\nverify = "no"', "true or false"),
        ('[clusters.a]\nurl = "x"\nca = 1', "'ca' must be a string"),
        ('[clusters.a]\nurl = "https://x"\nca = "missing.pem"', "Cannot use the TLS files"),
        ('[clusters.a]\nurl = "x"\nuser = "u"\npassword_file = "missing"', "password file"),
        ('default = "b"\n[clusters.a]\nurl = "x"', "not one of its clusters"),
        ("clusters = 1", "must contain tables"),
        ("[cluster.a]", "'cluster' is unknown"),
        ("[[", "Cannot read"),
    ],
)
def test_a_file_of_clusters_that_makes_no_sense_is_reported(
    penstock: Penstock, environ: dict[str, str], tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    environ["PENSTOCK_CONFIG"] = str(file)
    result = penstock("status")
    assert result.code == 2
    assert said in result.err


def test_a_file_that_is_named_has_to_be_there(
    penstock: Penstock, environ: dict[str, str], tmp_path: Path
) -> None:
    environ["PENSTOCK_CONFIG"] = str(tmp_path / "missing.toml")
    assert penstock("status").code == 2


@pytest.mark.usefixtures("config")
def test_a_cluster_that_is_not_described_is_reported_with_those_that_are(
    penstock: Penstock,
) -> None:
    result = penstock("status", "--cluster", "test")
    assert result.code == 2
    assert "known: dev, prod" in result.err


def test_an_invalid_url_does_not_show_its_password(penstock: Penstock) -> None:
    result = penstock("status", "--url", "ftp://me:hunter2@w1")
    assert result.code == 2
    assert "hunter2" not in result.err


def test_without_verification_any_certificate_will_do(
    environ: dict[str, str], tmp_path: Path
) -> None:
    from penstock.cli.clusters import choose

    file = tmp_path / "c.toml"
    file.write_text('[clusters.a]\nurl = "https://x"\nverify = false')
    context = choose(None, None, {"PENSTOCK_CONFIG": str(file)}).tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    file.write_text('[clusters.a]\nurl = "https://x"')
    context = choose(None, None, {"PENSTOCK_CONFIG": str(file)}).tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_the_exit_codes_in_the_documentation_are_these() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for code, meaning in MEANING.items():
        assert f"| {code.value} | {meaning} |" in page
    assert set(MEANING) == set(Exit)


def test_every_command_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    reported = set(re.findall(r"[a-z]+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert set(cli.commands) <= reported


@pytest.mark.parametrize(
    "args", [["nonsense"], ["status", "--nonsense"], ["wait"], ["restart", "c", "--task", "x"]]
)
def test_an_unknown_command_or_option_is_exit_code_2(penstock: Penstock, args: list[str]) -> None:
    assert penstock(*args).code == 2

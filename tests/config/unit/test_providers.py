"""Placeholders and the config providers that resolve them."""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.api import (
    ConfigProvider,
    Lookup,
    Plugin,
    Props,
    ProviderFailed,
    SinkConnector,
    SinkContext,
    SinkWriter,
)
from penstock.config.define import HIGH, INT, PASSWORD, STRING, Config, ConfigDef, Key
from penstock.config.providers import (
    Placeholder,
    Transformed,
    masked,
    placeholders,
    restored,
    transformed,
)
from penstock.config.worker import parse_distributed
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.text import StringConverter
from penstock.errors import ConfigInvalid
from penstock.flow.plan import SinkPlan
from penstock.ids import TaskId
from penstock.plugins.registry import PluginKind, Registry
from penstock.runtime.planning import Planner
from penstock.runtime.providers import LogFilter, Providers, resolved_worker
from penstock.runtime.validation import NoConnectorType

PACKAGE = "org.apache.kafka.common.config.provider"
NOBODY = Registry([])

ADDRESS = Key("address", STRING, importance=HIGH, doc="Where the vault is.")


class Vault(ConfigProvider):
    """Returns what is in `content`, for `ttl_ms`; keeps the requests."""

    plugin = Plugin("org.example.VaultConfigProvider", "1.0", ConfigDef(ADDRESS))
    content: ClassVar[dict[str, dict[str, str]]] = {"db": {"user": "me", "password": "s3cret"}}
    ttl_ms: ClassVar[int | None] = None
    asked: ClassVar[list[tuple[str, frozenset[str]]]] = []
    closed: ClassVar[list[str]] = []

    def get(self, path: str, keys: frozenset[str]) -> Lookup:
        self.asked.append((path, keys))
        known = self.content.get(path, {})
        return Lookup({key: known[key] for key in keys & known.keys()}, self.ttl_ms)

    def close(self) -> None:
        self.closed.append(self.config[ADDRESS])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("plain $5 {a:b} ${}", []),
        ("${key}", []),  # no provider is named
        ("${p:k}", [Placeholder("p", "", "k")]),
        ("${p:/a/b.properties:k}", [Placeholder("p", "/a/b.properties", "k")]),
        ("${p::k}", [Placeholder("p", "", "k")]),
        ("${p:a:b:c}", [Placeholder("p", "a", "b:c")]),
        ("${:k}", [Placeholder("", "", "k")]),
        ("${p:}", [Placeholder("p", "", "")]),
        ("a${p:x:1}b${q:2}c", [Placeholder("p", "x", "1"), Placeholder("q", "", "2")]),
        ("${${p:k}}", [Placeholder("${p", "", "k")]),  # no nesting: it ends at the first brace
        ("${p:two\nlines:k}", [Placeholder("p", "two\nlines", "k")]),
    ],
)
def test_placeholders_are_found(text: str, found: list[Placeholder]) -> None:
    assert placeholders(text) == found


def replaced(text: str | None, answers: Mapping[tuple[str, str], str]) -> str | None:
    def ask(path: str, keys: frozenset[str]) -> Lookup:
        return Lookup({key: answers[path, key] for key in keys if (path, key) in answers})

    return transformed({"it": text}, {"p": ask}).props["it"]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (None, None),
        ("nothing to do", "nothing to do"),
        ("${p:k}", "one"),
        ("<${p:k}${p:x:k}>", "<onetwo>"),
        ("${p:missing}", "${p:missing}"),
        ("${p:nowhere:k}", "${p:nowhere:k}"),
        ("${q:k} and ${p:k}", "${q:k} and one"),
        ("${p:again}", "${p:k}"),  # results are not resolved again
        ("${p:empty}", ""),
        ("${p:back}", r"\1 \g<0>"),  # not a regex template
    ],
)
def test_placeholders_are_replaced_in_one_pass(text: str | None, result: str | None) -> None:
    answers = {
        ("", "k"): "one",
        ("x", "k"): "two",
        ("", "again"): "${p:k}",
        ("", "empty"): "",
        ("", "back"): r"\1 \g<0>",
    }
    assert replaced(text, answers) == result


def test_a_provider_is_asked_once_per_path_for_all_keys() -> None:
    asked = []

    def ask(path: str, keys: frozenset[str]) -> Lookup:
        asked.append((path, sorted(keys)))
        return Lookup(dict.fromkeys(keys, "x"))

    transformed({"a": "${p:f:1}", "b": "${p:f:2}${p:g:1}", "c": "${p:f:1}"}, {"p": ask})
    assert sorted(asked) == [("f", ["1", "2"]), ("g", ["1"])]


@pytest.mark.parametrize(
    ("ttls", "shortest"),
    [((None, None), None), ((500, None), 500), ((900, 700), 700), ((-1, 800), 800), ((0, 9), 0)],
)
def test_the_shortest_time_to_live_counts(
    ttls: tuple[int | None, int | None], shortest: int | None
) -> None:
    def ask(path: str, keys: frozenset[str]) -> Lookup:
        return Lookup(dict.fromkeys(keys, "x"), ttls[int(path)])

    assert transformed({"a": "${p:0:k}", "b": "${p:1:k}"}, {"p": ask}).ttl_ms == shortest


def test_replaced_placeholders_are_secrets_and_not_shown() -> None:
    result = transformed(
        {"a": "x${p:k}", "b": "open"}, {"p": lambda path, keys: Lookup({"k": "hush", "l": "?"})}
    )
    assert result.secrets == {"hush"}
    assert "hush" not in repr(result)
    assert "hush" not in repr(Lookup({"k": "hush"}))
    assert result == Transformed({"a": "xhush", "b": "open"}, frozenset({"hush"}))


def test_a_task_gets_back_the_placeholders_of_its_connector() -> None:
    raw = {"password": "${p:k}", "url": "http://${p:host}/", "batch": "5", "gone": None}
    task = {"password": "hush", "url": "http://h/", "batch": "6", "gone": "x", "own": "1"}
    assert restored(raw, task) == {
        "password": "${p:k}",
        "url": "http://${p:host}/",
        "batch": "6",
        "gone": "x",
        "own": "1",
    }


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("login of me failed: s3cret is wrong", "login of me failed: * is wrong"),
        ("longers3cret, s3cret", "*, *"),
        ("KeyError: 'two\\nlines'", "KeyError: '*'"),  # as Python quotes it
        ("error 123", "error 123"),  # a secret is longer
    ],
)
def test_secrets_are_masked_wherever_they_stand(text: str, result: str) -> None:
    secrets = {"s3cret", "longers3cret", "two\nlines", "123"}
    assert masked(text, secrets, "*") == result


def providers(name: str, **params: str) -> Providers:
    """One provider `p` of a built-in class; `_` in parameter names is a dot."""
    settings = {f"config.providers.p.param.{n.replace('_', '.')}": t for n, t in params.items()}
    props = {"config.providers": "p", "config.providers.p.class": name, **settings}
    return Providers(props, NOBODY)


def value(asked: Providers, text: str) -> str | None:
    return asked.transformed({"it": text}).props["it"]


@pytest.mark.parametrize("name", [f"{PACKAGE}.FileConfigProvider", "FileConfigProvider", "File"])
def test_a_file_of_properties_is_read_as_utf8_every_time(name: str, tmp_path: Path) -> None:
    file = tmp_path / "db.properties"
    file.write_text("user = me\npassword: g\\u00fcß\\\n  and €\n", "utf-8")
    asked = providers(name)
    assert value(asked, f"${{p:{file}:password}}") == "güßand €"
    file.write_text("password=new\n")
    assert value(asked, f"${{p:{file}:password}}/${{p:{file}:user}}") == f"new/${{p:{file}:user}}"
    assert value(asked, "${p:password}") == "${p:password}"  # no path, no values


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    asked = providers("File")
    (tmp_path / "latin").write_bytes(b"password=\xfc\n")
    (tmp_path / "damaged").write_bytes(b"hush=\\u00\n")
    for name in ("missing", "latin", "damaged"):
        with pytest.raises(ProviderFailed) as raised:
            value(asked, f"${{p:{tmp_path / name}:k}}")
        assert str(raised.value) == (
            f"Could not read properties from file {tmp_path / name} (config provider 'p': "
            f"${{p:{tmp_path / name}:k}} in 'it')"
        )
        assert raised.value.status == 500


def test_a_directory_holds_a_value_per_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes("gü\r\n".encode())
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin").write_bytes(b"\xfc")
    asked = providers("DirectoryConfigProvider")
    assert value(asked, f"${{p:{tmp_path}:password}}") == "gü\r\n"
    for known_to_nobody in ("folder", "nothing", "../password"):
        text = f"${{p:{tmp_path}:{known_to_nobody}}}"
        assert value(asked, text) == text
    with pytest.raises(ProviderFailed) as raised:
        value(asked, f"${{p:{tmp_path}:latin}}")
    assert str(raised.value).startswith(
        f"Could not read file {tmp_path / 'latin'} for property latin (config provider 'p': "
    )


def test_a_path_that_is_no_directory_has_no_values(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"${{p:{tmp_path / 'none'}:k}}"
    assert value(providers("Directory"), text) == text
    assert f"The path {tmp_path / 'none'} is not a directory" in caplog.text


@pytest.mark.parametrize("kind", ["File", "Directory"])
def test_only_allowed_paths_are_read(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for place in ("good", "goodbye"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "k").write_text("k=v")
    asked = providers(kind, allowed_paths=f"{tmp_path}/good/../good, {tmp_path}/goodbye/k")
    inside = "good/k" if kind == "File" else "good"
    known = value(asked, f"${{p:{tmp_path}/./{inside}:k}}")
    assert known == ("v" if kind == "File" else "k=v")
    for outside in ("good/../goodbye", "good/../..", "goodby", "goodbye"):
        text = f"${{p:{tmp_path}/{outside}:k}}"
        assert value(asked, text) == text
        assert f"The path {tmp_path}/{outside} is not allowed to be accessed" in caplog.text


@pytest.mark.parametrize(
    ("paths", "problem"),
    [("relative/path", "Path relative/path is not absolute"), ("@/no", "Path @/no does not exist")],
)
def test_allowed_paths_are_absolute_and_there(paths: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        providers("File", allowed_paths=paths.replace("@", str(tmp_path)))
    wanted = problem.replace("@", str(tmp_path))
    assert str(raised.value) == f"config.providers.p.param.*: {wanted}"


def test_variables_are_those_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_A", "a")
    monkeypatch.setenv("PENSTOCK_TEST_B", "b")
    asked = providers("EnvVar", allowlist_pattern=".*_A")
    monkeypatch.setenv("PENSTOCK_TEST_A", "changed")
    assert value(asked, "${p:PENSTOCK_TEST_A}") == "a"
    assert value(asked, "${p:PENSTOCK_TEST_B}") == "${p:PENSTOCK_TEST_B}"
    assert value(providers("EnvVar"), "${p:PENSTOCK_TEST_B}") == "b"
    with pytest.raises(ProviderFailed) as raised:
        value(asked, "${p:path:PENSTOCK_TEST_A}")
    assert str(raised.value) == (
        "Path is not supported for EnvVarConfigProvider, invalid value 'path' (config provider"
        " 'p': ${p:path:PENSTOCK_TEST_A} in 'it')"
    )


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="Invalid regex: Unclosed group"):
        providers("EnvVar", allowlist_pattern="(a")


def test_a_plugin_is_a_provider_by_its_names_and_settings() -> None:
    registry = Registry([Vault])
    assert registry.of_kind(PluginKind.CONFIG_PROVIDER)[0].cls is Vault
    for name in ("org.example.VaultConfigProvider", "VaultConfigProvider", "Vault"):
        props = {
            "config.providers": "v",
            "config.providers.v.class": name,
            "config.providers.v.param.address": "vault:8200",
        }
        asked = Providers(props, registry)
        assert value(asked, "${v:db:user}") == "me"
        Vault.closed.clear()
        asked.close()
        assert Vault.closed == ["vault:8200"]


@pytest.mark.parametrize(
    ("props", "problem"),
    [
        (
            {"config.providers": "a,b", "config.providers.a.class": "Nobody"},
            "Invalid value Nobody for configuration config.providers.a.class: Could not load "
            "config provider class or one of its dependencies. Known are: "
            f"{PACKAGE}.DirectoryConfigProvider, {PACKAGE}.EnvVarConfigProvider, "
            f"{PACKAGE}.FileConfigProvider, org.example.VaultConfigProvider",
        ),
        (
            {"config.providers": "v", "config.providers.v.class": "Vault"},
            'config.providers.v.param.*: Missing required configuration "address" which has no '
            "default value.",
        ),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused(props: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        Providers(props, Registry([Vault]))
    assert str(raised.value) == problem


def test_a_name_without_a_class_is_no_provider() -> None:
    assert value(Providers({"config.providers": "p"}, NOBODY), "${p:k}") == "${p:k}"


def test_secrets_are_known_until_the_worker_ends() -> None:
    asked = Providers(
        {
            "config.providers": "v",
            "config.providers.v.class": "Vault",
            "config.providers.v.param.address": "x",
        },
        Registry([Vault]),
    )
    assert asked.redacted("s3cret") == "s3cret"  # not requested yet
    assert value(asked, "${v:db:password}") == "s3cret"
    assert asked.redacted("ValueError: s3cret!") == "ValueError: [hidden]!"


def test_log_lines_of_any_logger_have_no_secrets() -> None:
    asked = Providers(
        {
            "config.providers": "v",
            "config.providers.v.class": "Vault",
            "config.providers.v.param.address": "x",
        },
        Registry([Vault]),
    )
    assert value(asked, "${v:db:password}") == "s3cret"
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(LogFilter(asked))
    logger = logging.Logger("somebody")
    logger.addHandler(handler)
    try:
        raise ValueError("wrong: s3cret")
    except ValueError:
        logger.exception("%s of %d%%", "s3cret", 5)
    text = out.getvalue()
    assert text.startswith("[hidden] of 5%\nTraceback")
    assert text.endswith("ValueError: wrong: [hidden]\n")
    assert "s3cret" not in text  # nor in the quoted line of code


def test_a_workers_own_settings_may_have_placeholders_but_for_the_plugin_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", "hush")
    props = {
        "config.providers": "env",
        "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
        "ssl.key.password": "${env:PENSTOCK_TEST_SECRET}",
        "plugin.path": "/plugins/${env:PENSTOCK_TEST_SECRET}",
        "group.id": "${env:NOT_THERE_AT_ALL}",
    }
    assert resolved_worker(props, NOBODY) == {**props, "ssl.key.password": "hush"}


def test_a_provider_is_given_its_parsed_settings() -> None:
    parsed: Config = Vault.plugin.config.parse({"address": " vault:8200 "})
    assert Vault(parsed).config[ADDRESS] == "vault:8200"


WORKER = {
    "bootstrap.servers": "broker:9092",
    "group.id": "workers",
    "key.converter": StringConverter.plugin.class_name,
    "value.converter": StringConverter.plugin.class_name,
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "config.providers": "v",
    "config.providers.v.class": "Vault",
    "config.providers.v.param.address": "x",
}
USER = Key("user", STRING, importance=HIGH, doc="Who.")
SECRET = Key("secret", PASSWORD, importance=HIGH, doc="The password.")
SIZE = Key("size", INT, default=1, doc="A number.")


class Login(SinkConnector):
    """Passes its settings on to one task."""

    plugin = Plugin("test.Login", "1", ConfigDef(USER, SECRET, SIZE))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        if config[USER] == "nobody":
            raise RuntimeError("no such user")
        return [{**config.props, "greeting": f"I am {config[USER]}"}]

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        raise NotImplementedError


CONNECTOR: dict[str, str | None] = {
    "name": "login",
    "connector.class": "test.Login",
    "topics": "orders",
    "user": "${v:db:user}",
    "secret": "${v:db:password}",
    "consumer.override.security.protocol": "SASL_SSL",
    "consumer.override.sasl.mechanism": "PLAIN",
    "consumer.override.sasl.jaas.config": 'x required username="a" password="${v:db:password}";',
}


class Plans:
    """A planner, and how long it says each configuration is valid."""

    def __init__(self) -> None:
        self.held: list[tuple[str | TaskId, int | None]] = []
        self.planner = Planner(
            parse_distributed(WORKER),
            Registry([Login, Vault, StringConverter, SimpleHeaderConverter]),
            lambda what, ms: self.held.append((what, ms)),
        )


@pytest.fixture
def plans() -> Plans:
    return Plans()


def shown(plans: Plans, config: Mapping[str, str | None]) -> dict[str, tuple[str, list[str]]]:
    infos = plans.planner.validate(config)
    assert "s3cret" not in str(infos)
    values = [info["value"] for info in infos["configs"]]
    return {value["name"]: (value["value"], value["errors"]) for value in values}


def test_a_validation_looks_behind_placeholders_and_shows_none(plans: Plans) -> None:
    values = shown(plans, CONNECTOR)
    assert values["secret"] == ("[hidden]", [])
    assert values["user"] == ("${v:db:user}", [])
    jaas = "consumer.override.sasl.jaas.config"
    assert values[jaas] == (CONNECTOR[jaas], [])


def test_an_error_about_a_secret_does_not_tell_it(plans: Plans) -> None:
    values = shown(plans, {**CONNECTOR, "size": "${v:db:password}"})
    assert values["size"] == (
        None,
        ["Invalid value ${v:db:password} for configuration size: Not a number of type INT"],
    )


def test_a_placeholder_without_a_value_is_validated_unchanged(plans: Plans) -> None:
    values = shown(plans, {**CONNECTOR, "size": "${v:db:size}", "user": "${x:y:z}"})
    assert values["size"][1] == [
        "Invalid value ${v:db:size} for configuration size: Not a number of type INT"
    ]
    assert values["user"] == ("${x:y:z}", [])


def test_a_configuration_without_a_class_is_shown_without_secrets(plans: Plans) -> None:
    with pytest.raises(NoConnectorType) as raised:
        plans.planner.validate({"secret": "${v:db:password}"})
    assert str(raised.value) == "Connector config {secret=[hidden]} contains no connector type"


def test_tasks_are_planned_with_secrets_and_stored_without(plans: Plans) -> None:
    [task] = plans.planner.planned("login", CONNECTOR).configs
    assert task["secret"] == "${v:db:password}"
    assert task["user"] == "${v:db:user}"
    assert task["greeting"] == "I am me"  # values derived from secrets are kept
    assert "s3cret" not in str(task)


def test_a_task_is_started_with_what_placeholders_stand_for_then(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    [task] = plans.planner.planned("login", CONNECTOR).configs
    monkeypatch.setitem(Vault.content, "db", {"user": "me", "password": "n3w-s3cret"})
    plan = plans.planner.flow(TaskId("login", 0), 1, CONNECTOR, task)
    assert isinstance(plan, SinkPlan)
    assert plan.config[SECRET].value == "n3w-s3cret"
    assert plan.admin["sasl.password"] == "n3w-s3cret"
    assert "n3w-s3cret" not in repr(plan) + plan.describe()


@pytest.mark.parametrize(("action", "held"), [(None, 900), ("restart", 900), ("none", None)])
def test_values_with_a_lifetime_are_read_again_unless_told_otherwise(
    action: str | None, held: int | None, plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Vault, "ttl_ms", 900)
    config = {**CONNECTOR, **({} if action is None else {"config.action.reload": action})}
    [task] = plans.planner.planned("login", config).configs
    plans.planner.flow(TaskId("login", 0), 1, config, task)
    assert plans.held == [("login", held), (TaskId("login", 0), held)]


def test_values_without_a_lifetime_are_reported_too(plans: Plans) -> None:
    """This replaces the time of an older configuration."""
    plans.planner.planned("login", CONNECTOR)
    assert plans.held == [("login", None)]


def test_a_provider_that_fails_is_named_with_its_settings() -> None:
    def broken(path: str, keys: frozenset[str]) -> Lookup:
        raise KeyError("no such secret")

    config = {"a": "${v:p:k}", "b": "${v:other:k}", "c": "x-${v:p:l}"}
    with pytest.raises(ProviderFailed) as raised:
        transformed(config, {"v": broken})
    assert str(raised.value) == (
        "KeyError: 'no such secret' (config provider 'v': ${v:p:k} in 'a', ${v:p:l} in 'c')"
    )


def test_a_placeholder_without_a_value_is_kept_and_reported() -> None:
    config = {"a": "${v:k}/${v:p:l}", "b": "${v:here}", "c": "${nobody:k}", "d": None}
    result = transformed(config, {"v": lambda path, keys: Lookup({"here": "1"})})
    assert result.props == {**config, "b": "1"}
    assert list(result.unresolved) == ["a"]
    assert result.explain("a") == (
        "config provider 'v' has no value for ${v:k}; config provider 'v' has no value for ${v:p:l}"
    )
    assert result.explain("b") is None

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.connector import SINK, SOURCE, enrich
from penstock.config.define import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Config,
    ConfigDef,
    Key,
    Kind,
    Secret,
    written,
)
from penstock.config.render import config_infos, help_text, invalid_text, markdown
from penstock.config.topic_creation import with_topic_creation
from penstock.config.worker import from_environment
from penstock.config.worker_keys import DISTRIBUTED, STANDALONE
from penstock.errors import ConfigInvalid

KINDS: list[Kind[object]] = [
    *(BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD),
]
KEYS = ConfigDef(*(Key(kind.name, kind) for kind in KINDS))

texts = st.text(max_size=20) | st.sampled_from(["1", "-1", "true", "a,b", "[", "1e5", "0x1p3", ""])
values = st.none() | texts
entry = st.text("abc.$-", min_size=1).map(lambda text: text.strip())

PARSED = st.one_of(
    st.tuples(st.just("BOOLEAN"), st.booleans()),
    st.tuples(st.just("INT"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("SHORT"), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just("LONG"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("DOUBLE"), st.floats(allow_nan=False)),
    st.tuples(st.just("STRING"), st.text("aé b,\\").map(str.strip)),
    st.tuples(st.just("CLASS"), entry),
    st.tuples(st.just("LIST"), st.lists(entry).map(tuple)),
)


def settings(*definitions: ConfigDef) -> st.SearchStrategy[dict[str, str | None]]:
    names = [key.name for definition in definitions for key in definition.keys]
    groups = ("a.type", "a.negate", "a.predicate", "default.partitions", "g.include")
    more = [f"{prefix}.{name}" for prefix in ("transforms", "topic.creation") for name in groups]
    return st.dictionaries(st.sampled_from([*names, *more]) | st.text(max_size=5), values)


@given(PARSED)
def test_a_value_that_is_written_reads_as_itself(case: tuple[str, object]) -> None:
    name, value = case
    text = written(value)
    assert text is not None
    [found] = ConfigDef(KEYS[name]).validate({name: text})
    assert found.errors == ()
    assert found.value == value


@given(settings(KEYS))
def test_validating_never_raises_and_answers_for_every_key(props: dict[str, str | None]) -> None:
    found = KEYS.validate(props)
    assert [value.name for value in found] == [key.name for key in KEYS.keys]
    for value in found:
        assert (value.value is None) or not value.errors


def parsed(definition: ConfigDef, props: dict[str, str | None]) -> Config | tuple[str, ...]:
    try:
        return definition.parse(props)
    except ConfigInvalid as invalid:
        return invalid.problems


@given(settings(KEYS))
def test_parsing_fails_exactly_when_validating_finds_something(
    props: dict[str, str | None],
) -> None:
    present = {name: value for name, value in props.items() if value is not None}
    found = KEYS.validate(present)
    match parsed(KEYS, props):
        case Config() as config:
            assert [value for value in found if value.errors] == []
            assert [config[key] for key in KEYS.keys] == [value.value for value in found]
            assert config.props == present
        case problems:
            assert list(problems) == [value.errors[0] for value in found if value.errors]


@given(st.text(min_size=3).map(lambda text: f"<{text}>"))
def test_no_way_of_showing_things_shows_a_secret(secret: str) -> None:
    key = Key("p", PASSWORD)
    config = ConfigDef(key).parse({"p": secret, "unknown": secret})
    assert config[key] == Secret(secret)
    found = ConfigDef(key).validate({"p": secret})
    shown = [repr(config), repr(found), str(config[key])]
    shown.append(repr(config_infos("T", [ConfigDef(key)], found)))
    assert not any(secret in text for text in shown)


@given(settings(SOURCE, SINK))
def test_any_connector_configuration_can_be_judged_and_shown(
    props: dict[str, str | None],
) -> None:
    for base in (SINK, SOURCE):
        definition = with_topic_creation(enrich(base, props), props)
        assert definition.keys[: len(base.keys)] == base.keys
        found = definition.validate(props)
        infos = config_infos("T", [definition], found)
        assert infos["error_count"] == sum(len(value.errors) for value in found)
        text = invalid_text(infos)
        assert (text is None) == (infos["error_count"] == 0)
        assert all(error in (text or "") for value in found for error in value.errors)
        assert len(infos["configs"]) == len(found)
        str(infos)


@given(settings(DISTRIBUTED))
def test_any_worker_configuration_is_parsed_or_refused(props: dict[str, str | None]) -> None:
    for definition in (DISTRIBUTED, STANDALONE):
        result = parsed(definition, props)
        assert isinstance(result, Config) or all(result)


@given(st.dictionaries(st.from_regex(r"[A-Z](_{0,3}[A-Z0-9])*", fullmatch=True), st.text()))
def test_any_setting_can_be_spelled_as_a_variable(environ: dict[str, str]) -> None:
    found = from_environment({f"CONNECT_{name}": value for name, value in environ.items()})
    spelled = {
        name.replace("_", "__").replace("-", "___").replace(".", "_").upper(): value
        for name, value in found.items()
    }
    assert spelled == environ
    assert from_environment(environ | {"PATH": "/bin"}) == {}


def test_every_definition_can_be_printed() -> None:
    for definition in (DISTRIBUTED, STANDALONE, SOURCE, SINK):
        table = markdown(definition)
        text = help_text(definition)
        for key in definition.keys:
            assert f"| `{key.name}` |" in table
            assert f"{key.name}  (" in text
        assert orjson.dumps(config_infos("T", [definition], definition.validate({})))

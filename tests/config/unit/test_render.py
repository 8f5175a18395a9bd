from __future__ import annotations

import orjson

from penstock.config.checks import between
from penstock.config.define import (
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LOW,
    PASSWORD,
    STRING,
    Choices,
    ConfigDef,
    ConfigValue,
    Key,
    Secret,
    Width,
)
from penstock.config.render import (
    config_infos,
    config_key_info,
    help_text,
    invalid_text,
    markdown,
    merged_infos,
    prefixed_infos,
)

A = Key("a", INT, 5, HIGH, "doc a", between(1, 9), "G", 1, Width.SHORT, "A", ("b", "zz"))
B = Key("b", PASSWORD, None, LOW, "doc b")
C = Key("c", LIST, ("x", "y"), LOW, "doc c")
D = Key("d", DOUBLE, 1.0, LOW, "doc d")
E = Key("e", STRING, importance=LOW)
F = Key("f", CLASS, "java.util.Map$Entry", LOW)
G = Key("g", PASSWORD, Secret("zz"), LOW, "x")
H = Key("h", STRING, "", LOW, "", None, "H", 3, Width.LONG, "HH", recommender=Choices(("one", 2)))
WHOLE = ConfigDef(A, B, C, D, E, F, G, H)


def test_a_definition_is_shown_as_a_4_2_0_worker_shows_it() -> None:
    # Captured: ConfigKeyInfo of Kafka Connect 4.2.0, written by its JSON encoder.
    assert orjson.dumps(config_key_info(A)) == (
        b'{"name":"a","type":"INT","required":false,"default_value":"5","importance":"HIGH",'
        b'"documentation":"doc a","group":"G","order_in_group":1,"width":"SHORT",'
        b'"display_name":"A","dependents":["b","zz"]}'
    )
    assert orjson.dumps(config_key_info(E)) == (
        b'{"name":"e","type":"STRING","required":true,"default_value":null,"importance":"LOW",'
        b'"documentation":"","group":null,"order_in_group":-1,"width":"NONE",'
        b'"display_name":"e","dependents":[]}'
    )


def test_defaults_are_shown_as_text() -> None:
    assert [config_key_info(key)["default_value"] for key in WHOLE.keys] == [
        *("5", None, "x,y", "1.0", None, "java.util.Map$Entry", "[hidden]", ""),
    ]


def test_a_validation_is_shown_as_a_4_2_0_worker_shows_it() -> None:
    values = WHOLE.validate({"a": "x", "b": "pw", "c": " q , r "})
    infos = config_infos("T", [WHOLE], [ConfigValue("nn", errors=("Null value",)), *values])
    assert list(infos) == ["name", "error_count", "groups", "configs"]
    assert (infos["name"], infos["error_count"], infos["groups"]) == ("T", 5, ["G", "H"])
    shown = [(info["definition"] and info["definition"]["name"]) for info in infos["configs"]]
    assert shown == [None, None, "a", "b", "c", "d", "e", "f", "g", "h"]
    by_name = {info["value"]["name"]: info["value"] for info in infos["configs"]}
    assert list(by_name["a"]) == ["name", "value", "recommended_values", "errors", "visible"]
    assert by_name["a"]["errors"] == [
        "Invalid value x for configuration a: Not a number of type INT",
        "Invalid value null for configuration a: Value must be non-null",
    ]
    assert by_name["zz"] == {
        "name": "zz",
        "value": None,
        "recommended_values": [],
        "errors": ["zz is referred in the dependents, but not defined."],
        "visible": False,
    }
    texts = [by_name[name]["value"] for name in "abcdefgh"]
    assert texts == [
        *(None, "[hidden]", "q,r", "1.0", None, "java.util.Map$Entry", "[hidden]", ""),
    ]
    assert by_name["h"]["recommended_values"] == ["one", "2"]
    assert b"pw" not in orjson.dumps(infos)


def test_the_plugin_has_the_last_word_on_a_setting_it_shares() -> None:
    framework = ConfigDef(Key("topics", LIST, (), group="Common"), E)
    plugin = ConfigDef(Key("topics", STRING, "t", group="Own"))
    infos = config_infos(
        "T",
        [framework, plugin],
        [*framework.validate({"e": "1", "topics": "x"}), ConfigValue("topics", "y", ("bad",))],
    )
    assert [info["definition"]["name"] for info in infos["configs"]] == ["topics", "e"]
    assert infos["configs"][0]["definition"]["type"] == "STRING"
    assert infos["configs"][0]["value"]["value"] == "y"
    assert (infos["error_count"], infos["groups"]) == (1, ["Common", "Own"])


def test_parts_are_prefixed_and_count_settings_instead_of_errors() -> None:
    definition = ConfigDef(A)
    [value, *_] = definition.validate({"a": "x"})
    assert len(value.errors) == 2
    infos = prefixed_infos(definition, [value], "key.converter.")
    assert infos["error_count"] == 1
    assert infos["groups"] == ["G"]
    first = infos["configs"][0]
    assert first["definition"]["name"] == first["value"]["name"] == "key.converter.a"
    assert first["definition"]["dependents"] == ["b", "zz"]
    unknown = prefixed_infos(None, [ConfigValue("linger.ms", "5")], "producer.override.")
    assert unknown["configs"][0]["definition"] is None
    assert unknown["configs"][0]["value"]["value"] == "5"


def test_parts_are_merged_in_order() -> None:
    first = config_infos("T", [ConfigDef(E)], ConfigDef(E).validate({}))
    second = prefixed_infos(ConfigDef(H), ConfigDef(H).validate({}), "p.")
    infos = merged_infos("T", first, second)
    assert (infos["name"], infos["error_count"], infos["groups"]) == ("T", 1, ["H"])
    assert [info["value"]["name"] for info in infos["configs"]] == ["e", "p.h"]


def test_a_failed_create_lists_its_errors() -> None:
    definition = ConfigDef(E, Key("n", INT, 1, check=between(1, 9)))
    infos = config_infos("T", [definition], definition.validate({"n": "x"}))
    assert invalid_text(infos) == (
        "Connector configuration is invalid and contains the following 3 error(s):\n"
        'Missing required configuration "e" which has no default value.\n'
        "Invalid value x for configuration n: Not a number of type INT\n"
        "Invalid value null for configuration n: Value must be non-null\n"
        "You can also find the above list of errors at the endpoint"
        " `/connector-plugins/{connectorType}/config/validate`"
    )


def test_a_valid_configuration_has_no_error_text() -> None:
    definition = ConfigDef(H)
    assert invalid_text(config_infos("T", [definition], definition.validate({}))) is None


def test_the_reference_table_has_a_row_per_setting_and_group() -> None:
    pipe = Key("k|", STRING, "", doc="Either | or.")
    assert markdown(ConfigDef(A, B, E, pipe)).splitlines() == [
        "| Setting | Type | Default | Valid values | Importance | Meaning |",
        "| --- | --- | --- | --- | --- | --- |",
        "| **G** |  |  |  |  |  |",
        "| `a` | int | `5` | [1,...,9] | high | doc a |",
        "| `b` | password | null |  | low | doc b |",
        "| `e` | string | *required* |  | low |  |",
        '| `k|` | string | `""` |  | medium | Either \\| or. |',
    ]


def test_help_says_what_a_setting_takes() -> None:
    long = Key("long", STRING, "", doc="word " * 20)
    assert help_text(ConfigDef(A, B, E, long), width=40).splitlines() == [
        "a  (int, default 5, [1,...,9])",
        "    doc a",
        "b  (password)",
        "    doc b",
        "e  (string, required)",
        'long  (string, default "")',
        *["    word word word word word word word"] * 2,
        "    word word word word word word",
    ]

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from penstock.config.checks import at_least, one_of
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
    UNIQUE_LIST,
    Choices,
    ConfigDef,
    ConfigValue,
    Importance,
    Key,
    Kind,
    Secret,
    class_known_as,
    with_errors,
    written,
)
from penstock.errors import ConfigInvalid

BATCH = Key("batch.size", INT, default=500, check=at_least(1))
FILE = Key("file", STRING)
NOTE = Key("note", STRING, default=None)
PASS = Key("password", PASSWORD, default=None)

# Captured from ConfigDef of kafka-clients 4.2.0: kind, text, value, the value as text.
READABLE: list[tuple[Kind[object], str, object, str]] = [
    (INT, "7", 7, "7"),
    (INT, " 7 ", 7, "7"),
    (INT, "+7", 7, "7"),
    (INT, "-0", 0, "0"),
    (INT, "\u0661", 1, "1"),
    (INT, "０", 0, "0"),
    (INT, "-2147483648", -(2**31), "-2147483648"),
    (INT, "0000000000000000000000000001", 1, "1"),
    (SHORT, "-32768", -32768, "-32768"),
    (LONG, "9223372036854775807", 2**63 - 1, "9223372036854775807"),
    (DOUBLE, "1", 1.0, "1.0"),
    (DOUBLE, "1.5f", 1.5, "1.5"),
    (DOUBLE, "1d", 1.0, "1.0"),
    (DOUBLE, ".5", 0.5, "0.5"),
    (DOUBLE, "5.", 5.0, "5.0"),
    (DOUBLE, "1E+3", 1000.0, "1000.0"),
    (DOUBLE, "-Infinity", float("-inf"), "-Infinity"),
    (DOUBLE, "0x1.8p1", 3.0, "3.0"),
    (DOUBLE, "0x.8p0d", 0.5, "0.5"),
    (DOUBLE, "0.001", 0.001, "0.001"),
    (DOUBLE, "0.0001", 0.0001, "1.0E-4"),
    (DOUBLE, "1e7", 1e7, "1.0E7"),
    (DOUBLE, "12345678.9", 12345678.9, "1.23456789E7"),
    (DOUBLE, "1e999", float("inf"), "Infinity"),
    (DOUBLE, "0x1p9999", float("inf"), "Infinity"),
    (DOUBLE, "-0.0", -0.0, "-0.0"),
    (DOUBLE, "123456789012345680000", 1.2345678901234568e20, "1.2345678901234568E20"),
    (BOOLEAN, "TRUE", True, "true"),
    (BOOLEAN, " false ", False, "false"),
    (LIST, "a,b", ("a", "b"), "a,b"),
    (LIST, " a , b ", ("a", "b"), "a,b"),
    (LIST, "", (), ""),
    (LIST, "a,,b", ("a", "", "b"), "a,,b"),
    (LIST, "a,", ("a", ""), "a,"),
    (LIST, "a,a", ("a", "a"), "a,a"),
    (LIST, " , ", ("", ""), ","),
    (LIST, "a\u00a0, b", ("a\u00a0", "b"), "a\u00a0,b"),
    (STRING, " x ", "x", "x"),
    (STRING, "\u00a0x", "\u00a0x", "\u00a0x"),
    (CLASS, " a.B$C ", "a.B$C", "a.B$C"),
    (PASSWORD, " p ", Secret("p"), "[hidden]"),
    (UNIQUE_LIST, "b,a,b", ("b", "a"), "b,a"),
]

NUMBER = "Not a number of type"
UNREADABLE: list[tuple[Kind[object], str, str]] = [
    *((INT, text, f"{NUMBER} INT") for text in ("1_0", "1.5", "", "2147483648", "+", "--1", "𝟕")),
    (SHORT, "32768", f"{NUMBER} SHORT"),
    *((LONG, text, f"{NUMBER} LONG") for text in ("9223372036854775808", "1L")),
    *(
        (DOUBLE, text, f"{NUMBER} DOUBLE")
        for text in ("1_0", "", "inf", "nan", "1e", "\u0661", "Infinityd", "0x1p", "0xp1", ".")
    ),
    *((BOOLEAN, text, "Expected value to be either true or false") for text in ("yes", "")),
]


@pytest.mark.parametrize(("kind", "text", "value", "shown"), READABLE)
def test_a_text_reads_as_java_reads_it(
    kind: Kind[object], text: str, value: object, shown: str
) -> None:
    [found] = ConfigDef(Key("k", kind)).validate({"k": text})
    assert (found.value, found.errors) == (value, ())
    assert type(found.value) is type(value)
    assert written(found.value) == shown


@pytest.mark.parametrize(("kind", "text", "problem"), UNREADABLE)
def test_a_text_that_does_not_read_is_reported_in_javas_words(
    kind: Kind[object], text: str, problem: str
) -> None:
    [found] = ConfigDef(Key("k", kind)).validate({"k": text})
    assert found.value is None
    assert found.errors == (f"Invalid value {text} for configuration k: {problem}",)


def test_nan_is_a_double() -> None:
    [found] = ConfigDef(Key("k", DOUBLE)).validate({"k": "NaN"})
    assert written(found.value) == "NaN"


def test_defaults_fill_what_is_not_given() -> None:
    config = ConfigDef(FILE, BATCH, NOTE).parse({"file": "f"})
    assert (config[FILE], config[BATCH], config[NOTE]) == ("f", 500, None)


def test_values_have_the_type_of_their_key() -> None:
    config = ConfigDef(FILE, BATCH).parse({"file": "f", "batch.size": "2"})
    rows: int = config[BATCH]
    name: str = config[FILE]
    assert (rows, name) == (2, "f")


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigInvalid) as raised:
        ConfigDef(FILE, BATCH, Key("mode", STRING, "a", check=one_of("a", "b"))).parse(
            {"batch.size": "0", "mode": "c"}
        )
    assert raised.value.problems == (
        'Missing required configuration "file" which has no default value.',
        "Invalid value 0 for configuration batch.size: Value must be at least 1",
        "Invalid value c for configuration mode: String must be one of: a, b",
    )


def test_validation_also_reports_the_check_that_had_nothing_to_look_at() -> None:
    [found] = ConfigDef(BATCH).validate({"batch.size": "x"})
    assert found.errors == (
        "Invalid value x for configuration batch.size: Not a number of type INT",
        "Invalid value null for configuration batch.size: Value must be non-null",
    )


def test_parsing_does_not_repeat_itself_about_one_value() -> None:
    with pytest.raises(ConfigInvalid) as raised:
        ConfigDef(BATCH).parse({"batch.size": "x"})
    assert raised.value.problems == (
        "Invalid value x for configuration batch.size: Not a number of type INT",
    )


def test_null_is_validated_as_a_value_and_parsed_as_absence() -> None:
    [found] = ConfigDef(BATCH).validate({"batch.size": None})
    assert found.errors == (
        "Invalid value null for configuration batch.size: Value must be non-null",
    )
    assert ConfigDef(BATCH).parse({"batch.size": None})[BATCH] == 500


def test_a_check_is_not_asked_about_none_where_none_is_the_default() -> None:
    interval = Key("interval", LONG, default=None, check=at_least(0))
    [found] = ConfigDef(interval).validate({"interval": "x"})
    assert found.errors == (
        "Invalid value x for configuration interval: Not a number of type LONG",
    )


def test_a_default_that_fails_its_own_check_is_refused() -> None:
    with pytest.raises(ValueError, match="fails its own check"):
        Key("k", INT, default=0, check=at_least(1))


def test_a_name_defined_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="file is defined twice"):
        ConfigDef(FILE, BATCH).extended(FILE)


def test_a_rule_blames_the_setting_it_names() -> None:
    def rule(parsed: Mapping[str, object]) -> list[tuple[str, str]]:
        return [("note", "no notes for files")] if parsed["file"] and parsed["note"] else []

    definition = ConfigDef(FILE, NOTE, rules=[rule])
    assert [value.errors for value in definition.validate({"file": "f", "note": "n"})] == [
        (),
        ("no notes for files",),
    ]
    with pytest.raises(ConfigInvalid, match="no notes for files"):
        definition.parse({"file": "f", "note": "n"})
    assert definition.parse({"file": "f"})[NOTE] is None


def test_a_dependent_that_nobody_defines_is_an_invisible_error() -> None:
    parent = Key("a", INT, 1, dependents=("b", "zz"))
    values = ConfigDef(parent, Key("b", INT, 2)).validate({})
    assert values[-1] == ConfigValue(
        "zz", None, ("zz is referred in the dependents, but not defined.",), (), False
    )


def test_a_recommender_sees_the_other_settings() -> None:
    class Below:
        def values(self, name: str, parsed: Mapping[str, object]) -> Sequence[object]:
            limit = parsed["limit"]
            assert isinstance(limit, int)
            return list(range(limit))

        def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
            return parsed["limit"] != 0

    definition = ConfigDef(Key("n", INT, 0, recommender=Below()), Key("limit", INT, 2))
    found = definition.validate({})[0]
    assert (found.recommended, found.visible) == ((0, 1), True)
    found = definition.validate({"limit": "0"})[0]
    assert (found.recommended, found.visible) == ((), False)


def test_choices_are_always_offered() -> None:
    [found] = ConfigDef(Key("c", STRING, "", recommender=Choices(("a", "b")))).validate({})
    assert (found.recommended, found.visible) == (("a", "b"), True)


def test_a_class_is_read_as_the_name_it_is_known_by() -> None:
    known = {"Json": "x.JsonConverter"}
    definition = ConfigDef(Key("c", class_known_as(known.get), default=None))
    assert definition.validate({"c": "Json"})[0].value == "x.JsonConverter"
    [found] = definition.validate({"c": "Nope"})
    assert (found.value, found.errors) == (
        None,
        ("Invalid value Nope for configuration c: Class Nope could not be found.",),
    )


def test_an_embedded_key_is_named_in_full_except_by_its_check() -> None:
    definition = ConfigDef(*ConfigDef(BATCH, FILE).embedded("part.", "Parts: part", 2))
    assert [(key.name, key.group, key.order, key.display_name) for key in definition.keys] == [
        ("part.file", "Parts: part", 2, "file"),
        ("part.batch.size", "Parts: part", 3, "batch.size"),
    ]
    assert [value.errors for value in definition.validate({"part.batch.size": "0"})] == [
        ('Missing required configuration "part.file" which has no default value.',),
        ("Invalid value 0 for configuration batch.size: Value must be at least 1",),
    ]


def test_an_embedded_recommender_sees_its_part_only() -> None:
    seen: list[Mapping[str, object]] = []

    class Spy:
        def values(self, name: str, parsed: Mapping[str, object]) -> Sequence[object]:
            seen.append({"": name, **parsed})
            return ()

        def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
            return True

    part = ConfigDef(Key("a", INT, 1, recommender=Spy()))
    ConfigDef(FILE, *part.embedded("p.", "P")).validate({"p.a": "2"})
    assert seen == [{"": "a", "a": 2}]


def test_keys_sort_by_need_then_importance_then_name() -> None:
    definition = ConfigDef(
        Key("z", INT, 1, Importance.HIGH),
        Key("b", INT, 1, Importance.LOW),
        Key("a", INT, 1, Importance.LOW),
        Key("y", INT, importance=Importance.LOW),
    )
    assert [key.name for key in definition.sorted_keys()] == ["y", "z", "a", "b"]


def test_keys_sort_by_group_and_place_first() -> None:
    definition = ConfigDef(
        Key("c", INT, 1, group="Y", order=2),
        Key("b", INT, group="Y", order=3),
        Key("a", INT, group="X", order=1),
        Key("d", INT, 1),
    )
    assert [key.name for key in definition.sorted_keys()] == ["d", "c", "b", "a"]


def test_groups_come_in_order_of_first_appearance() -> None:
    keys = [Key(name, INT, 1, group=group) for name, group in zip("abcd", "XYX-", strict=True)]
    assert ConfigDef(*keys, NOTE).groups() == ["X", "Y", "-"]


def test_a_config_gives_the_settings_under_a_prefix() -> None:
    config = ConfigDef(FILE).parse({"file": "f", "p.a": "1", "p.": "2", "p.b.c": " 3 ", "q": "4"})
    assert config.under("p.") == {"a": "1", "b.c": " 3 "}


def test_a_config_knows_what_was_given() -> None:
    config = ConfigDef(FILE, BATCH).parse({"file": "f"})
    assert FILE in config
    assert BATCH not in config
    assert "file" not in config


def test_a_config_is_asked_for_its_own_keys_only() -> None:
    with pytest.raises(KeyError, match="not part of this configuration"):
        ConfigDef(FILE).parse({"file": "f"})[BATCH]


def test_configs_with_the_same_values_are_equal() -> None:
    parse = ConfigDef(FILE).parse
    assert parse({"file": "f"}) == parse({"file": "f"})
    assert parse({"file": "f"}) != parse({"file": "g"})


@pytest.mark.parametrize("shown", [repr, str])
def test_no_secret_is_shown(shown: type[str]) -> None:
    config = ConfigDef(FILE, PASS).parse(
        {"file": "f", "password": "hunter2", "producer.sasl.jaas.config": "hunter2"}
    )
    secret = config[PASS]
    assert secret is not None
    assert secret.value == "hunter2"
    [value] = ConfigDef(PASS).validate({"password": "hunter2"})
    for thing in (config, secret, value, [secret]):
        assert "hunter2" not in shown(thing)
    assert "'file': 'f'" in shown(config)


def test_errors_are_added_to_values_and_to_new_ones() -> None:
    values = with_errors([ConfigValue("a", 1)], [("a", "x"), ("b", "y"), ("a", "z")])
    assert values == [ConfigValue("a", 1, ("x", "z")), ConfigValue("b", None, ("y",))]

"""The vocabulary of settings declares the same keys as `Key`, and places them in their group."""

from __future__ import annotations

import pytest

from penstock.api import settings as api
from penstock.config import declare
from penstock.config.checks import at_least, at_most, between, one_of
from penstock.config.declare import Group
from penstock.config.define import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    PASSWORD,
    REQUIRED,
    SHORT,
    STRING,
    UNIQUE_LIST,
    Choices,
    ConfigDef,
    Key,
    Secret,
    Width,
)

WORDS = ("a", "b")


@pytest.mark.parametrize(
    ("declared", "key"),
    [
        (declare.text("s", "x", "Doc."), Key("s", STRING, "x", doc="Doc.")),
        (declare.text("s", REQUIRED, "Doc."), Key("s", STRING, doc="Doc.")),
        (declare.text("s", None, "Doc."), Key("s", STRING, None, doc="Doc.")),
        (declare.flag("s", True, "Doc."), Key("s", BOOLEAN, True, doc="Doc.")),
        (declare.number("s", 1, "Doc."), Key("s", INT, 1, doc="Doc.")),
        (declare.long("s", 1, "Doc."), Key("s", LONG, 1, doc="Doc.")),
        (declare.short("s", 1, "Doc."), Key("s", SHORT, 1, doc="Doc.")),
        (declare.double("s", 0.5, "Doc."), Key("s", DOUBLE, 0.5, doc="Doc.")),
        (declare.class_name("s", "C", "Doc."), Key("s", CLASS, "C", doc="Doc.")),
        (declare.listing("s", (), "Doc."), Key("s", LIST, (), doc="Doc.")),
        (declare.listing("s", (), "Doc.", unique=True), Key("s", UNIQUE_LIST, (), doc="Doc.")),
        (declare.secret("s", "x", "Doc."), Key("s", PASSWORD, Secret("x"), doc="Doc.")),
        (declare.secret("s", None, "Doc."), Key("s", PASSWORD, None, doc="Doc.")),
        (
            declare.choice("s", "a", WORDS, "Doc."),
            Key("s", STRING, "a", doc="Doc.", check=one_of(*WORDS)),
        ),
        (
            declare.choice("s", "A", WORDS, "Doc.", ignore_case=True, offers=WORDS),
            Key(
                "s",
                STRING,
                "A",
                doc="Doc.",
                check=one_of(*WORDS, ignore_case=True),
                recommender=Choices(WORDS),
            ),
        ),
        (
            declare.number("s", 1, "Doc.", at_least=0),
            Key("s", INT, 1, doc="Doc.", check=at_least(0)),
        ),
        (
            declare.long("s", 1, "Doc.", at_most=2),
            Key("s", LONG, 1, doc="Doc.", check=at_most(2)),
        ),
        (
            declare.number("s", 1, "Doc.", at_least=0, at_most=2),
            Key("s", INT, 1, doc="Doc.", check=between(0, 2)),
        ),
        (
            declare.text("s", "", "Doc.", importance=HIGH, width=Width.LONG, label="S"),
            Key("s", STRING, "", HIGH, "Doc.", width=Width.LONG, display_name="S"),
        ),
        (declare.ignored("s", 1, "no"), Key("s", INT, 1, LOW, "Ignored: no.")),
        (declare.ignored("s", 1, kind=LONG), Key("s", LONG, 1, LOW, "Ignored.")),
        (declare.ignored("s", False), Key("s", BOOLEAN, False, LOW, "Ignored.")),
        (declare.ignored("s", ("a",)), Key("s", LIST, ("a",), LOW, "Ignored.")),
        (declare.ignored("s", 0.5), Key("s", DOUBLE, 0.5, LOW, "Ignored.")),
        (declare.ignored("s", None), Key("s", STRING, None, LOW, "Ignored.")),
    ],
)
def test_each_function_declares_the_key_of_its_type(
    declared: Key[object], key: Key[object]
) -> None:
    assert declared == key


def test_a_groups_settings_are_numbered_in_the_order_of_their_declaration() -> None:
    group = Group("Writing", importance=LOW, first=3)
    group.text("a", "", "A.")
    group.flag("b", False, "B.", importance=HIGH)
    group.number("c", 0, "C.", order=7)
    group.ignored("d", 0)
    assert [(key.name, key.group, key.order) for key in group] == [
        ("a", "Writing", 3),
        ("b", "Writing", 4),
        ("c", "Writing", 7),
        ("d", "Writing", 8),
    ]
    assert [key.importance for key in group] == [LOW, HIGH, LOW, LOW]


@pytest.mark.parametrize(
    ("group", "place"),
    [(Group("TLS", numbered=False), ("TLS", -1)), (Group(importance=LOW), (None, -1))],
)
def test_settings_without_numbers_leave_their_order_to_the_interface(
    group: Group, place: tuple[str | None, int]
) -> None:
    key = group.text("a", "", "A.")
    assert (key.group, key.order) == place
    assert list(group) == [key]


@pytest.mark.parametrize(("default", "good", "bad"), [(False, "false", "true"), ("", "", "x")])
def test_a_refused_setting_accepts_only_its_default(
    default: str | bool, good: str, bad: str
) -> None:
    key = declare.refused("s", default, "Not supported.", "there is none here; remove it")
    definition = ConfigDef(key)
    assert [value.errors for value in definition.validate({"s": good})] == [()]
    assert [value.errors for value in definition.validate({"s": bad})] == [
        (f"Invalid value {bad} for configuration s: there is none here; remove it",)
    ]


def test_plugins_have_the_whole_vocabulary() -> None:
    functions = [
        name for name, value in vars(declare).items() if callable(value) and name.islower()
    ]
    own = {name for name in functions if getattr(declare, name).__module__ == declare.__name__}
    assert {name for name in own if not name.startswith("_")} <= set(api.__all__)

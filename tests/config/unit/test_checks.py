from __future__ import annotations

import pytest

from penstock.config import checks
from penstock.config.define import INT, Check, ConfigDef, Key

OK = None
PREFIX = "Invalid value {} for configuration k: "

# check, value, value as shown, message (after the prefix where `shown` is not None)
CASES: list[tuple[Check, object, str | None, str | None]] = [
    (checks.at_least(1), 1, None, OK),
    (checks.at_least(1), 0, "0", "Value must be at least 1"),
    (checks.at_least(1), None, "null", "Value must be non-null"),
    (checks.at_most(9), 10, "10", "Value must be no more than 9"),
    (checks.between(0.0, 0.25), 0.3, "0.3", "Value must be no more than 0.25"),
    (checks.between(0.5, 1.0), 0.0, "0.0", "Value must be at least 0.5"),
    (checks.one_of("none", "all"), "all", None, OK),
    (checks.one_of("none", "all"), "ALL", "ALL", "String must be one of: none, all"),
    (checks.one_of("none", "all"), None, "null", "String must be one of: none, all"),
    (checks.one_of("A", "B", ignore_case=True), "b", None, OK),
    (
        checks.one_of("A", "B", ignore_case=True),
        "c",
        "c",
        "String must be one of (case insensitive): A, B",
    ),
    (
        checks.one_of("A", "B", ignore_case=True),
        None,
        "null",
        "String must be one of (case insensitive): A, B",
    ),
    (checks.non_null(), None, "null", "entry must be non null"),
    (checks.non_null(), (), None, OK),
    (checks.non_empty(), "", "", "String must be non-empty"),
    (checks.non_empty(), None, None, OK),
    (checks.non_empty_list(), (), "[]", "Empty list"),
    (checks.non_empty_list(), None, "null", "Empty list"),
    (checks.non_empty_list(), ("",), None, OK),
    (checks.connector_name(), "a/b c.ü", None, OK),
    (checks.connector_name(), None, None, OK),
    (checks.connector_name(), "", "", "String may not be empty"),
    (
        checks.connector_name(),
        "a\bb\x1b\x7f\x85\xa0",
        "a\bb\x1b\x7f\x85\xa0",
        "String may not contain control sequences but had the following ASCII chars:"
        " 8, 27, 127, 133",
    ),
    (checks.unique_aliases("x"), ("a", "b"), None, OK),
    (checks.unique_aliases("x"), ("a", "a"), "[a, a]", "Duplicate alias provided."),
    (checks.unique_aliases("x"), None, "null", "entry must be non null"),
    (checks.valid_regex(), "a.*", None, OK),
    (
        checks.valid_regex(),
        "a**",
        "a**",
        "Invalid regex: Dangling meta character '*' near index 2\na**\n  ^",
    ),
    (checks.valid_regexes("r"), ("a", "b+"), None, OK),
    (
        checks.valid_regexes("r"),
        ("a", "["),
        "[a, []",
        "Syntax error in regular expression: Unclosed character class near index 0\n[\n^",
    ),
    (checks.broker_default_or_positive_partitions(), -1, None, OK),
    (
        checks.broker_default_or_positive_partitions(),
        0,
        "0",
        "Number of partitions must be positive, or -1 to use the broker's default",
    ),
    (
        checks.broker_default_or_positive_replication(),
        -2,
        "-2",
        "Replication factor must be positive and not larger than the number of brokers in the"
        " Kafka cluster, or -1 to use the broker's default",
    ),
    (checks.unless_none(checks.at_least(1)), None, None, OK),
    (checks.all_of(checks.non_null(), checks.at_least(1)), None, "null", "entry must be non null"),
    (checks.all_of(checks.at_least(1), checks.at_most(2)), 3, "3", "Value must be no more than 2"),
    (checks.checking("even", lambda n: "odd" if n % 2 else None), 3, "3", "odd"),
    # Complete messages, without the prefix.
    (checks.entries(), ("a", "b"), None, OK),
    (checks.entries(), (), None, OK),
    (checks.entries(), None, None, "Configuration 'k' values must not be null."),
    (checks.entries(), ("a", "a"), None, "Configuration 'k' values must not be duplicated."),
    (checks.entries(may_repeat=True), ("a", "a"), None, OK),
    (checks.entries(), ("a", ""), None, "Configuration 'k' values must not be empty."),
    (
        checks.entries(may_be_empty=False),
        (),
        None,
        "Configuration 'k' must not be empty. Valid values include: any non-empty value",
    ),
    (
        checks.entries("a", "b", may_be_empty=False),
        (),
        None,
        "Configuration 'k' must not be empty. Valid values include: a, b",
    ),
    (checks.entries("a", "b"), ("c",), "c", "String must be one of: a, b"),
    (checks.version_range(), "1.2", None, OK),
    (checks.version_range(), "[1.0,2.0)", None, OK),
    (checks.version_range(), "[1,2),[3,)", None, OK),
    (checks.version_range(), "(,1.5]", None, OK),
    (checks.version_range(), None, None, OK),
    (checks.version_range(), "[1.2", None, "Unbounded range: [1.2"),
    (checks.version_range(), "(1.2)", None, "Single version must be surrounded by []: (1.2)"),
    (checks.version_range(), "(1,1)", None, "Range cannot have identical boundaries: (1,1)"),
    (
        checks.version_range(),
        "[1,2],3",
        None,
        "Only fully-qualified sets allowed in multiple set scenario: [1,2],3",
    ),
]


@pytest.mark.parametrize(("check", "value", "shown", "text"), CASES)
def test_a_check_says_what_kafkas_validator_says(
    check: Check, value: object, shown: str | None, text: str | None
) -> None:
    expected = text if shown is None else PREFIX.format(shown) + (text or "")
    assert check.problem("k", value) == expected


@pytest.mark.parametrize(
    ("check", "description"),
    [
        (checks.at_least(1), "[1,...]"),
        (checks.at_most(9), "[...,9]"),
        (checks.between(0, 1), "[0,...,1]"),
        (checks.between(0.5, 1.0), "[0.5,...,1.0]"),
        (checks.one_of("a", "b"), "[a, b]"),
        (checks.one_of("A", "B", ignore_case=True), "(case insensitive) [A, B]"),
        (checks.non_empty(), "non-empty string"),
        (checks.connector_name(), "non-empty string without ISO control characters"),
        (
            checks.unique_aliases("transformation aliases"),
            "non-null string, unique transformation aliases",
        ),
        (checks.valid_regex(), "valid regex"),
        (checks.described(checks.at_least(0), "anything"), "anything"),
        (checks.unless_none(checks.at_least(0)), "[0,...]"),
        (checks.entries("a"), "[a]"),
        (checks.entries(), ""),
    ],
)
def test_a_check_describes_itself(check: Check, description: str) -> None:
    assert str(check) == description


def test_a_described_check_still_checks() -> None:
    assert checks.described(checks.at_least(0), "x").problem("k", -1) is not None


def test_checks_of_the_same_limits_are_equal() -> None:
    assert checks.at_least(1) == checks.at_least(1)
    assert ConfigDef(Key("k", INT, 1, check=checks.at_least(1))) == ConfigDef(
        Key("k", INT, 1, check=checks.at_least(1))
    )

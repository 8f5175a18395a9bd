"""Versions in the order of Maven."""

from __future__ import annotations

import itertools

import pytest

from penstock.config.versions import Version

# As org.apache.maven.artifact.versioning.ComparableVersion 3.9.6 orders them, which Kafka Connect
# 4.2.0 ships; versions on one line are equal.
ASCENDING = """
0
0.1.0
1.0-alpha-1 1.0a1
1.0-beta-2 1.0.beta2
1.0-m3 1.0-milestone-3
1.0-rc1 1.0-cr1 1-rc-1 1.0.rc1
1.0-SNAPSHOT
1 1.0 1.0.0 1.0-ga 1.0.Final
1.0-sp 1-sp
1.0-bar
1.0-foo 1.0.foo
1.0-1
1.0.1
1.2.3
1.2.3-ccs
1.2.3-4
1.2.3.4
1.9
1.10
2.0-rc-2
2
4.2.0
10.0
""".split("\n")[1:-1]

PAIRS = list(itertools.combinations(range(len(ASCENDING)), 2))


@pytest.mark.parametrize("line", [line for line in ASCENDING if " " in line])
def test_versions_that_mean_the_same_are_equal(line: str) -> None:
    versions = {Version(text) for text in line.split()}
    assert len(versions) == 1


def test_versions_are_ordered_as_by_maven() -> None:
    for lower, higher in PAIRS:
        for one in ASCENDING[lower].split():
            for other in ASCENDING[higher].split():
                assert Version(one) < Version(other), f"{one} < {other}"
                assert Version(other) > Version(one), f"{other} > {one}"


@pytest.mark.parametrize("text", ["", "undefined", "1..2", "-1", "1.-2", "1_0", "1.0+local"])
def test_any_text_is_a_version(text: str) -> None:
    assert Version(text) == Version(text)
    assert not Version(text) < Version(text)

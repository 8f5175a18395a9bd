"""The settings of the host of Java plugins."""

from __future__ import annotations

import pytest

from penstock.config import java_host
from penstock.config.java_host import HOST, wants_java


@pytest.mark.parametrize("text", ["1g", "512m", "65536K"])
def test_a_heap_is_a_size_of_java(text: str) -> None:
    assert HOST.parse({"penstock.java.heap": text})[java_host.HEAP] == text


@pytest.mark.parametrize("text", ["", "1", "0m", "1 g", "1gb", "-1g", "1g -Xms1g"])
def test_another_heap_is_refused_by_name(text: str) -> None:
    [heap, _] = HOST.validate({"penstock.java.heap": text})
    assert "penstock.java.heap" in heap.errors[0]


def test_options_are_quoted_as_in_a_shell() -> None:
    [_, options] = HOST.validate({"penstock.java.options": "-Da='b"})
    assert options.errors == (
        "Invalid value -Da='b for configuration penstock.java.options: No closing quotation",
    )


def test_only_true_asks_for_the_java_plugin() -> None:
    texts = ("true", " True", "false", "1", "", None)
    wants = [wants_java({"penstock.java.plugin": text}) for text in texts]
    assert wants == [True, True, False, False, False, False]
    assert not wants_java({})

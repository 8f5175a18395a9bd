"""The examples in the documentation of the command's parts."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["clusters", "rest", "show"])
def test_the_examples_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"penstock.cli.{name}"))
    assert result.attempted > 0
    assert result.failed == 0

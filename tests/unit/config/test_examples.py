from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = ["define", "checks", "regex", "properties", "worker", "connector", "render"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docs_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"penstock.config.{name}"))
    assert result.attempted > 0
    assert result.failed == 0

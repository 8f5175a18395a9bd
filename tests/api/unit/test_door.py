"""`penstock.api` is all that plugins import."""

from __future__ import annotations

import importlib

import pytest

from penstock import api
from penstock.errors import PenstockError

DOORS = ("penstock.api", "penstock.api.settings", "penstock.api.schema", "penstock.api.avro")


@pytest.mark.parametrize("door", DOORS)
def test_every_name_is_there_once(door: str) -> None:
    module = importlib.import_module(door)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_every_common_error_is_exported() -> None:
    common = {each.__name__ for each in PenstockError.__subclasses__()
              if each.__module__ == PenstockError.__module__}  # fmt: skip
    assert common <= set(api.__all__)

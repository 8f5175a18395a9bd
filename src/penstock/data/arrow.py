"""Arrow without pandas: forty megabytes less for every process that never asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import pyarrow as pa


def keep_pandas_out() -> None:
    """Has pyarrow look for pandas now, and not find it.

    Otherwise it imports pandas with the first array it makes of a list, only to see whether that is
    a Series. What needs pandas, such as `to_pandas`, or a plugin, imports it later all the same.
    Does nothing where pandas is imported already.
    """
    with no_pandas():
        pa.array([None])


@contextmanager
def no_pandas() -> Iterator[None]:
    """Meanwhile there is no pandas to be imported, if it is not imported already."""
    if "pandas" in sys.modules:
        yield
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _NoPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

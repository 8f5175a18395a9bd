"""Arrow without pandas, which saves 40 MB in a process that does not need it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import pyarrow as pa


def keep_pandas_out() -> None:
    """Makes pyarrow look for pandas now, without success.

    Otherwise pyarrow imports pandas with the first array from a list, to see whether it is a
    Series. `to_pandas` and plugins can still import pandas later. Does nothing if pandas has been
    imported.
    """
    with no_pandas():
        pa.array([None])


@contextmanager
def no_pandas() -> Iterator[None]:
    """Makes imports of pandas fail, unless it has been imported."""
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

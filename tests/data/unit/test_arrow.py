"""Arrow without pandas, in a separate process."""

from __future__ import annotations

import subprocess
import sys

LOOK = """
import sys
from penstock.data.arrow import keep_pandas_out
keep_pandas_out()
import pyarrow as pa
import penstock.flow.stage.host
assert pa.array(["a", None]).to_pylist() == ["a", None]
assert "pandas" not in sys.modules, "something has imported pandas"
assert pa.table({"n": [1, 2]}).to_pandas()["n"].tolist() == [1, 2]
import pandas
assert pandas.Series([1]).sum() == 1
"""


def test_pandas_is_imported_by_who_asks_for_it_and_not_before() -> None:
    subprocess.run([sys.executable, "-c", LOOK], check=True, timeout=120)

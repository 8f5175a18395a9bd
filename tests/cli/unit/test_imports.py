"""What the command and a worker import: each costs time at every start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

COMMAND = ("import penstock.cli",)
WORKER = (
    *COMMAND,
    "from penstock.data import arrow; arrow.keep_pandas_out()",
    "import penstock.cli.start",
    "from penstock.plugins import path; path.registry({})",
)


@pytest.mark.parametrize(
    ("lines", "unwanted"),
    [
        (COMMAND, {"pandas", "pyarrow", "numpy", "kafka", "pyspark", "starlette", "pymongo"}),
        (WORKER, {"pandas", "boto3", "cassandra", "aiohttp", "jpype", "azure", "opensearchpy"}),
    ],
    ids=["command", "worker"],
)
def test_nothing_is_imported_before_it_is_needed(lines: Sequence[str], unwanted: set[str]) -> None:
    script = "\n".join([*lines, "import json, sys", "print(json.dumps(sorted(sys.modules)))"])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert unwanted & set(json.loads(done.stdout)) == set()

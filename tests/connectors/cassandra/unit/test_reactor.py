"""The driver's event loop, with and without libev and asyncore."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
from penstock.connectors.cassandra.client.reactor import connection_class
found = [connection_class(encrypts=each).__name__ for each in (False, True)]
from cassandra.cluster import Cluster
print(*found)
"""


@pytest.mark.parametrize(
    ("missing", "printed"),
    [
        ([], "LibevConnection LibevConnection"),
        (["cassandra.io.libevwrapper"], "AsyncioConnection EncryptingConnection"),
        (
            ["cassandra.io.libevwrapper", "asyncore"],
            "AsyncioConnection EncryptingConnection",
        ),
    ],
)
def test_libev_is_used_or_else_asyncio(missing: list[str], printed: str) -> None:
    program = PROGRAM.format(missing=missing)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == printed, done.stderr

"""Removes from installed packages what no worker uses: `slim.py SITE_PACKAGES`.

It prints what it has removed, and fails where a pattern matches nothing: then a package has
changed, and the list has to.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

UNUSED: Final = {
    "Spark's machine learning and graphs": (
        "pyspark/jars/spark-mllib_*.jar",
        "pyspark/jars/breeze*.jar",
        "pyspark/jars/spire*.jar",
        "pyspark/jars/cats-kernel*.jar",
        "pyspark/jars/algebra_*.jar",
    ),
    "Spark on Kubernetes: workers run in pods, not their executors": (
        "pyspark/jars/kubernetes-*.jar",
        "pyspark/jars/spark-kubernetes_*.jar",
    ),
    "Hive's metastore": (
        "pyspark/jars/hive-metastore-*.jar",
        "pyspark/jars/spark-hive*.jar",
        "pyspark/jars/datanucleus-*.jar",
        "pyspark/jars/derby-*.jar",
    ),
    "Spark Connect's server: workers use Spark itself": ("pyspark/jars/spark-connect_*.jar",),
    "a state store of streaming queries": ("pyspark/jars/rocksdbjni-*.jar",),
    "Arrow over the network": (
        "pyarrow/libarrow_flight.so*",
        "pyarrow/libarrow_python_flight.so*",
        "pyarrow/_flight.*",
    ),
    "tests of packages": (
        "pandas/tests",
        "numpy/**/tests",
        "pyarrow/tests",
    ),
    "Amazon's services": ("botocore/data/*/",),
    "headers for programs that are compiled": ("pyarrow/include", "numpy/_core/include"),
}
KEPT: Final = frozenset(
    f"botocore/data/{service}" for service in ("s3", "signin", "sso", "sso-oidc", "sts")
)
"""What stays of it: the store, and where its credentials are from."""


def slim(packages: Path) -> int:
    """Removes it; the bytes that this freed. Raises SystemExit where a pattern matches nothing."""
    freed = 0
    for purpose, patterns in UNUSED.items():
        for pattern in patterns:
            matches = sorted(packages.glob(pattern))
            found = [path for path in matches if str(path.relative_to(packages)) not in KEPT]
            if not found:
                raise SystemExit(f"slim.py: {pattern} matches nothing in {packages} ({purpose})")
            for path in found:
                if not path.exists():
                    continue  # in a folder that is gone
                freed += _size(path)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    return freed


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if not file.is_dir())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.stdout.write(f"removed {slim(Path(sys.argv[1])) >> 20} MB\n")

"""Spark's Python daemon, which imports what every stage needs before it forks.

Spark runs this module instead of its own (`spark.python.daemon.module`); each Python worker is a
fork of it, so it starts with these modules, in shared memory. On a cluster it is the first of our
code that an executor runs, so missing packages show here.
"""

import io
import json
import os
import sys
from pathlib import Path


def _is_installed(entry: str) -> bool:
    """Whether an entry of `sys.path` is an archive of a PySpark that is also installed unpacked,
    with compiled modules: every Python worker would compile the archive's modules again."""
    archive = Path(entry)
    package = archive.parent.parent.parent  # pyspark/python/lib/pyspark.zip
    unpacked = (package / "__init__.py").exists() and str(package.parent) in sys.path
    return archive.suffix == ".zip" and package.name == "pyspark" and unpacked


for _entry in [_entry for _entry in sys.path if _is_installed(_entry)]:
    sys.path.remove(_entry)
    sys.path_importer_cache.pop(_entry, None)

import pyspark.daemon  # noqa: E402

try:
    import pyspark.worker

    from penstock.data import arrow
    from penstock.host import logs

    arrow.keep_pandas_out()
    import penstock.flow.stage.host  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}. The Python of this executor, {sys.executable} (version "
        f"{'.'.join(map(str, sys.version_info[:3]))}), lacks the packages that penstock depends "
        "on; give executors one that has them (spark.archives and spark.pyspark.python, see "
        "docs/spark-cluster.md).",
        name=error.name,
    ) from None

# What the worker's `plugin.path` holds, where the worker has it (`plugin_path`).
sys.path += json.loads(os.environ.get("PENSTOCK_PLUGIN_ROOTS", "[]"))

# Not the worker's `spark.buffer.size`, which makes the JVM send every frame at once.
os.environ["SPARK_BUFFER_SIZE"] = str(io.DEFAULT_BUFFER_SIZE)

if __name__ == "__main__":
    logs.log_to_stderr(logs.LogSettings.of(os.environ))  # into the worker's log, when it is local
    pyspark.daemon.manager()

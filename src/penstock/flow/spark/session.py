"""The worker's one SparkSession: started in the background, warmed up, stopped at the end.

By default it is local, its executors threads of the driver's JVM. What a cluster needs on top is in
`remote`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.config.properties import render_properties
from penstock.data.arrow import no_pandas
from penstock.errors import PenstockError, StartupFailed
from penstock.flow.spark import classes, java, remote, scratch
from penstock.host import jars
from penstock.plugins.path import ROOTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SLOTS: Final = 64
"""Spark tasks that a local session runs at once: every slot is one for as long as it lives."""

_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.master": f"local[{SLOTS}]",
    "spark.app.name": "penstock",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "false",
    "spark.driver.memory": "1g",
    "spark.python.daemon.module": "penstock.flow.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.python.authenticate.socketTimeout": "60s",  # 15 s are not enough for a busy machine
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # A slot's row is a frame, and goes to Python at once (docs/architecture.md).
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.pandas.udf.buffer.size": "16",
    # A task's plan holds its clients' passwords, and travels as an option of its reader.
    "spark.sql.redaction.options.regex": "(?i)url|jaas|^plan$",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
}

_OPTIONS: Final = "spark.driver.extraJavaOptions"
_MEMORY: Final = "-XX:+UseSerialGC -XX:NewRatio=1 -Xms64m -Xss4m"
"""Half of the heap for what is young: a chunk of records is all garbage."""

_NO_C2: Final = "-XX:TieredStopAtLevel=1"
"""Java's optimizing compiler, and counting for it, take more of both cores than all that they make
faster; but for ciphers, which are fifty times as slow without (docs/performance.md)."""

_TEMPORARY: Final = "java.io.tmpdir"

_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

_SOCKETS: Final = "spark.python.unix.domain.socket"
_LONGEST: Final = 61  # of their folder's name: Spark's limit, for a socket has no more than 104

_LOGGING: Final = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
_SECRET: Final = re.compile("(?i)secret|password|token|access[.]?key|jaas")


class SessionAborted(PenstockError):
    """Spark was still starting when the worker was told to end."""

    code = "spark.aborted"


class Session:
    """The SparkSession, once it is there. `get` waits for it; `ready` tells without waiting."""

    def __init__(
        self,
        settings: Mapping[str, str],
        say: Callable[[str], None],
        roots: Sequence[str] = (),
        *,
        encrypted: bool = False,
    ) -> None:
        self._settings = settings
        self._say = say
        self._roots = roots
        self._encrypted = encrypted
        self._there = threading.Event()
        self._spark: SparkSession | None = None
        self._error: BaseException | None = None
        self._aborted = False

    @property
    def ready(self) -> bool:
        return self._there.is_set() and self._spark is not None

    def start(self) -> None:
        """Starts Spark; blocks. Whoever waits in `get` gets the error, if any."""
        try:
            self._spark = start(self._settings, self._say, self._roots, encrypted=self._encrypted)
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._there.set()

    def abort(self) -> None:
        """Nobody is to wait for Spark any more: `get` raises SessionAborted if it is not there."""
        self._aborted = True
        self._there.set()

    def get(self, timeout_s: float = 180) -> SparkSession:
        if not self._there.wait(timeout_s):
            raise StartupFailed(f"Spark did not start within {timeout_s:.0f} s.")
        if self._spark is None and self._aborted:
            raise SessionAborted("Spark is not started any more: the worker ends.")
        if self._spark is None:
            raise StartupFailed(f"Spark did not start: {self._error}") from self._error
        return self._spark

    def await_jvm(self) -> None:
        """Returns when the JVM has ended; at once when Spark is not there."""
        process = self._process()
        if process is not None:
            process.wait()

    @property
    def exit_code(self) -> int | None:
        """That of the JVM, when it has ended."""
        return getattr(self._process(), "returncode", None)

    def _process(self) -> Any:
        gateway = None if self._spark is None else self._spark.sparkContext._gateway
        return getattr(gateway, "proc", None)

    def stop(self, timeout_s: float = 10) -> None:
        """Stops Spark and its JVM, if they run; waits for its end for so long."""
        if self._spark is None:
            scratch.release()
            return
        gateway, process = self._spark.sparkContext._gateway, self._process()
        with contextlib.suppress(Exception):  # a JVM that is gone already is stopped
            self._spark.stop()
        assert gateway is not None
        with contextlib.suppress(Exception):
            gateway.shutdown()
        if process is not None:
            process.stdin.close()
            with contextlib.suppress(Exception):
                process.wait(timeout_s)
        scratch.release()


def start(
    settings: Mapping[str, str],
    say: Callable[[str], None] = lambda text: None,
    roots: Sequence[str] = (),
    *,
    encrypted: bool = False,
) -> SparkSession:
    """A new session with our defaults and the user's `spark.*` settings over them. What can be
    imported from `roots`, Python workers can import, too (`plugin_path`). `encrypted` says whether
    the JVM will read Kafka over TLS.

    Blocks for seconds. Raises StartupFailed when Java is missing or too old, a setting is refused,
    the master of a cluster does not answer, or Spark does not start.
    """
    remote.refuse(settings)
    java = jars.java()
    archives = sorted(jars.folder("spark", say).glob("*.jar"))
    scratch.claim()
    os.environ.setdefault("JAVA_HOME", str(Path(java).resolve().parent.parent))
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    effective = {**_DEFAULTS, **settings}
    master = effective["spark.master"]
    folder: Path | None = None
    if remote.is_remote(master):
        folder = scratch.claim() / "driver"
        effective, python = remote.settings_for(master, effective, folder, roots)
    else:
        effective, python = {**_LOCAL, **sockets(scratch.claim()), **effective}, sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if roots:
            effective[f"spark.executorEnv.{ROOTS}"] = json.dumps(roots)
    os.environ["PYSPARK_PYTHON"] = python  # or executors pick another one
    effective["spark.jars"] = ",".join(
        [*map(str, archives), *filter(None, [effective.get("spark.jars")])]
    )
    effective[_OPTIONS] = " ".join(
        [
            java_options(settings.get(_OPTIONS), encrypted=encrypted),
            *temporary(settings.get(_OPTIONS), os.environ.get("TMPDIR")),
            *([] if _OPTIONS in settings else classes.options(java)),
        ]
    )
    if folder is None:  # else Spark unpacks the executors' archives there, which are no small thing
        effective.setdefault("spark.local.dir", str(scratch.claim() / "spark"))
    effective.setdefault("spark.sql.warehouse.dir", str(scratch.claim() / "warehouse"))
    return _session(effective, folder)


def java_options(given: str | None, *, encrypted: bool) -> str:
    """The options of the driver's JVM: the user's, if any, or ours, and how it logs."""
    options = (_MEMORY if encrypted else f"{_MEMORY} {_NO_C2}") if given is None else given
    return options if "log4j2.configurationFile" in options else f"{options} {_LOGGING}"


def archiving_options(path: Path) -> dict[str, str]:
    """Settings with which the JVM writes an archive of its classes when it ends."""
    dump = f"-XX:ArchiveClassesAtExit={shlex.quote(str(path))} -Xlog:disable"
    return {_OPTIONS: f"{java_options(None, encrypted=False)} {dump}"}


def temporary(given: str | None, folder: str | None) -> list[str]:
    """The option that has the JVM put its temporary files where all other programs put them, unless
    the user's options say where; Java does not read `TMPDIR` itself."""
    if not folder or _TEMPORARY in (given or ""):
        return []
    return [shlex.quote(f"-D{_TEMPORARY}={folder}")]


def sockets(folder: Path) -> dict[str, str]:
    """Settings that have the JVM and Python talk through local sockets in the private `folder`;
    none if its name is too long for that. What Spark sends by TCP it sends in pieces, of which the
    second waits until the first is acknowledged: 40 ms for every batch."""
    if len(str(folder)) > _LONGEST:
        return {}
    return {f"{_SOCKETS}.enabled": "true", f"{_SOCKETS}.dir": str(folder)}


def _session(settings: Mapping[str, str], folder: Path | None) -> SparkSession:
    """A session in a JVM of its own, which runs in `folder` when it is on a cluster."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from penstock.flow.spark.executors import WatchedContext, watch

    secret = {name: value for name, value in settings.items() if _SECRET.search(name)}
    told = SparkConf(loadDefaults=False)
    told.setAll([(name, value) for name, value in settings.items() if name not in secret])
    try:
        with no_pandas():  # PySpark imports it, if it is there, for its own tests
            with _kept_from_others(secret):
                gateway = launch_gateway(told, {"cwd": folder})  # type: ignore[no-untyped-call]
            conf = SparkConf().setAll(list(settings.items()))
            kind = SparkContext if folder is None else WatchedContext
            context = kind(conf=conf, gateway=gateway)
            session = SparkSession.builder.getOrCreate()
            java.prepare(session, scratch.claim() / "java")
    except Exception as error:  # py4j and PySpark raise what they like here
        raise StartupFailed(
            f"Spark did not start with spark.master={settings['spark.master']}: {error}"
        ) from error
    if isinstance(context, WatchedContext):
        watch(session, context)
    return session


@contextlib.contextmanager
def _kept_from_others(secret: Mapping[str, str]) -> Iterator[None]:
    """Settings for a JVM that is started meanwhile: others on this machine see its command line,
    but not this file."""
    if not secret:
        yield
        return
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with tempfile.NamedTemporaryFile(suffix=".properties") as file:  # for its owner only
        file.write(render_properties(dict(secret)))
        file.flush()
        # Without the first, the file would take the place of conf/spark-defaults.conf.
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            f"--load-spark-defaults --properties-file {shlex.quote(file.name)} "
            f"{before or 'pyspark-shell'}"
        )
        try:
            yield
        finally:
            if before is None:
                del os.environ["PYSPARK_SUBMIT_ARGS"]
            else:
                os.environ["PYSPARK_SUBMIT_ARGS"] = before

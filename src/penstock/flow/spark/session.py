"""The worker's one SparkContext: started in the background, stopped at the end.

By default it is local, its executors threads of the driver's JVM. `remote` adds what a cluster
needs.
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
from penstock.flow.spark import java, remote, scratch
from penstock.flow.traces import message_of
from penstock.host import class_archive, jars
from penstock.plugins.path import ROOTS

if TYPE_CHECKING:
    from pyspark import SparkContext


SLOTS: Final = 64
"""Spark tasks that a local session runs at once: every slot is one, for its whole life."""

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
    # The smallest frame is larger, and goes to Python at once (docs/architecture.md).
    "spark.buffer.size": "16",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
}

_OPTIONS: Final = "spark.driver.extraJavaOptions"
_MEMORY: Final = "-XX:+UseSerialGC -XX:NewRatio=1 -Xms64m -Xss4m"
"""Half of the heap for young objects: a chunk of records is all garbage."""

_NO_C2: Final = "-XX:TieredStopAtLevel=1"
"""Java's optimizing compiler and its profiling cost more processor time than they save, except for
ciphers, which are fifty times as slow without it (docs/performance.md)."""

_BRIEF: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For the JVM that only prints the command line of the driver's: half of its CPU time."""

_TEMPORARY: Final = "java.io.tmpdir"
_CLASS_PATH: Final = "spark.driver.extraClassPath"

_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

_SOCKETS: Final = "spark.python.unix.domain.socket"
_LONGEST: Final = 61  # of their folder's name: Spark's limit, as a socket's is at most 104

_LOGGING: Final = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
_SECRET: Final = re.compile("(?i)secret|password|token|access[.]?key|jaas")


class SessionAborted(PenstockError):
    """Spark was still starting when the worker ended."""


class Session:
    """The SparkContext. `get` waits until it has started; `ready` does not wait."""

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
        self._settled = threading.Event()
        self._spark: SparkContext | None = None
        self._error: BaseException | None = None
        self._aborted = False

    @property
    def ready(self) -> bool:
        return self._settled.is_set() and self._spark is not None

    def start(self) -> None:
        """Starts Spark; blocks. Callers that wait in `get` get the error, if any."""
        try:
            self._spark = start(self._settings, self._say, self._roots, encrypted=self._encrypted)
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._settled.set()

    def abort(self) -> None:
        """Unblocks waiting callers: `get` raises SessionAborted if Spark has not started."""
        self._aborted = True
        self._settled.set()

    def get(self, timeout_s: float = 180) -> SparkContext:
        if not self._settled.wait(timeout_s):
            raise StartupFailed(f"Spark did not start within {timeout_s:.0f} s.")
        if self._spark is None and self._aborted:
            raise SessionAborted("Spark was not started, because the worker is stopping.")
        if self._spark is None:
            raise StartupFailed(f"Spark did not start: {self._error}") from self._error
        return self._spark

    def await_jvm(self) -> None:
        """Returns when the JVM has ended; at once if Spark has not started."""
        process = self._process()
        if process is not None:
            process.wait()

    @property
    def exit_code(self) -> int | None:
        """The JVM's exit code, once it has ended."""
        return getattr(self._process(), "returncode", None)

    def _process(self) -> Any:
        gateway = None if self._spark is None else self._spark._gateway
        return getattr(gateway, "proc", None)

    def stop(self, timeout_s: float = 10) -> None:
        """Stops Spark and its JVM, if they run; waits at most `timeout_s` for its end."""
        if self._spark is None:
            scratch.release()
            return
        gateway, process = self._spark._gateway, self._process()
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
) -> SparkContext:
    """A new context with our defaults, overridden by the user's `spark.*` settings. Python workers
    can import from `roots` (`plugin_path`). `encrypted`: the JVM will read Kafka over TLS.

    Blocks for seconds. Raises StartupFailed when Java is missing or too old, a setting is refused,
    the master of a cluster does not answer, or Spark does not start.
    """
    remote.refuse(settings)
    program = jars.java()
    classes = class_path(say)
    scratch.claim()
    os.environ.setdefault("JAVA_HOME", str(Path(program).resolve().parent.parent))
    os.environ.setdefault("SPARK_HOME", str(jars.pyspark_jars()[0].parent.parent))
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _BRIEF)
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
    # In Java's own class path, which class archives cover; executors on a cluster fetch them.
    effective[_CLASS_PATH] = _listed(os.pathsep, classes, effective.get(_CLASS_PATH))
    if folder is not None:
        effective["spark.jars"] = _listed(",", classes, effective.get("spark.jars"))
    effective[_OPTIONS] = " ".join(
        [
            java_options(settings.get(_OPTIONS), encrypted=encrypted),
            *temporary(settings.get(_OPTIONS), os.environ.get("TMPDIR")),
            *([] if _OPTIONS in settings else _archive(program, classes)),
        ]
    )
    if folder is None:  # otherwise Spark unpacks the executors' archives there, and these are large
        effective.setdefault("spark.local.dir", str(scratch.claim() / "spark"))
    return _context(effective, folder)


def class_path(say: Callable[[str], None]) -> list[Path]:
    """The jars that the driver's JVM needs besides PySpark's."""
    return [*sorted(jars.folder("spark", say).glob("*.jar")), *java.compiled()]


def _listed(separator: str, ours: Sequence[Path], theirs: str | None) -> str:
    return separator.join([*map(str, ours), *filter(None, [theirs])])


def java_options(user_options: str | None, *, encrypted: bool) -> str:
    """The options of the driver's JVM: the user's, if any, or ours, and its logging."""
    own = _MEMORY if encrypted else f"{_MEMORY} {_NO_C2}"
    options = own if user_options is None else user_options
    return options if "log4j2.configurationFile" in options else f"{options} {_LOGGING}"


def archiving_settings(path: Path) -> dict[str, str]:
    """Settings with which the JVM writes an archive of its classes when it ends."""
    dump = shlex.join(class_archive.writing_options(path))
    return {_OPTIONS: f"{java_options(None, encrypted=False)} {dump}"}


def _archive(program: str, classes: Sequence[Path]) -> list[str]:
    options = class_archive.options("spark", program, [*jars.pyspark_jars(), *classes])
    return [shlex.quote(option) for option in options]


def temporary(user_options: str | None, folder: str | None) -> list[str]:
    """The option for the JVM's temporary files, unless the user's options set it; Java does not
    read `TMPDIR` itself."""
    if not folder or _TEMPORARY in (user_options or ""):
        return []
    return [shlex.quote(f"-D{_TEMPORARY}={folder}")]


def sockets(folder: Path) -> dict[str, str]:
    """Settings that connect the JVM and Python through local sockets in the private `folder`; none
    if its name is too long. Over TCP Spark sends in pieces, of which the second waits until the
    first is acknowledged: 40 ms for every batch."""
    if len(str(folder)) > _LONGEST:
        return {}
    return {f"{_SOCKETS}.enabled": "true", f"{_SOCKETS}.dir": str(folder)}


def _context(settings: Mapping[str, str], folder: Path | None) -> SparkContext:
    """A context in a separate JVM, which runs in `folder` when executors are on a cluster."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    from penstock.flow.spark.executors import WatchedContext, watch

    secret = {name: value for name, value in settings.items() if _SECRET.search(name)}
    launch_conf = SparkConf(loadDefaults=False)
    launch_conf.setAll([(name, value) for name, value in settings.items() if name not in secret])
    try:
        with no_pandas():  # PySpark imports it, if installed, for its own tests
            with _kept_from_others(secret):
                options = {"cwd": folder}
                gateway = launch_gateway(launch_conf, options)  # type: ignore[no-untyped-call]
            conf = SparkConf().setAll(list(settings.items()))
            kind = SparkContext if folder is None else WatchedContext
            context = kind(conf=conf, gateway=gateway)
            java.prepare(context, scratch.claim() / "java")
    except Exception as error:  # py4j and PySpark raise many types here
        raise StartupFailed(
            f"Spark did not start with spark.master={settings['spark.master']}: {message_of(error)}"
        ) from error
    if isinstance(context, WatchedContext):
        watch(context)
    return context


@contextlib.contextmanager
def _kept_from_others(secret: Mapping[str, str]) -> Iterator[None]:
    """Passes secret settings in a file to a JVM started in the block: other users of this machine
    see its command line, but not the file."""
    if not secret:
        yield
        return
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with tempfile.NamedTemporaryFile(suffix=".properties") as file:  # for its owner only
        file.write(render_properties(dict(secret)))
        file.flush()
        # Without the first, the file would replace conf/spark-defaults.conf.
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

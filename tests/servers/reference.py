"""The real Kafka Connect as a process, to compare penstock with.

It is configured and started as its own scripts do, with the FileStream connectors in a plugin
folder (since 3.2 they are not on the class path, kafka-connect.md §11).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.host import jars
from penstock.testing.processes import STOP_S, WorkerProcess
from penstock.testing.waiting import wait_until

MAIN_CLASS: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
STANDALONE: Final = "org.apache.kafka.connect.cli.ConnectStandalone"
HEAP: Final = "-Xms256M -Xmx2G"
"""The default of `connect-distributed.sh` for KAFKA_HEAP_OPTS."""

PERFORMANCE: Final = (
    "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 -Djava.awt.headless=true"
)
"""The default of `kafka-run-class.sh` for KAFKA_JVM_PERFORMANCE_OPTS."""

_FILE_CONNECTORS: Final = "connect-file-"

_LOG4J: Final = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


class ReferenceWorker(WorkerProcess):
    """A worker of Kafka Connect."""

    hung = False
    """Whether it hung while stopping, and was killed: what it had not committed is processed
    again."""

    def stop(self, timeout_s: float = STOP_S) -> int:
        """Kills a process that hangs: occasionally the shutdowns of Kafka Connect's REST server and
        of Jetty, which starts its own, deadlock."""
        try:
            return super().stop(timeout_s)
        except TimeoutError:
            self.hung = True
            self.kill()
            wait_until(lambda: self.exit_code is not None, timeout_s, "the killed process to end")
            return self.exit_code or 0


def script_options(environment: Mapping[str, str] | None = None) -> list[str]:
    """The JVM options that Kafka's scripts derive from the environment."""
    variables = os.environ if environment is None else environment
    heap = variables.get("KAFKA_HEAP_OPTS") or HEAP
    performance = variables.get("KAFKA_JVM_PERFORMANCE_OPTS") or PERFORMANCE
    return [*heap.split(), *performance.split()]


def reference_worker(
    folder: Path,
    settings: Mapping[str, str],
    name: str = "reference",
    options: Sequence[str] | None = None,
    main: str = MAIN_CLASS,
    files: Sequence[Path] = (),
    families: Sequence[str] = (),
    runtime: str = "connect",
) -> ReferenceWorker:
    """A worker of Kafka Connect, not yet started. `options` are its JVM's (`script_options`),
    `files` the connectors' properties files of a `STANDALONE` one, `families` the families of
    jars.lock with further plugins, and `runtime` the one with Kafka Connect.

    It logs to `⟨name⟩.log4j.log` in `folder`. Raises StartupFailed if there is no Java or its jars
    cannot be fetched.
    """
    plugins = folder / f"{name}-plugins"
    (plugins / "file").mkdir(parents=True)
    archives = sorted(jars.folder(runtime).glob("*.jar"))
    for jar in archives:
        if jar.name.startswith(_FILE_CONNECTORS):
            (plugins / "file" / jar.name).symlink_to(jar)
    classes = [str(jar) for jar in archives if not jar.name.startswith(_FILE_CONNECTORS)]
    for family in families:
        (plugins / family).symlink_to(jars.folder(family))
    logging = folder / f"{name}.log4j2.properties"
    logging.write_text(_LOG4J.format(log=folder / f"{name}.log4j.log"))
    java = [jars.java(), *(script_options() if options is None else options)]
    java += [f"-Dlog4j2.configurationFile={logging}", "-cp", os.pathsep.join(classes), main]
    properties = {**settings, "plugin.path": str(plugins)}
    return ReferenceWorker(
        folder, properties, name, lambda file: [*java, *map(str, (file, *files))]
    )

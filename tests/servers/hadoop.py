"""An HDFS for tests: Hadoop's MiniDFSCluster, one namenode and one datanode, in its own process on
loopback. The jar is fetched like the others (`jars.lock`); the rest of Hadoop is among Spark's
jars.

Its superuser is `hdfs`; tests run as another user. All may write to the root folder.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from penstock.connectors import jvm as java
from penstock.host import jars
from penstock.kafka.broker import free_port
from tests.places import ROOT

_START_S: Final = 240.0
_ANSWER_S: Final = 120.0
_STOP_S: Final = 20.0
_SPARK_JARS: Final = (
    *("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j"),
    *("log4j-api", "log4j-core", "log4j-slf4j2-impl"),
)


class HadoopServer:
    """A cluster, until it is closed."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"hdfs://127.0.0.1:{self.port}"
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-hdfs-"))
        environment = {**os.environ, "HADOOP_USER_NAME": "hdfs"}
        command = [sys.executable, "-m", __name__, str(self.port), str(self._folder)]
        self._log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        try:
            self._answer(_START_S)
        except BaseException:
            self.close()
            raise

    def stop_namenode(self) -> None:
        """Stops the namenode; to clients, it is as if its machine had crashed."""
        self._do("stop")

    def start_namenode(self) -> None:
        """Starts the namenode again; returns when it accepts files."""
        self._do("start")

    def set_safe_mode(self, on: bool) -> None:
        """Makes the namenode read-only, or writable again."""
        self._do("safe", on)

    def stop_datanode(self) -> None:
        """Stops the only datanode: files being written are lost."""
        self._do("stop-data")

    def start_datanode(self) -> None:
        """Starts the datanode again."""
        self._do("start-data")

    def make_folder(self, path: str, mode: str) -> None:
        """Makes a folder that belongs to the superuser, with an octal mode."""
        self._do("folder", path, mode)

    def close(self) -> None:
        with self._process as process:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> HadoopServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _do(self, *order: object) -> None:
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        self._answer(_ANSWER_S)

    def _answer(self, seconds: float) -> None:
        out = self._process.stdout
        assert out is not None, "it is a pipe"
        readable, _, _ = select.select([out], [], [], seconds)
        answer = out.readline().decode().strip() if readable else "no answer"
        if answer != "ok":
            tail = (self._folder / "log").read_text(errors="replace")[-2000:]
            raise AssertionError(f"The HDFS for tests says {answer!r}: {tail}")


class _Cluster:
    """The cluster, in its own process."""

    def __init__(self, port: int, folder: Path) -> None:
        archives = sorted(jars.folder("hdfs").glob("*.jar"))
        unpacked = _web_folder(archives)
        user = "the HDFS for tests"
        self._jpype = java.jvm(user)
        names = [str(unpacked), *map(str, archives), *java.spark_jars(_SPARK_JARS, user)]
        self._loader = java.loader_of(tuple(names))
        thread = self._jpype.JClass("java.lang.Thread").currentThread()
        thread.setContextClassLoader(self._loader)
        conf = self._class("org.apache.hadoop.conf.Configuration")()
        conf.setClassLoader(self._loader)
        conf.set("hadoop.security.groups.cache.secs", "0")
        conf.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "10")
        conf.set("dfs.namenode.safemode.extension", "0")
        builder = self._class("org.apache.hadoop.hdfs.MiniDFSCluster$Builder")
        self.cluster = (
            builder(conf, self._jpype.JClass("java.io.File")(str(folder / "dfs")))
            .nameNodePort(port)
            .numDataNodes(1)
            .format(True)
            .build()
        )
        self.cluster.waitActive()
        self._data: Any = None
        self._make_folder("/", "777")

    def _class(self, name: str) -> Any:
        return self._jpype.JClass(name, loader=self._loader)

    def _make_folder(self, path: str, mode: str) -> None:
        folder = self._class("org.apache.hadoop.fs.Path")(path)
        permission = self._class("org.apache.hadoop.fs.permission.FsPermission")(int(mode, 8))
        system = self.cluster.getFileSystem()
        system.mkdirs(folder)
        system.setPermission(folder, permission)

    def do(self, action: str, *arguments: Any) -> None:
        match action:
            case "stop":
                self.cluster.shutdownNameNode(0)
            case "start":
                self.cluster.restartNameNode(0, True)
                self.cluster.waitActive()
            case "safe":
                protocol = self.cluster.getNameNodeRpc(0)
                constants = "org.apache.hadoop.hdfs.protocol.HdfsConstants"
                actions = self._class(f"{constants}$SafeModeAction")
                mode = actions.SAFEMODE_ENTER if arguments[0] else actions.SAFEMODE_LEAVE
                protocol.setSafeMode(mode, False)
            case "stop-data":
                self._data = self.cluster.stopDataNode(0)
            case "start-data":
                self.cluster.restartDataNode(self._data, True)
                self.cluster.waitActive()
            case "folder":
                self._make_folder(*arguments)


def _web_folder(archives: list[Path]) -> Path:
    """The files of Hadoop's web servers, unpacked once: unpacking them from the jar would take the
    servers longer than everything else."""
    folder = archives[0].parent.with_name(f"{archives[0].parent.name}-web")
    if not folder.is_dir():
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".web-"))
        with zipfile.ZipFile(archives[0]) as archive:
            names = [name for name in archive.namelist() if name.startswith("webapps/")]
            archive.extractall(draft, names)
        try:
            draft.rename(folder)
        except OSError:
            shutil.rmtree(draft)  # another process was faster
    return folder


def _serve(port: int, folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Hadoop's log
    cluster = _Cluster(port, folder)
    answers.write("ok\n")
    for line in sys.stdin:
        try:
            cluster.do(*json.loads(line))
            answer = "ok"
        except Exception as error:
            answer = f"{type(error).__name__}: {error}".replace("\n", " ")
        answers.write(f"{answer}\n")
    os._exit(0)  # its threads have nothing to finish


if __name__ == "__main__":
    _serve(int(sys.argv[1]), Path(sys.argv[2]))

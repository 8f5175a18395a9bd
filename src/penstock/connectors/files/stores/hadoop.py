"""A Hadoop file system, through its Java client: HDFS, a local folder, or any other that has a
class for the scheme of its URL.

The client runs in the JVM of the Python process (`connectors.jvm`), with the jars of Spark. Hadoop
keeps the identity of a process in static fields: so each Kerberos principal has its own class
loader, and connectors without Kerberos share one.
"""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.connectors import jvm as java
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

_JARS: Final = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j")
"""Without an SLF4J backend: exceptions carry what matters."""
_USER: Final = "the Hadoop client"
_REFUSALS: Final = frozenset(
    {
        *("AccessControlException", "FSLimitException", "FileAlreadyExistsException"),
        *("IllegalArgumentException", "InvalidPathException", "KerberosAuthException"),
        *("LeaseExpiredException", "MaxDirectoryItemsExceededException"),
        *("ParentNotDirectoryException", "PathComponentTooLongException"),
        *("PathIsNotDirectoryException", "UnsupportedFileSystemException"),
        "UnsupportedOperationException",
    }
)
_TIMEOUTS: Final[Mapping[str, str]] = {
    "ipc.client.connect.max.retries": "2",
    "ipc.client.connect.max.retries.on.timeouts": "2",
    "ipc.client.connect.timeout": "10000",
    "ipc.client.rpc-timeout.ms": "60000",
}
"""Defaults, unless the configuration sets them: the task itself retries."""


@dataclass(frozen=True, slots=True)
class Kerberos:
    """The Kerberos identity of a connector."""

    principal: str
    keytab: str
    namenode: str = ""  # its principal


@dataclass(frozen=True, slots=True)
class HadoopOptions:
    """Connection parameters of a file system."""

    url: str
    conf_dir: str = ""
    jars: tuple[str, ...] = ()
    kerberos: Kerberos | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings that take precedence over those of `conf_dir`."""

    @property
    def root(self) -> str:
        """The path of the URL, without a trailing slash."""
        return unquote(urlsplit(self.url).path).rstrip("/")


@dataclass(frozen=True, slots=True)
class HadoopEntry:
    """A file or a folder."""

    path: str
    is_folder: bool
    size: int


class Hadoop:
    """A connection to a file system; paths are absolute. Any thread may use it. Methods raise
    StoreUnavailable or StoreRefused."""

    def __init__(self, options: HadoopOptions) -> None:
        self._options = options
        self._jpype = java.jvm(_USER)
        self._jpype.JClass("java.lang.System").setProperty("slf4j.internal.verbosity", "ERROR")
        jars = (*java.spark_jars(_JARS, _USER), *_jars_at(options.jars))
        kerberos = options.kerberos
        self._loader = java.loader_of(jars, kerberos.principal if kerberos else "hadoop")
        with self._store_errors(options.url):
            self._fs = self._connect()
        base = self._class("org.apache.hadoop.fs.FileSystem").class_
        path = self._class("org.apache.hadoop.fs.Path").class_
        # DistributedFileSystem overloads `rename`, and JPype would pick the wrong one.
        self._rename = base.getMethod("rename", path, path)
        self._bytes = self._jpype.JArray(self._jpype.JByte)

    def _class(self, name: str) -> Any:
        return self._jpype.JClass(name, loader=self._loader)

    def _path(self, path: str) -> Any:
        return self._class("org.apache.hadoop.fs.Path")(path)

    def _connect(self) -> Any:
        options = self._options
        conf = self._class("org.apache.hadoop.conf.Configuration")()
        conf.setClassLoader(self._loader)
        for name in ("core-site.xml", "hdfs-site.xml"):
            file = Path(options.conf_dir, name)
            if options.conf_dir and file.is_file():
                conf.addResource(self._path(f"file://{file.absolute()}"))
        for name, value in _TIMEOUTS.items():
            sources = conf.getPropertySources(name) or ()
            if all(str(source).endswith("-default.xml") for source in sources):
                conf.set(name, value)
        for name, value in options.conf.items():
            conf.set(name, value)
        url = self._jpype.JClass("java.net.URI")(options.url)
        if options.kerberos is not None:
            self._log_in(conf, options.kerberos)
        return self._class("org.apache.hadoop.fs.FileSystem").newInstance(url, conf)

    def _log_in(self, conf: Any, kerberos: Kerberos) -> None:
        conf.set("hadoop.security.authentication", "kerberos")
        if kerberos.namenode:
            conf.set("dfs.namenode.kerberos.principal", kerberos.namenode)
        user = self._class("org.apache.hadoop.security.UserGroupInformation")
        user.setConfiguration(conf)
        host = self._jpype.JClass("java.net.InetAddress").getLocalHost().getCanonicalHostName()
        name = self._class("org.apache.hadoop.security.SecurityUtil").getServerPrincipal(
            kerberos.principal, host
        )
        # The Hadoop client itself logs in again before a ticket expires.
        user.loginUserFromKeytab(name, kerberos.keytab)

    def create(self, path: str) -> Any:
        """A stream (`write`, `close`) of a new file, whose folder must exist."""
        with self._store_errors(path):
            return self._fs.createNonRecursive(
                self._path(path), False, 1 << 16, self._fs.getDefaultReplication(self._path(path)),
                self._fs.getDefaultBlockSize(self._path(path)), None,
            )  # fmt: skip

    def write(self, stream: Any, data: bytes | memoryview, path: str) -> None:
        with self._store_errors(path):
            stream.write(self._bytes(data))

    def close_file(self, stream: Any, path: str) -> None:
        """Completes a file. Must not be called again after a failure: it would report success."""
        with self._store_errors(path):
            stream.close()

    def give_up(self, stream: Any) -> None:
        """Closes a stream whose file is discarded. Never fails."""
        with suppress(Exception), self._store_errors(""):
            stream.close()

    def rename(self, source: str, target: str) -> bool:
        """Returns whether the file or folder was renamed."""
        with self._store_errors(target):
            return bool(self._rename.invoke(self._fs, self._path(source), self._path(target)))

    def make_folder(self, path: str) -> None:
        with self._store_errors(path):
            if not self._fs.mkdirs(self._path(path)):
                raise StoreRefused(f"The folder {path} cannot be created.")

    def exists(self, path: str) -> bool:
        with self._store_errors(path):
            return bool(self._fs.exists(self._path(path)))

    def delete(self, path: str) -> None:
        """Removes a file, or a folder with its content."""
        with self._store_errors(path):
            self._fs.delete(self._path(path), True)

    def entries(self, path: str) -> list[HadoopEntry]:
        """The entries of a folder; none if it does not exist."""
        with self._store_errors(path):
            try:
                statuses = self._fs.listStatus(self._path(path))
            except self._jpype.JClass("java.io.FileNotFoundException"):
                return []
            return [
                HadoopEntry(
                    posixpath.join(path, str(status.getPath().getName())),
                    status.isDirectory(),
                    status.getLen(),
                )
                for status in statuses
            ]

    def names(self, path: str) -> Iterator[str]:
        """The names of all files below a folder, without their folders."""
        with self._store_errors(path):
            try:
                files = self._fs.listFiles(self._path(path), True)
            except self._jpype.JClass("java.io.FileNotFoundException"):
                return
            while files.hasNext():
                yield str(files.next().getPath().getName())

    def read(self, path: str) -> bytes:
        """The bytes of a small file."""
        with self._store_errors(path):
            stream = self._fs.open(self._path(path))
            try:
                size = self._fs.getFileStatus(self._path(path)).getLen()
                data = self._bytes(int(size))
                stream.readFully(0, data)
                return bytes(data)
            finally:
                stream.close()

    def recover_lease(self, path: str) -> bool:
        """Revokes a file from its writer, if the file system can; returns whether it is closed."""
        with self._store_errors(path):
            if not hasattr(self._fs, "recoverLease"):
                return True
            return bool(self._fs.recoverLease(self._path(path)))

    def close(self) -> None:
        with suppress(Exception), self._store_errors(""):
            self._fs.close()

    @contextmanager
    def _store_errors(self, path: str) -> Iterator[None]:
        """Translates Java exceptions into StoreUnavailable and StoreRefused. Sets the class loader
        of the thread, where Hadoop looks for its classes: threads of Python have none."""
        thread = self._jpype.JClass("java.lang.Thread").currentThread()
        thread.setContextClassLoader(self._loader)
        try:
            yield
        except self._jpype.JException as error:
            raise self._store_error(error, path) from error

    def _store_error(self, error: Any, path: str) -> Exception:
        reflected = self._jpype.JClass("java.lang.reflect.InvocationTargetException")
        if isinstance(error, reflected):
            error = error.getCause()
        if error.getClass().getName() == "org.apache.hadoop.ipc.RemoteException":
            names = {str(error.getClassName()).rpartition(".")[2]}
        else:
            names, kind = set(), error.getClass()
            while kind is not None:
                names.add(str(kind.getSimpleName()))
                kind = kind.getSuperclass()
        message = str(error.getMessage() or "no message").strip().partition("\n")[0]
        text = f"{self._options.url}, {path}: {message} ({error.getClass().getSimpleName()})"
        if names & _REFUSALS and "safe mode" not in message:
            return StoreRefused(text)
        return StoreUnavailable(text)


def _jars_at(entries: Sequence[str]) -> list[str]:
    """The jars at files, folders and patterns. Raises StoreRefused for one without any."""
    paths: list[str] = []
    for entry in entries:
        pattern = f"{entry}/*.jar" if os.path.isdir(entry) else entry
        jars = sorted(glob.glob(pattern))
        if not jars:
            raise StoreRefused(f"penstock.hadoop.jars: there is no jar at {entry}")
        paths += jars
    return paths

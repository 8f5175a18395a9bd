"""Real database servers for tests: processes on loopback, each in its own folder.

The programs are fetched like the jars (`jars.lock`) and unpacked for each server, so tests need
nothing installed. Neither server can run as root; started by root, they run as `nobody`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from penstock.config.define import Secret
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.url import parse
from penstock.errors import PenstockError, StartupFailed
from penstock.host import jars
from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.testing.waiting import is_listening, wait_until
from tests.servers.certificates import Issued

_READY_S: Final = 60.0
_STOP_S: Final = 30.0
_SETUP_S: Final = 120.0

_AS_USER: Final = (
    "import os, sys; user, group, *command = sys.argv[1:]; os.setgroups([]); "
    "os.setgid(int(group)); os.setuid(int(user)); os.chdir('/'); os.execv(command[0], command)"
)


class DatabaseServer(ABC):
    """A server with one user and one empty database; a context manager that removes all.

    `stop` and `kill` keep its files for the next `start`. With the certificate `tls`, clients may
    use TLS, but need not.
    """

    user = "penstock"
    password = "not-a-secret"
    database = "shop"

    def __init__(self, tls: Issued | None = None) -> None:
        self.port = free_port()
        self._tls = tls
        # Other users can enter neither a test's folder nor its parents.
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-database-"))
        self._process: Process | None = None
        try:
            if tls is not None:
                self._certificate.write_text(tls.chain_pem())
                self._key.touch(0o600)  # others must not be able to read it
                self._key.write_text(tls.key_pem())
            self._install()
        except BaseException:
            self._remove()
            raise

    @property
    def _certificate(self) -> Path:
        return self._folder / "certificate.pem"

    @property
    def _key(self) -> Path:
        return self._folder / "key.pem"

    @property
    @abstractmethod
    def url(self) -> str:
        """The database's JDBC URL."""

    def settings(self) -> dict[str, str]:
        """Connection settings for a connector."""
        return {
            "connection.url": self.url,
            "connection.user": self.user,
            "connection.password": self.password,
        }

    def connect(self) -> Connection:
        """A connection to the database, as its user."""
        return Database(parse(self.url, self.user, Secret(self.password)), attempts=1).connect()

    @property
    def log_text(self) -> str:
        """The server's log."""
        log = self._folder / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def start(self) -> None:
        """Starts the server, and returns when it answers."""
        self._process = Process(
            self._as_nobody(self._command()),
            self._folder / "log",
            name=f"The server {type(self).__name__}",
        )
        self._process.start()
        self._await()

    def stop(self) -> None:
        """Stops it gracefully; connections are closed."""
        if self._process is not None and self._process.alive:
            self._process.stop(_STOP_S)

    def kill(self) -> None:
        """Kills it, like a power cut, and its processes for clients: while one of them lives, the
        server does not restart."""
        process = self._process
        if process is None or process.pid is None or not process.alive:
            return
        # They lead their own sessions, so no process group signal reaches them all.
        children = _children(process.pid)
        process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        wait_until(lambda: not any(map(_is_alive, children)), _STOP_S, "the end of its processes")

    def __enter__(self) -> DatabaseServer:
        try:
            self.start()
            self._create_database()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops it and removes its files. Safe to call twice."""
        self.stop()
        self._remove()

    @abstractmethod
    def _install(self) -> None:
        """Unpacks the programs, and initializes a server without databases."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The server's command line."""

    @abstractmethod
    def _create_database(self) -> None:
        """Creates user and database."""

    def _await(self) -> None:
        assert self._process is not None

        def answers() -> bool:
            with contextlib.suppress(OSError):
                return is_listening(self.port) and self._accepts_clients()
            return False

        self._process.wait_for(answers, _READY_S, f"a server at port {self.port}")

    def _accepts_clients(self) -> bool:
        """Whether it serves connections, not only listens."""
        return True

    def _as_nobody(self, command: Sequence[str]) -> list[str]:
        if os.getuid() != 0:
            return list(command)
        nobody = pwd.getpwnam("nobody")
        ids = [str(nobody.pw_uid), str(nobody.pw_gid)]
        return [sys.executable, "-c", _AS_USER, *ids, *command]

    def _chown(self) -> None:
        """Makes the server's user own the folder."""
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in [self._folder, *self._folder.rglob("*")]:
                os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(
            self._as_nobody(command),
            capture_output=True,
            text=True,
            timeout=_SETUP_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise StartupFailed(
                f"'{command[0]}' failed: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            )

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class PostgresServer(DatabaseServer):
    """PostgreSQL 15. Commits do not wait for the disk; passwords are checked."""

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{self.database}"

    def stop(self) -> None:
        process = self._process
        if process is not None and process.pid is not None and process.alive:
            # On SIGTERM it would wait for its clients to disconnect; SIGINT disconnects them.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGINT)
        super().stop()

    def _install(self) -> None:
        (archive,) = jars.folder("postgresql").glob("*.jar")
        with zipfile.ZipFile(archive) as jar:
            (name,) = (name for name in jar.namelist() if name.endswith(".txz"))
            with jar.open(name) as packed, tarfile.open(fileobj=packed, mode="r:xz") as tar:
                tar.extractall(self._folder / "programs", filter="tar")
        secret = self._folder / "password"
        secret.write_text(self.password)
        self._chown()
        self._run(
            [
                str(self._folder / "programs" / "bin" / "initdb"),
                f"--pgdata={self._folder / 'data'}",
                f"--username={self.user}",
                f"--pwfile={secret}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ]
        )

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "dynamic_shared_memory_type": "mmap",  # in its folder; in /dev/shm it outlives a kill
            "timezone": "UTC",
        }
        if self._tls is not None:
            files = {"ssl_cert_file": self._certificate, "ssl_key_file": self._key}
            settings |= {"ssl": "on", **{name: str(file) for name, file in files.items()}}
        return [
            str(self._folder / "programs" / "bin" / "postgres"),
            *("-D", str(self._folder / "data"), "-p", str(self.port)),
            *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
        ]

    def _accepts_clients(self) -> bool:
        try:
            self._administer().close()
        except PenstockError:
            return False  # it is recovering or starting
        return True

    def _administer(self) -> Connection:
        url = f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"
        return Database(parse(url, self.user, Secret(self.password)), attempts=1).connect()

    def _create_database(self) -> None:
        with self._administer() as connection:
            connection.execute(f"CREATE DATABASE {self.database}")


class MariaDbServer(DatabaseServer):
    """MariaDB 10.11."""

    buffer_pool_mb: ClassVar[int] = 64  # half of its default

    @property
    def url(self) -> str:
        return f"jdbc:mariadb://127.0.0.1:{self.port}/{self.database}"

    def _install(self) -> None:
        (archive,) = jars.folder("mariadb").glob("*.jar")
        programs = self._folder / "programs"
        with zipfile.ZipFile(archive) as jar:
            for name in jar.namelist():
                path = name.partition("/linux/")[2]
                if not path or name.endswith("/") or not path.startswith(_NEEDED):
                    continue
                target = programs / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(jar.read(name))
                if path.startswith("bin/"):
                    target.chmod(0o755)
        (self._folder / "data").mkdir()
        (self._folder / "tmp").mkdir()
        self._bootstrap(programs)

    def _bootstrap(self, programs: Path) -> None:
        """Creates the system tables, as the server's own script does."""
        share = programs / "share"
        script = self._folder / "bootstrap.sql"
        parts = ["CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"]
        parts += [
            (share / name).read_text()
            for name in (
                "mysql_system_tables.sql",
                "mysql_performance_tables.sql",
                "mysql_system_tables_data.sql",
                "fill_help_tables.sql",
            )
            if (share / name).exists()
        ]
        script.write_text("".join(parts))
        self._chown()
        with script.open("rb") as statements:
            done = subprocess.run(
                self._as_nobody([*self._command(), "--bootstrap", "--skip-networking"]),
                stdin=statements,
                capture_output=True,
                timeout=_SETUP_S,
                check=False,
            )
        if done.returncode:
            raise StartupFailed(
                f"MariaDB cannot be set up: {done.stderr[-3000:].decode(errors='replace')}"
            )

    def _command(self) -> list[str]:
        programs = self._folder / "programs"
        server = programs / "bin" / "mariadbd"
        tls = (f"--ssl-cert={self._certificate}", f"--ssl-key={self._key}")
        return [
            str(server if server.exists() else programs / "bin" / "mysqld"),
            "--no-defaults",
            f"--basedir={programs}",
            f"--lc-messages-dir={programs / 'share'}",
            f"--datadir={self._folder / 'data'}",
            f"--tmpdir={self._folder / 'tmp'}",
            f"--socket={self._folder / 'socket'}",
            f"--pid-file={self._folder / 'pid'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--innodb-flush-log-at-trx-commit=2",
            f"--innodb-buffer-pool-size={self.buffer_pool_mb}M",
            "--local-infile=1",
            "--skip-name-resolve",
            *(tls if self._tls is not None else ()),
        ]

    def _create_database(self) -> None:
        root = Database(parse(f"jdbc:mariadb://127.0.0.1:{self.port}/mysql", "root"), attempts=1)
        with root.connect() as connection:
            connection.execute(f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4")
            connection.execute(f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}'")
            connection.execute(f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION")


_NEEDED: Final = ("bin/mariadbd", "share/")


def _children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False

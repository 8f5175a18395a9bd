"""FTP and SFTP servers for tests, over a local folder. They listen on loopback, in their own
threads.

    with FtpServer(folder) as server:
        ...  # server.port; server.user, server.password
        server.stop()  # as if it were killed: connections break
        server.start()  # on the same port
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from penstock.kafka.broker import free_port
from penstock.testing.waiting import is_listening, wait_until
from tests.places import ROOT

if TYPE_CHECKING:
    import asyncssh

INSTALL: Final = "pip install pyftpdlib pyOpenSSL asyncssh"
"""The command that installs the servers."""

_HOST: Final = "127.0.0.1"
_START_S: Final = 60.0
_END_S: Final = 10.0

Format = Callable[[str, Any], str]
"""A line of a listing, from a name and the result of `os.stat`."""


def is_installed() -> bool:
    """Whether the servers are installed."""
    return all(find_spec(name) for name in ("pyftpdlib", "OpenSSL", "asyncssh"))


class _Server:
    """A server, until it is closed."""

    user: Final = "reader"
    password: Final = "pässword"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"{_HOST}:{self.port}"

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> _Server:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class FtpServer(_Server):
    """An FTP server; with TLS if `certificate` is a PEM file of a key and certificates. It rejects
    the commands in `without`; `line` formats the lines of LIST."""

    def __init__(
        self,
        folder: Path,
        *,
        certificate: Path | None = None,
        implicit: bool = False,
        without: frozenset[str] = frozenset(),
        line: Format | None = None,
        bytes_per_s: int = 0,
    ) -> None:
        super().__init__(folder)
        self.certificate = certificate
        self.implicit = implicit
        self.without = without
        self.line = line
        self.bytes_per_s = bytes_per_s
        self.refuses = False
        """Whether it refuses all logins."""
        self.cut_after: int | None = None
        """Ends the next transfer, and the connection, after this number of bytes."""
        self.commands: list[str] = []
        """The commands of clients, without passwords."""
        self._loop: Any = None
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        from pyftpdlib.ioloop import IOLoop
        from pyftpdlib.servers import FTPServer

        self._stopping.clear()
        self._loop = IOLoop()
        self._server = FTPServer((_HOST, self.port), _handler(self), ioloop=self._loop)
        self._thread = threading.Thread(target=self._serve, name="ftp server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join(_END_S)

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._loop.loop(timeout=0.02, blocking=False)
        self._server.close_all()
        self._loop.close()


def _handler(server: FtpServer) -> Any:
    """The handler class of client connections."""
    from pyftpdlib.authorizers import AuthenticationFailed, DummyAuthorizer
    from pyftpdlib.filesystems import AbstractedFS
    from pyftpdlib.handlers import (
        DTPHandler,
        FTPHandler,
        ThrottledDTPHandler,
        TLS_DTPHandler,
        TLS_FTPHandler,
    )

    class Users(DummyAuthorizer):  # type: ignore[misc]
        def validate_authentication(self, name: str, password: str, handler: Any) -> None:
            if server.refuses:
                raise AuthenticationFailed("No more users.")
            super().validate_authentication(name, password, handler)

    class Files(AbstractedFS):  # type: ignore[misc]
        def format_list(self, folder: str, names: list[str], ignore_err: bool = True) -> Any:
            if server.line is None:
                yield from super().format_list(folder, names, ignore_err)
                return
            for name in names:
                text = server.line(name, (Path(folder) / name).stat())
                yield f"{text}\r\n".encode(self.cmd_channel.encoding)

    secure = server.certificate is not None
    plain_data = ThrottledDTPHandler if server.bytes_per_s else DTPHandler

    class Data(TLS_DTPHandler if secure else plain_data):  # type: ignore[misc]
        write_limit = server.bytes_per_s
        auto_sized_buffers = False

        def send(self, data: bytes) -> Any:
            remaining = server.cut_after
            if remaining is not None and self.cmd_channel.cutting:
                data = data[:remaining]
                server.cut_after = remaining - len(data)
                if not data:
                    server.cut_after = None
                    self.cmd_channel.close()
                    return 0
            return super().send(data)

    class Client(TLS_FTPHandler if secure else FTPHandler):  # type: ignore[misc]
        authorizer = Users()
        abstracted_fs = Files
        dtp_handler = Data
        auth_failed_timeout = 0
        unicode_errors = "surrogateescape"
        use_sendfile = False  # it would bypass `Data.send`
        cutting = False
        proto_cmds = {  # noqa: RUF012 - the library's
            name: command
            for name, command in (TLS_FTPHandler if secure else FTPHandler).proto_cmds.items()
            if name not in server.without
        }

        def handle(self) -> None:
            if server.implicit:
                self.secure_connection(self.get_ssl_context())
            super().handle()

        def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
            server.commands.append(cmd if cmd == "PASS" else line)
            self.cutting = cmd == "RETR"
            super().pre_process_command(line, cmd, arg)

        def respond(self, resp: str, *args: Any, **kwargs: Any) -> None:
            readable = resp.encode("utf-8", "replace").decode()  # names may not be UTF-8
            super().respond(readable, *args, **kwargs)

    Client.authorizer.add_user(server.user, server.password, str(server.folder), perm="elrdfmw")
    if secure:
        Client.certfile = str(server.certificate)
    return Client


class SftpServer(_Server):
    """An SFTP server. `authorized` are public keys that may log in, in OpenSSH's format."""

    def __init__(self, folder: Path, *, authorized: str = "") -> None:
        import asyncssh

        super().__init__(folder)
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.authorized = authorized
        self.cut_after: int | None = None
        """Ends the connection that reads beyond this number of bytes from now on."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()

    @property
    def known_hosts(self) -> str:
        """Its line for clients' `known_hosts`."""
        return f"[{_HOST}]:{self.port} {self.key.export_public_key().decode()}"

    def start(self) -> None:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="sftp server", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), loop).result(_END_S)

    def stop(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), loop).result(_END_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_END_S)
        loop.close()

    async def _listen(self) -> None:
        import asyncssh

        server = self

        class Users(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                server._connections.add(conn)
                self.connection = conn

            def connection_lost(self, exc: Exception | None) -> None:
                server._connections.discard(self.connection)

            def begin_auth(self, username: str) -> bool:
                if server.authorized:
                    keys = asyncssh.import_authorized_keys(server.authorized)
                    self.connection.set_authorized_keys(keys)
                return True

            def password_auth_supported(self) -> bool:
                return True

            def validate_password(self, username: str, password: str) -> bool:
                return (username, password) == (server.user, server.password)

        class Files(asyncssh.SFTPServer):
            def __init__(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
                super().__init__(chan, chroot=os.fsencode(server.folder))

            async def read(self, file_obj: object, offset: int, size: int) -> bytes:
                if server.cut_after is not None:
                    server.cut_after -= size
                    if server.cut_after < 0:
                        server.cut_after = None
                        self.channel.get_connection().abort()
                        return b""
                file: Any = file_obj
                file.seek(offset)
                data: bytes = file.read(size)
                return data

        self._acceptor = await asyncssh.listen(
            _HOST,
            self.port,
            server_factory=Users,
            server_host_keys=[self.key],
            sftp_factory=Files,
            reuse_address=True,
        )

    async def _end(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)


class ServerProcess:
    """A server in a process of its own: `kind` is ftp or sftp."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.port = free_port()
        self.address = f"{_HOST}:{self.port}"
        self.user, self.password = _Server.user, _Server.password
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, kind, str(folder), str(self.port)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def answers() -> bool:
            assert self._process.poll() is None, "the server has ended"
            return is_listening(self.port, 5)

        wait_until(answers, _START_S, "the server")

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(_END_S)
        if self._process.stdin is not None:
            self._process.stdin.close()


def main(kind: str, folder: str, port: str) -> None:
    """Serves a folder until standard input ends."""
    server = {"ftp": FtpServer, "sftp": SftpServer}[kind](Path(folder))
    server.port = int(port)
    with server:
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

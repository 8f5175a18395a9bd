"""One connection to an FTP server: commands, data connections, and errors, translated for stores.

The control connection carries bytes as Latin-1, so that any banner or name can be decoded; names
use the configured encoding, or else Latin-1.
"""

from __future__ import annotations

import ftplib
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import Enum
from typing import Final

from penstock.api.settings import Secret
from penstock.connectors.files.stores.folders import (
    IdentityRefused,
    LoginRefused,
    StoreMissing,
)
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

WIRE: Final = "latin-1"
_BLOCK: Final = 1 << 16
_LONGEST: Final = 1 << 16  # a line of a listing, or of a reply
_DENIED: Final = re.compile(r"denied|permi|not allowed|privilege|unauthori[sz]ed", re.IGNORECASE)
UNKNOWN: Final = ("500", "501", "502", "504")
"""Reply codes for a command that the server does not support."""


class Tls(Enum):
    """When TLS starts."""

    EXPLICIT = "explicit"  # by a command
    IMPLICIT = "implicit"  # with the connection


@dataclass(frozen=True, slots=True)
class FtpOptions:
    """Connection parameters of a server."""

    host: str
    port: int
    user: str
    password: Secret = field(default_factory=lambda: Secret(""))
    timeout_s: float = 30.0
    tls: Tls | None = None
    verify: bool = False
    """Whether the certificate has to be valid for the host."""
    ca_file: str | None = None
    """Trusted certificate authorities; None: those of the machine."""
    encoding: str = "utf-8"
    """The encoding of names."""
    zone: tzinfo | None = None
    """The zone of the server's clock, unless a listing names one; None: that of this machine."""

    @property
    def place(self) -> str:
        return f"{'ftps' if self.tls else 'ftp'}://{self.host}:{self.port}"


class UnknownCommand(StoreRefused):
    """The server does not support this command."""


class FtpConnection(ftplib.FTP_TLS):
    """A logged-in connection in binary and passive mode."""

    maxline = _LONGEST

    def __init__(self, options: FtpOptions) -> None:
        super().__init__(context=_context(options), timeout=options.timeout_s, encoding=WIRE)
        self.options = options
        self.features: dict[str, str] = {}
        """Features beyond RFC 959, in upper case, with parameters."""

    def begin(self) -> None:
        """Connects and logs in."""
        options = self.options
        try:
            with store_errors(options.place):
                self._open()
            with store_errors(options.place, login=True):
                self._log_in()
            with store_errors(options.place):
                self._prepare()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        options = self.options
        self.host = options.host
        sock = socket.create_connection((options.host, options.port), options.timeout_s)
        _keep_alive(sock)
        self.sock, self.af = sock, sock.family
        if options.tls is Tls.IMPLICIT:
            self.sock = self.context.wrap_socket(sock, server_hostname=options.host)
        self.file = self.sock.makefile("r", encoding=WIRE)
        self.welcome = self.getresp()
        if options.tls is Tls.EXPLICIT:
            self.auth()

    def _log_in(self) -> None:
        answer = self.sendcmd(f"USER {self.wired(self.options.user)}")
        if answer[0] == "3":
            answer = self.sendcmd(f"PASS {self.wired(self.options.password.value)}")
        if answer[0] == "3":
            raise ftplib.error_perm("530 The server requires an account (ACCT).")

    def _prepare(self) -> None:
        if self.options.tls is not None:
            self.prot_p()
        with suppress(ftplib.Error):
            lines = self.sendcmd("FEAT").splitlines()
            for line in lines[1:-1]:
                name, _, value = line.strip().partition(" ")
                self.features[name.upper()] = value
        if "UTF8" in self.features and self.options.encoding.lower() in ("utf-8", "utf8"):
            with suppress(ftplib.Error):
                self.sendcmd("OPTS UTF8 ON")
        self.voidcmd("TYPE I")

    def wired(self, text: str) -> str:
        """A text as the control connection carries it. Raises StoreRefused for line ends."""
        if "\r" in text or "\n" in text or "\0" in text:
            raise StoreRefused(f"FTP does not support names with line ends: {text!r}")
        try:
            return text.encode(self.options.encoding).decode(WIRE)
        except UnicodeEncodeError as error:
            raise StoreRefused(f"{text!r} cannot be encoded: {error}") from error

    def ntransfercmd(
        self, cmd: str, rest: int | str | None = None
    ) -> tuple[socket.socket, int | None]:
        """A data connection. With TLS it resumes the session of the control connection: some
        servers require that, to prevent others from sending the data."""
        conn, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        if self.options.tls is not None:
            session = self.sock.session if isinstance(self.sock, ssl.SSLSocket) else None
            try:
                conn = self.context.wrap_socket(
                    conn, server_hostname=self.options.host, session=session
                )
            except BaseException:
                conn.close()
                raise
        return conn, size

    def lines(self, command: str) -> list[bytes]:
        """The lines that the server sends over a data connection for a command."""
        data = bytearray()
        conn, _ = self.ntransfercmd(command)
        try:
            while block := conn.recv(_BLOCK):
                data += block
        finally:
            conn.close()
        self.voidresp()
        return bytes(data).splitlines()

    def wait_at_most(self, seconds: float) -> None:
        """Sets the timeout for replies from now on."""
        if self.sock is not None:
            self.sock.settimeout(seconds)

    def has_ended(self) -> bool:
        """Whether the server no longer replies."""
        try:
            self.voidcmd("NOOP")
        except (OSError, EOFError, ftplib.Error):
            return True
        return False

    def end(self) -> None:
        """Logs out, within a second, and closes."""
        with suppress(OSError, EOFError, ftplib.Error):
            self.wait_at_most(1.0)
            self.quit()
        self.close()


def _context(options: FtpOptions) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.ca_file if options.verify else None)
    # Many servers end a data connection without a TLS close; replies and sizes tell whether the
    # data is complete.
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _keep_alive(sock: socket.socket) -> None:
    """Enables TCP keep-alive: firewalls drop connections that idle during a long transfer."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)


@contextmanager
def store_errors(place: str, path: str = "", *, login: bool = False) -> Iterator[None]:
    """Translates errors into StoreUnavailable and StoreRefused, with the path of the request."""
    about = f"{place}: {path}: " if path else f"{place}: "
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise IdentityRefused(f"{about}{error.verify_message} ({error})") from error
    except ftplib.error_perm as error:
        text, code = f"{about}{_readable(error)}", str(error)[:3]
        if login:
            raise LoginRefused(text) from error
        if code in UNKNOWN:
            raise UnknownCommand(text) from error
        missing = code == "550" and not _DENIED.search(str(error))
        raise (StoreMissing if missing else StoreRefused)(text) from error
    except ftplib.Error as error:
        raise StoreUnavailable(f"{about}{_readable(error)}") from error
    except EOFError as error:
        raise StoreUnavailable(f"{about}the server closed the connection") from error
    except (OSError, ValueError) as error:
        raise StoreUnavailable(f"{about}{error}") from error


def _readable(error: Exception) -> str:
    """A server's message, which is usually UTF-8."""
    text = str(error)
    with suppress(UnicodeError):
        text = text.encode(WIRE).decode()
    return text


def decoded(name: bytes, encoding: str) -> str:
    """A name; one that is not valid in the encoding is read as Latin-1.

    >>> decoded(b"caf\\xc3\\xa9", "utf-8"), decoded(b"caf\\xe9", "utf-8")
    ('café', 'café')
    """
    try:
        return name.decode(encoding)
    except UnicodeDecodeError:
        return name.decode(WIRE)

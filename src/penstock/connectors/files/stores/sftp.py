"""Files of an SFTP server (SSH File Transfer Protocol, version 3).

asyncssh runs in the event loop of a thread that the store owns while it is connected. Why asyncssh:
docs/decisions, 22.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from penstock.api.settings import Secret
from penstock.connectors.common.loops import Loop
from penstock.connectors.files.stores.folders import (
    FolderStore,
    IdentityRefused,
    Item,
    Kind,
    LoginRefused,
    StoreMissing,
    absolute,
    renamed,
)
from penstock.connectors.files.stores.reading import FileChanged, ListedFile, OpenFile
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    import asyncssh

log = logging.getLogger(__name__)

T = TypeVar("T")

_AHEAD: Final = 4 << 20  # bytes requested at once: asyncssh keeps many requests in flight
_SLOWEST: Final = 4096  # bytes a second; a slower server counts as unavailable
_CLOSE_S: Final = 5.0
_UNDECODABLE: Final = "surrogateescape"


Work = Callable[["asyncssh.SFTPClient"], Coroutine[Any, Any, T]]


@dataclass(frozen=True, slots=True)
class SftpOptions:
    """Connection parameters of a server."""

    host: str
    port: int
    user: str
    password: Secret = field(default_factory=lambda: Secret(""))
    timeout_s: float = 30.0
    known_hosts: str | None = None
    """A known_hosts file of OpenSSH; None: any host key is accepted."""
    key: Secret | None = None
    """The text of a private key."""
    passphrase: Secret | None = None

    @property
    def place(self) -> str:
        return f"sftp://{self.host}:{self.port}"


class SftpStore(FolderStore):
    """The files of a server, with absolute paths."""

    def __init__(self, options: SftpOptions) -> None:
        self.options = options
        self._loop: Loop | None = None
        self._connection: asyncssh.SSHClientConnection | None = None
        self._client: asyncssh.SFTPClient | None = None
        self._raw: dict[str, str] = {}  # paths that are not UTF-8, as the server has them

    def items(self, folder: str) -> Sequence[Item]:
        path = absolute(folder)

        async def listing(client: asyncssh.SFTPClient) -> list[Item]:
            items = []
            for name in await client.readdir(self.raw(path)):
                text = str(name.filename)
                if text not in (".", ".."):
                    item = _item(text, name.attrs)
                    if item.kind is Kind.LINK:
                        item = await _followed(client, self.raw(path), item)
                    items.append(self._named(path, item))
            return items

        return self.run(listing, path)

    def find(self, path: str) -> ListedFile | None:
        path = absolute(path)

        try:
            item = self._status(path)
        except StoreMissing:
            return None
        return ListedFile(path, item.size, item.modified_ms) if item.kind is Kind.FILE else None

    def open(self, found: ListedFile, start: int = 0, *, growing: bool = False) -> OpenFile:
        return _SftpFile(self, found, start, growing)

    def delete_path(self, path: str) -> None:
        self.run(lambda client: client.remove(self.raw(path)), path)

    def rename(self, path: str, to: str) -> bool:
        """Uses the rename of the protocol, which fails if there is a file with the new name."""

        async def move(client: asyncssh.SFTPClient) -> bool:
            import asyncssh

            await client.makedirs(to.rpartition("/")[0] or "/", exist_ok=True)
            try:
                await client.rename(self.raw(path), to)
            except (asyncssh.SFTPFailure, asyncssh.SFTPFileAlreadyExists):
                if await client.lexists(to) and await client.lexists(self.raw(path)):
                    return False
                raise
            return True

        return self.run(move, f"{path} to {to}")

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts `work` without waiting for it, if there is a connection."""
        if self._loop is None or self._client is None:
            work.close()
            return
        self._loop.start(_quietly(work))

    def raw(self, path: str) -> str:
        """A path as the server has it."""
        return self._raw.get(path, path)

    def _named(self, folder: str, item: Item) -> Item:
        """An item whose name can be encoded: one that is not UTF-8 is read as Latin-1."""
        try:
            item.name.encode()
        except UnicodeEncodeError:
            name = item.name.encode(errors=_UNDECODABLE).decode("latin-1")
        else:
            if self.raw(folder) == folder:
                return item
            name = item.name
        self._raw[f"{folder.rstrip('/')}/{name}"] = f"{self.raw(folder).rstrip('/')}/{item.name}"
        return renamed(item, name)

    def connect(self) -> None:
        async def nothing(client: asyncssh.SFTPClient) -> None:
            return None

        self.run(nothing, "")

    def check_folder(self, folder: str) -> None:
        path = absolute(folder)

        if self._status(path).kind is not Kind.FOLDER:
            raise StoreMissing(f"{self.options.place}: {path} is not a folder")

    def _status(self, path: str) -> Item:
        async def request(client: asyncssh.SFTPClient) -> Item:
            return _item(path, await client.stat(self.raw(path)))

        return self.run(request, path)

    def rest(self) -> None:
        self.close()

    def close(self) -> None:
        loop, connection = self._loop, self._connection
        self._loop = self._connection = self._client = None
        if loop is None:
            return
        if connection is not None:
            with suppress(Exception):
                loop.run(_closed(connection), 2 * _CLOSE_S)
        with suppress(Exception):
            loop.run(loop.end_lookups(), _CLOSE_S)
        loop.close()

    def run(self, work: Work[T], path: str, extra_s: float = 0.0) -> T:
        """Returns the result of `work`, which may take `extra_s` longer than the timeout. Raises
        StoreUnavailable, and reconnects the next time; or StoreRefused."""
        limit_s = self.options.timeout_s + extra_s
        was_open = self._client is not None
        try:
            with _store_errors(self.options.place, path):
                client = self._client or self._open()
                return self._wait(_limited(work(client), limit_s))
        except StoreUnavailable:
            self._disconnect()
            if not was_open:
                raise
        with _store_errors(self.options.place, path):
            return self._wait(_limited(work(self._open()), limit_s))

    def _open(self) -> asyncssh.SFTPClient:
        if self._loop is None:
            self._loop = Loop("sftp")
        self._connection, self._client = self._wait(self._connect())
        return self._client

    async def _connect(self) -> tuple[asyncssh.SSHClientConnection, asyncssh.SFTPClient]:
        import asyncssh

        options = self.options
        keys: list[asyncssh.SSHKey] = []
        if options.key is not None and options.key.value:
            passphrase = options.passphrase.value if options.passphrase else None
            keys = [asyncssh.import_private_key(options.key.value, passphrase or None)]
        connection = await asyncssh.connect(
            options.host,
            options.port,
            username=options.user,
            password=options.password.value or None,
            client_keys=keys or None,
            known_hosts=options.known_hosts,
            agent_path=None,
            config=None,
            connect_timeout=options.timeout_s,
            login_timeout=options.timeout_s,
            keepalive_interval=15,
        )
        try:
            client = await asyncio.wait_for(
                connection.start_sftp_client(path_encoding="utf-8", path_errors=_UNDECODABLE),
                options.timeout_s,
            )
        except BaseException:
            connection.abort()
            raise
        return connection, client

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "it runs while there is a connection"
        return self._loop.run(work)

    def _disconnect(self) -> None:
        connection, self._connection, self._client = self._connection, None, None
        if connection is not None and self._loop is not None:
            self._loop.call(connection.abort)


async def _limited(work: Coroutine[Any, Any, T], seconds: float) -> T:
    return await asyncio.wait_for(work, seconds)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    with suppress(Exception):
        await work


async def _closed(connection: asyncssh.SSHClientConnection) -> None:
    connection.close()
    with suppress(Exception):
        await asyncio.wait_for(connection.wait_closed(), _CLOSE_S)


def _item(name: str, attrs: asyncssh.SFTPAttrs) -> Item:
    mode = attrs.permissions or 0
    kind = Kind.OTHER
    if stat.S_ISREG(mode) or not stat.S_IFMT(mode):
        kind = Kind.FILE
    elif stat.S_ISDIR(mode):
        kind = Kind.FOLDER
    elif stat.S_ISLNK(mode):
        kind = Kind.LINK
    return Item(name, kind, attrs.size or 0, int(attrs.mtime or 0) * 1000)


async def _followed(client: asyncssh.SFTPClient, folder: str, link: Item) -> Item:
    """The target of a link, under the name of the link."""
    import asyncssh

    try:
        return _item(link.name, await client.stat(f"{folder.rstrip('/')}/{link.name}"))
    except asyncssh.SFTPError:
        return link


class _SftpFile(OpenFile):
    """A file that is being read, some MB at a time."""

    def __init__(self, store: SftpStore, found: ListedFile, start: int, growing: bool) -> None:
        self.size = found.size
        self._store = store
        self._found = found
        self._position = start
        self._growing = growing
        self._file: asyncssh.SFTPClientFile | None = None
        self._held = b""  # bytes fetched from the position on

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, /) -> int:
        if position != self._position:
            self._held = b""
            self._position = position
        return position

    def read(self, n: int = -1, /) -> bytes:
        parts: list[bytes] = []
        while n:
            if not self._held:
                self._held = self._fetch()
                if not self._held:
                    break
            count = len(self._held) if n < 0 else min(n, len(self._held))
            parts.append(self._held[:count])
            self._held = self._held[count:]
            self._position += count
            n -= count if n > 0 else 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        file, self._file, self._held = self._file, None, b""
        if file is not None:
            self._store.begin(file.close())

    def _fetch(self) -> bytes:
        position = self._position
        remaining = self.size - position
        if remaining <= 0 and not self._growing:
            return b""
        size = min(_AHEAD, remaining) if remaining > 0 else _AHEAD

        path = self._store.raw(self._found.path)

        async def fetch(client: asyncssh.SFTPClient) -> bytes:
            if self._file is None or self._file_of is not client:
                self._file, self._file_of = await client.open(path, "rb"), client
                if not self._growing:  # else reading shows it
                    await self._check(self._file)
            return cast(bytes, await self._file.read(size, position))

        block = self._store.run(fetch, self._found.path, size / _SLOWEST)
        if not block and position < self.size:
            raise FileChanged(self._found.path, "became shorter")
        self.size = max(self.size, position + len(block))
        return block

    _file_of: asyncssh.SFTPClient | None = None

    async def _check(self, file: asyncssh.SFTPClientFile) -> None:
        """Raises FileChanged if this is not the file that was found."""
        found, current = self._found, await file.stat()
        size, modified_ms = current.size or 0, int(current.mtime or 0) * 1000
        if size != found.size:
            raise FileChanged(found.path, f"has {size} bytes instead of {found.size}")
        if modified_ms != found.modified_ms:
            raise FileChanged(found.path, "was rewritten")


@contextmanager
def _store_errors(place: str, path: str) -> Iterator[None]:
    """Translates errors of asyncssh into StoreUnavailable and StoreRefused."""
    import asyncssh

    about = f"{place}: {path}: " if path else f"{place}: "
    try:
        yield
    except asyncssh.PermissionDenied as error:
        raise LoginRefused(f"{about}{error.reason}") from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise IdentityRefused(f"{about}{error.reason}") from error
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise LoginRefused(f"{about}the private key cannot be used: {error}") from error
    except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath, asyncssh.SFTPNotADirectory) as error:
        raise StoreMissing(f"{about}{error.reason}") from error
    except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection) as error:
        raise StoreUnavailable(f"{about}{error.reason}") from error
    except asyncssh.SFTPError as error:
        raise StoreRefused(f"{about}{error.reason}") from error
    except asyncssh.Error as error:
        raise StoreUnavailable(f"{about}{error.reason}") from error
    except TimeoutError as error:
        raise StoreUnavailable(f"{about}no answer in time") from error
    except (OSError, EOFError) as error:
        raise StoreUnavailable(f"{about}{error}") from error

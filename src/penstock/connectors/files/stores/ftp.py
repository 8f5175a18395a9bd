"""Files of an FTP server, also over TLS (RFC 959, 2389, 3659, 4217)."""

from __future__ import annotations

import ftplib
import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, TypeVar

from penstock.connectors.files.stores.folders import (
    FolderStore,
    Item,
    Kind,
    StoreMissing,
    absolute,
    renamed,
)
from penstock.connectors.files.stores.ftp_client import (
    UNKNOWN,
    WIRE,
    FtpConnection,
    FtpOptions,
    UnknownCommand,
    decoded,
    store_errors,
)
from penstock.connectors.files.stores.listings import items_of, list_item, mdtm_ms, mlsd_item
from penstock.connectors.files.stores.reading import FileChanged, ListedFile, OpenFile
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

_BLOCK: Final = 1 << 18
_FRESH_S: Final = 5.0  # a connection that was used so recently is not probed
_GOODBYE_S: Final = 5.0  # how long the reply to an ended transfer may take


class FtpStore(FolderStore):
    """The files of a server, with paths from the root that it exposes."""

    def __init__(self, options: FtpOptions) -> None:
        self._options = options
        self._idle: list[tuple[FtpConnection, float]] = []
        self._raw: dict[str, str] = {}  # paths in another encoding, as the wire carries them
        self._has_mlsd = True  # until the server rejects it
        self._warned: set[str] = set()

    def items(self, folder: str) -> Sequence[Item]:
        path = absolute(folder)

        def listing(client: FtpConnection) -> list[Item]:
            client.cwd(self._wired(client, path))
            named = [self._named(path, item) for item in self._listing(client, path)]
            return [self._complete(client, path, item) for item in named]

        return self._do(listing, path)

    def find(self, path: str) -> ListedFile | None:
        """Uses MLST if the server has it; else the listing of the folder."""
        path = absolute(path)
        folder, _, name = path.rpartition("/")

        def status(client: FtpConnection) -> Item | None:
            if "MLST" not in client.features or not self._has_mlsd:
                raise UnknownCommand("MLST")
            lines = client.sendcmd(f"MLST {self._wired(client, path)}").splitlines()
            item = mlsd_item(lines[1].strip()) if len(lines) > 1 else None
            return None if item is None else self._complete(client, folder, renamed(item, name))

        try:
            item = self._do(status, path)
        except StoreMissing:
            return None
        except UnknownCommand:
            try:
                items = self.items(folder or "/")
            except StoreMissing:
                return None
            item = next((item for item in items if item.name == name), None)
        if item is None or item.kind is not Kind.FILE:
            return None
        return ListedFile(path, item.size, item.modified_ms)

    def connect(self) -> None:
        self._do(lambda client: None, "")

    def check_folder(self, folder: str) -> None:
        path = absolute(folder)
        self._do(lambda client: client.cwd(self._wired(client, path)), path)

    def open(self, found: ListedFile, start: int = 0, *, growing: bool = False) -> OpenFile:
        return _FtpFile(self, found, start, growing)

    def delete_path(self, path: str) -> None:
        self._do(lambda client: client.delete(self._wired(client, path)), path)

    def rename(self, path: str, to: str) -> bool:
        """RNTO replaces files on some servers, and is refused on others. So a task first claims the
        new name by a folder beside it, which only one client can create, and looks whether there
        is a file. Whoever renames without a claim can still come in between; so can anybody if
        the server permits no folders."""
        folder, _, name = to.rpartition("/")
        claim, place = f"{folder}/.{name}.moving", f"{path} to {to}"
        claimed = self._do(lambda client: self._claim(client, claim), place)
        if claimed is False:
            return False
        try:
            if self.find(to) is not None:
                return False
            return self._do(lambda client: self._rename(client, path, to), place)
        finally:
            if claimed:
                with suppress(StoreRefused, StoreUnavailable):
                    self._do(lambda client: client.rmd(self._wired(client, claim)), claim)

    def _claim(self, client: FtpConnection, claim: str) -> bool | None:
        """Creates a folder, after those around it. False if another client has created it; None if
        that is not permitted."""
        folder = ""
        for part in claim.split("/")[1:-1]:
            folder += f"/{part}"
            with suppress(ftplib.error_perm):  # it usually exists
                client.mkd(self._wired(client, folder))
        try:
            client.mkd(self._wired(client, claim))
        except ftplib.error_perm:
            try:
                client.cwd(self._wired(client, claim))
            except ftplib.error_perm:
                return None
            return False
        return True

    def _rename(self, client: FtpConnection, path: str, to: str) -> bool:
        client.sendcmd(f"RNFR {self._wired(client, path)}")
        try:
            client.voidcmd(f"RNTO {self._wired(client, to)}")
        except ftplib.error_perm:
            if self._has_file(client, to):
                return False
            raise
        return True

    def _has_file(self, client: FtpConnection, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        client.cwd(self._wired(client, folder or "/"))
        return any(self._named(folder, item).name == name for item in self._listing(client, folder))

    def rest(self) -> None:
        while self._idle:
            self._idle.pop()[0].end()

    def close(self) -> None:
        self.rest()

    def borrow(self) -> FtpConnection:
        """A connection that the caller must return or close."""
        while self._idle:
            client, since = self._idle.pop()
            if time.monotonic() - since < _FRESH_S or not client.has_ended():
                return client
            client.close()
        client = FtpConnection(self._options)
        client.begin()
        return client

    def release(self, client: FtpConnection) -> None:
        self._idle.append((client, time.monotonic()))

    def retrieve(
        self, client: FtpConnection, found: ListedFile, start: int, *, growing: bool
    ) -> socket.socket:
        """A data connection that sends a file from `start` on."""
        with store_errors(self._options.place, found.path):
            path = self._wired(client, found.path)
            if "SIZE" in client.features:
                size = client.size(path)
                if size is not None and (size < found.size or (size > found.size and not growing)):
                    raise FileChanged(found.path, f"has {size} bytes instead of {found.size}")
            try:
                return client.ntransfercmd(f"RETR {path}", start or None)[0]
            except ftplib.error_perm as error:
                if not start or str(error)[:3] not in UNKNOWN:
                    raise
            data = client.ntransfercmd(f"RETR {path}")[0]
            try:
                _skip(data, start)
            except BaseException:
                data.close()
                raise
            return data

    def errors_of(self, path: str) -> AbstractContextManager[None]:
        """Translates errors about a file into StoreUnavailable and StoreRefused."""
        return store_errors(self._options.place, path)

    def _do(self, work: Callable[[FtpConnection], T], path: str) -> T:
        """Runs `work` with a connection; retries with another if the first had been idle and is
        broken."""
        was_idle = bool(self._idle)
        client = self.borrow()
        try:
            with self.errors_of(path):
                result = work(client)
        except StoreRefused:
            self.release(client)
            raise
        except StoreUnavailable:
            client.close()
            if not was_idle:
                raise
            self.rest()
            return self._do(work, path)
        except BaseException:
            client.close()
            raise
        self.release(client)
        return result

    def _listing(self, client: FtpConnection, path: str) -> list[Item]:
        """The items of the current folder, with undecoded names."""
        if self._has_mlsd and "MLST" in client.features:
            try:
                lines = [line.decode(WIRE) for line in client.lines("MLSD")]
            except ftplib.error_perm as error:
                if str(error)[:3] not in UNKNOWN:
                    raise
                self._has_mlsd = False
            else:
                items, unknown = items_of(lines, mlsd_item)
                self._warn(path, unknown)
                return items
        now, zone = datetime.now(UTC), self._options.zone
        lines = [line.decode(WIRE) for line in _list(client)]
        items, unknown = items_of(lines, lambda line: list_item(line, now, zone))
        self._warn(path, unknown)
        return items

    def _warn(self, path: str, unknown: Sequence[str]) -> None:
        if unknown and path not in self._warned:
            self._warned.add(path)
            text = "%s: %d lines of the listing of %s have an unknown format and are skipped: %r"
            log.warning(text, self._options.place, len(unknown), path, unknown[0])

    def _named(self, folder: str, item: Item) -> Item:
        """An item with its name decoded; remembers names that do not encode to the same bytes."""
        encoding = self._options.encoding
        name = decoded(item.name.encode(WIRE), encoding)
        path = f"{folder.rstrip('/')}/{name}"
        parent = self._raw.get(folder) or _encoded(folder, encoding)
        wired = f"{parent.rstrip('/')}/{item.name}"
        if _encoded(path, encoding) != wired:
            self._raw[path] = wired
        return renamed(item, name)

    def _wired(self, client: FtpConnection, path: str) -> str:
        return self._raw.get(path) or client.wired(path)

    def _complete(self, client: FtpConnection, folder: str, item: Item) -> Item:
        """Requests the size and time of a file that its listing lacks."""
        if item.kind is not Kind.FILE or (item.size >= 0 and item.modified_ms >= 0):
            return item
        path = self._wired(client, f"{folder.rstrip('/')}/{item.name}")
        size, modified_ms = item.size, item.modified_ms
        with suppress(ftplib.error_perm):
            if size < 0:
                size = client.size(path) or 0
            if modified_ms < 0:
                modified_ms = mdtm_ms(client.sendcmd(f"MDTM {path}").partition(" ")[2]) or 0
        return replace(item, size=max(size, 0), modified_ms=max(modified_ms, 0))


def _encoded(path: str, encoding: str) -> str:
    return path.encode(encoding, "replace").decode(WIRE)


def _list(client: FtpConnection) -> list[bytes]:
    """The LIST lines of the current folder. Some servers refuse to list an empty one."""
    try:
        return client.lines("LIST")
    except (ftplib.error_perm, ftplib.error_temp) as error:
        text = str(error).lower()
        if text[:3] in ("550", "450") and ("no files" in text or "not found" in text):
            return []
        raise


def _skip(data: socket.socket, count: int) -> None:
    while count:
        block = data.recv(min(count, _BLOCK))
        if not block:
            return
        count -= len(block)


class _FtpFile(OpenFile):
    """A file that is being read, with at most one data connection."""

    def __init__(self, store: FtpStore, found: ListedFile, start: int, growing: bool) -> None:
        self.size = found.size
        self._store = store
        self._found = found
        self._position = start
        self._growing = growing
        self._client: FtpConnection | None = None
        self._data: socket.socket | None = None

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, /) -> int:
        if position != self._position:
            self.close()
            self._position = position
        return position

    def read(self, n: int = -1, /) -> bytes:
        parts: list[bytes] = []
        while n:
            block = self._block(_BLOCK if n < 0 else min(n, _BLOCK))
            if not block:
                break
            parts.append(block)
            n -= len(block) if n > 0 else 0
            self._position += len(block)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Aborts a running transfer, which the server may report as a failure."""
        client, data, self._client, self._data = self._client, self._data, None, None
        if data is not None:
            with suppress(OSError):
                data.close()
        if client is None:
            return
        try:
            client.wait_at_most(_GOODBYE_S)
            client.getmultiline()
            client.wait_at_most(client.options.timeout_s)
        except (OSError, EOFError, ftplib.Error):
            client.close()
        else:
            self._store.release(client)

    def _block(self, size: int) -> bytes:
        """The next bytes; none at the end."""
        if self._data is None:
            if self._position >= self.size and not self._growing:
                return b""
            self._begin()
        client, data = self._client, self._data
        assert client is not None
        assert data is not None, "it has begun"
        try:
            with self._store.errors_of(self._found.path):
                block = data.recv(size)
                if not block:
                    data.close()
                    client.voidresp()  # whether the transfer is complete
        except BaseException:
            self._client = self._data = None
            data.close()
            client.close()
            raise
        if not block:
            self._client = self._data = None
            self._store.release(client)
            if self._position < self.size:
                raise FileChanged(self._found.path, "became shorter")
            self.size = self._position
        return block

    def _begin(self) -> None:
        client = self._store.borrow()
        try:
            self._data = self._store.retrieve(
                client, self._found, self._position, growing=self._growing
            )
        except StoreRefused:
            self._store.release(client)
            raise
        except BaseException:
            client.close()
            raise
        self._client = client

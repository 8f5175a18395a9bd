"""The offset file of a standalone worker, in Kafka Connect's format: a serialized
`java.util.HashMap` of byte arrays (kafka-connect.md §12.2), keys and values as in the offset topic.

    >>> decode(encode({b'["c",{}]': b'{"at":1}', b'["c",{"n":2}]': None}))
    {b'["c",{}]': b'{"at":1}', b'["c",{"n":2}]': None}

Format: Java Object Serialization Specification, chapter 6. Reading creates
only a map of byte arrays, regardless of the file's contents.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import StartupFailed
from penstock.kafka.log import LogEntry

log = logging.getLogger(__name__)

Offsets = dict[bytes | None, bytes | None]
"""The file's entries. As in Kafka Connect, a reset offset stays, as None."""

_HASH_MAP: Final = "java.util.HashMap"
_HASH_MAP_UID: Final = 0x0507DAC1C31660D1
_HASH_MAP_FIELDS: Final = ("FloadFactor", "Ithreshold")  # type and name
_BYTES: Final = "[B"
_BYTES_UID: Final = 0xACF317F8060854E0

_STREAM: Final = bytes.fromhex("ACED0005")
_NULL: Final = 0x70
_REFERENCE: Final = 0x71
_CLASS: Final = 0x72
_OBJECT: Final = 0x73
_STRING: Final = 0x74
_ARRAY: Final = 0x75
_BLOCK: Final = 0x77
_END: Final = 0x78
_LONG_BLOCK: Final = 0x7A
_LONG_STRING: Final = 0x7C
_FIRST_HANDLE: Final = 0x7E0000
_WRITE_METHOD: Final = 0x01
_SERIALIZABLE: Final = 0x02
_SIZES: Final[Mapping[str, int]] = {
    **{"B": 1, "C": 2, "D": 8, "F": 4},
    **{"I": 4, "J": 8, "S": 2, "Z": 1},
}


class OffsetFileInvalid(StartupFailed):
    """The file exists and holds something else, which a worker would overwrite."""


def encode(offsets: Mapping[bytes | None, bytes | None]) -> bytes:
    """The file's bytes, as a `HashMap` filled with the entries one by one serializes itself."""
    buckets = 16
    while len(offsets) > buckets * 3 // 4:
        buckets *= 2
    # A map that never held anything has no table yet, and so no threshold.
    threshold = buckets * 3 // 4 if offsets else 0
    out = [
        _STREAM,
        bytes([_OBJECT]),
        _described(_HASH_MAP, _HASH_MAP_UID, _WRITE_METHOD | _SERIALIZABLE, _HASH_MAP_FIELDS),
        struct.pack(">fi", 0.75, threshold),
        struct.pack(">BBii", _BLOCK, 8, buckets, len(offsets)),
    ]
    array = b""  # the class of the arrays: described once, referred to from then on
    for entry in offsets.items():
        for part in entry:
            if part is None:
                out.append(bytes([_NULL]))
                continue
            out += [
                bytes([_ARRAY]),
                array or _described(_BYTES, _BYTES_UID, _SERIALIZABLE, ()),
                struct.pack(">i", len(part)),
                part,
            ]
            # Handles are given in order: the map's class, the map, the class of its first array.
            array = struct.pack(">BI", _REFERENCE, _FIRST_HANDLE + 2)
    out.append(bytes([_END]))
    return b"".join(out)


def _described(name: str, uid: int, flags: int, fields: Sequence[str]) -> bytes:
    return b"".join(
        [
            bytes([_CLASS]),
            _text(name),
            struct.pack(">QBH", uid, flags, len(fields)),
            *(field[:1].encode() + _text(field[1:]) for field in fields),
            bytes([_END, _NULL]),  # no annotations, no superclass
        ]
    )


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


@dataclass(frozen=True, slots=True)
class _Class:
    """A class description in a stream: its fields are type and name."""

    name: str
    flags: int
    fields: tuple[tuple[str, str], ...]
    parent: _Class | None

    def line(self) -> list[_Class]:
        """The class and its superclasses, the topmost first, as their data is written."""
        return [*(self.parent.line() if self.parent else []), self]


@dataclass(frozen=True, slots=True)
class _Other:
    """Any other object."""

    kind: str


class _NotOffsets(ValueError):
    """Not an offset file; the text says why."""


_Content = Offsets | bytes | str | _Class | _Other | None


def decode(data: bytes) -> Offsets:
    """The file's entries; none if it is empty. Raises OffsetFileInvalid for anything but a map
    of byte arrays."""
    if not data:
        return {}
    if not data.startswith(_STREAM):
        raise OffsetFileInvalid(
            "It is not a serialized Java object: it begins with "
            f"{data[:4].hex(' ')} rather than {_STREAM.hex(' ')}."
        )
    try:
        content = _Reader(data).content()
    except _NotOffsets as error:
        raise OffsetFileInvalid(str(error)) from None
    except (struct.error, UnicodeDecodeError, RecursionError, IndexError) as error:
        raise OffsetFileInvalid("It ends in the middle, or is damaged.") from error
    if not isinstance(content, dict):
        raise OffsetFileInvalid(f"Expected HashMap but found {_kind(content)}")
    return content


def _kind(content: _Content) -> str:
    match content:
        case None:
            return "null"
        case _Other():
            return f"class {content.kind}"
        case str():
            return "class java.lang.String"
        case bytes():
            return f"class {_BYTES}"
    return "class java.io.ObjectStreamClass"


class _Reader:
    """One pass over a stream. Handles are followed wherever they occur."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_STREAM)
        self._handles: list[_Content] = []

    def content(self) -> _Content:
        readers = {_CLASS: self._class, _OBJECT: self._object, _ARRAY: self._array}
        code = self._byte()
        if code == _NULL:
            return None
        if code == _REFERENCE:
            handle = self._unpack(">I") - _FIRST_HANDLE
            if handle < 0:
                raise _NotOffsets("It is damaged: it refers to an object that it does not contain.")
            return self._handles[handle]
        if code in (_STRING, _LONG_STRING):
            size = self._unpack(">H" if code == _STRING else ">Q")
            return self._keep(self._take(size).decode("utf-8", "surrogatepass"))
        if code in readers:
            return readers[code]()
        raise _NotOffsets(
            f"It contains something that no offset file does (type code 0x{code:02x})."
        )

    def _object(self) -> _Content:
        described = self._described()
        if described is None:
            raise _NotOffsets("It contains an object without a class.")
        line = described.line()
        if all(cls.name != _HASH_MAP for cls in line):
            return self._keep(_Other(described.name))  # the rest is irrelevant
        offsets: Offsets = {}
        self._keep(offsets)
        for cls in line:
            for kind, _ in cls.fields:
                if kind in _SIZES:
                    self._take(_SIZES[kind])
                else:
                    self.content()
            if cls.name == _HASH_MAP:
                self._entries(offsets)
            elif cls.flags & _WRITE_METHOD:
                self._skip_annotations()
        return offsets

    def _entries(self, offsets: Offsets) -> None:
        """Reads a `HashMap`'s data after its fields: buckets and size in a block, then entries."""
        if (self._byte(), self._byte()) != (_BLOCK, 8):
            raise _NotOffsets("It contains a HashMap that is not serialized as Java does it.")
        self._take(4)
        for _ in range(self._unpack(">i")):
            key, value = self._bytes(), self._bytes()
            offsets[key] = value
        if self._byte() != _END:
            raise _NotOffsets("It contains a HashMap with more entries than its size.")

    def _bytes(self) -> bytes | None:
        content = self.content()
        if content is None or isinstance(content, bytes):
            return content
        kind = "class java.util.HashMap" if isinstance(content, dict) else _kind(content)
        raise _NotOffsets(f"Expected byte arrays in the HashMap but found {kind}")

    def _array(self) -> _Content:
        described = self._described()
        if described is None or described.name != _BYTES:
            return self._keep(_Other(described.name if described else "null"))
        at = len(self._handles)
        self._keep(None)
        array = self._take(self._unpack(">i"))
        self._handles[at] = array
        return array

    def _described(self) -> _Class | None:
        content = self.content()
        if content is None or isinstance(content, _Class):
            return content
        raise _NotOffsets("It is damaged: a class description was expected.")

    def _class(self) -> _Class:
        name = self._name()
        self._take(8)  # the version of the class
        at = len(self._handles)
        self._keep(None)
        flags = self._byte()
        fields = []
        for _ in range(self._unpack(">H")):
            kind = chr(self._byte())
            fields.append((kind, self._name()))
            if kind not in _SIZES:
                self.content()  # the name of its class
        self._skip_annotations()
        description = _Class(name, flags, tuple(fields), self._described())
        self._handles[at] = description
        return description

    def _skip_annotations(self) -> None:
        while True:
            code = self._data[self._at]
            if code == _END:
                self._at += 1
                return
            if code in (_BLOCK, _LONG_BLOCK):
                self._at += 1
                self._take(self._byte() if code == _BLOCK else self._unpack(">i"))
            else:
                self.content()

    def _keep(self, content: _Content) -> _Content:
        self._handles.append(content)
        return content

    def _name(self) -> str:
        return self._take(self._unpack(">H")).decode()

    def _byte(self) -> int:
        return self._unpack(">B")

    def _unpack(self, layout: str) -> int:
        (number,) = struct.unpack(layout, self._take(struct.calcsize(layout)))
        return int(number)

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise struct.error("truncated")
        data = self._data[self._at : end]
        self._at = end
        return data


def read(file: Path) -> Offsets:
    """A file's entries; none if it does not exist. Raises OffsetFileInvalid."""
    try:
        return decode(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise OffsetFileInvalid(
            f"The offset file '{file}' cannot be read: {error.strerror}."
        ) from (error)
    except OffsetFileInvalid as error:
        raise OffsetFileInvalid(
            f"The offset file '{file}' ('offset.storage.file.filename') cannot be used. {error}"
        ) from error


def write(file: Path, offsets: Mapping[bytes | None, bytes | None]) -> None:
    """Replaces the file atomically: a reader sees the old or the new one, even if this process or
    the machine dies meanwhile. Raises OSError."""
    target = Path(os.path.realpath(file))  # a link remains a link
    new = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with new.open("wb") as out:
            out.write(encode(offsets))
            out.flush()
            os.fsync(out.fileno())
        with contextlib.suppress(OSError):  # there is no old one
            new.chmod(target.stat().st_mode & 0o777)
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


class FileLog:
    """The offsets of a standalone worker as a log: in memory at once, in the file a little later.

    The file is written every `interval_s` seconds, on `flush`, and at the end. A failed write is
    logged and retried with the next one.
    """

    def __init__(
        self, file: Path, interval_s: float, receive: Callable[[Sequence[LogEntry]], None]
    ) -> None:
        """Reads the file. Raises OffsetFileInvalid."""
        if not file.absolute().parent.is_dir():
            raise OffsetFileInvalid(
                f"The directory of the offset file '{file}' ('offset.storage.file.filename') does "
                "not exist."
            )
        self.file = file
        self._interval_s = interval_s
        self._receive = receive
        self._offsets = read(file)
        self._next = len(self._offsets)
        self._lock = threading.Lock()
        self._dirty = False
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._writing = threading.Lock()
        self._writer = threading.Thread(target=self._run, name="offset-file", daemon=True)

    def open(self) -> None:
        """Delivers the file's entries."""
        rows = enumerate(self._offsets.items())
        entries = [LogEntry(0, at, key, value) for at, (key, value) in rows]
        if entries:
            self._receive(entries)
        self._writer.start()

    def start(self, timeout_s: float = 0.0) -> None:
        self.open()

    def append(self, key: bytes, value: bytes | None) -> Future[tuple[int, int]]:
        """Sets one entry; it has been received when this returns."""
        with self._lock:
            at = self._next
            self._next += 1
            self._offsets[key] = value
            self._dirty = True
            self._receive([LogEntry(0, at, key, value)])
        done: Future[tuple[int, int]] = Future()
        done.set_result((0, at))
        return done

    def drop(self) -> None:
        """Nothing is ever in flight."""

    def read_to_end(self, timeout_s: float, check: Callable[[], None] = lambda: None) -> None:
        """Everything has been received already."""

    def flush(self) -> None:
        """Schedules a write if there is anything new. Returns at once."""
        self._wake.set()

    def close(self, timeout_s: float = 5.0) -> None:
        """Writes pending changes."""
        self._closing.set()
        self._wake.set()
        if self._writer.is_alive():
            self._writer.join(timeout_s)
        self._write()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(self._interval_s)
            self._wake.clear()
            self._write()

    def _write(self) -> None:
        with self._writing:
            with self._lock:
                if not self._dirty:
                    return
                self._dirty = False
                offsets = dict(self._offsets)
            try:
                write(self.file, offsets)
            except OSError as error:
                with self._lock:
                    self._dirty = True
                log.error("Failed to write the offset file '%s': %s", self.file, error)

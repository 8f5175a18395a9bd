"""The contract of object stores: the operations that a vendor's client provides.

A store is a module with an `ObjectClient`; `uploads` writes objects with it, and `objects_reading`
reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from penstock.connectors.files.stores.connection import Connection
from penstock.connectors.files.stores.existing import Names
from penstock.connectors.files.stores.reading import ListedFile


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a write, and the metadata of the object that is written under it."""

    version: str | None
    """The version of the object to be replaced; None: no object of that name exists."""
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stored:
    """An object that exists."""

    file: ListedFile
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing."""

    files: Sequence[ListedFile]
    folders: Sequence[str]
    next: str | None
    """Continues the listing; None at its end."""


@dataclass(slots=True)
class Part:
    """A part of an object that is being uploaded."""

    number: int
    """Counted from 0."""
    start: int
    """The position of its first byte in the object."""
    data: bytes
    is_last: bool = False
    """Whether the object ends with it."""


class Upload(ABC):
    """An object that is uploaded in parts, and exists once it is completed. Methods raise the
    errors of the vendor's client, and may be called again then."""

    conditional: ClassVar[bool] = False
    """Whether `complete` knows conditions; if not, it replaces an existing object."""
    remains: ClassVar[bool] = True
    """Whether a part that arrives after `abort` remains stored."""

    @abstractmethod
    def send(self, part: Part) -> None:
        """Sends a part. Called by several threads, one for each part."""

    @abstractmethod
    def complete(self, condition: Condition | None = None) -> None:
        """Creates the object from all parts."""

    @abstractmethod
    def abort(self) -> None:
        """Discards the parts."""


class ObjectClient(Connection):
    """The operations of a bucket or container.

    All but `call` raise the errors of the vendor's client, in an attempt of their own: callers pass
    them to `call`, which translates the errors and retries.
    """

    smallest_part: ClassVar[int]
    """The minimum size of all parts except the last, in bytes."""
    part_unit: ClassVar[int] = 1
    """All parts except the last are multiples of it."""
    in_order: ClassVar[bool] = False
    """Whether parts must be sent one after the other."""
    names: ClassVar[Names] = Names()
    """The names of metadata."""
    gone: ClassVar[frozenset[str]]
    """Reasons of refusals because the object does not exist."""
    changed: ClassVar[frozenset[str]]
    """Reasons of refusals because the object has another version."""
    exists: ClassVar[frozenset[str]]
    """Reasons of refusals of conditional writes because of the existing object."""
    part_bytes: int
    """The configured size of parts."""

    @abstractmethod
    def put(
        self,
        path: str,
        data: bytes,
        about: Mapping[str, str],
        condition: Condition | None = None,
    ) -> None:
        """Creates an object with one request. `about`: see `NewFile.about`."""

    @abstractmethod
    def begin(self, path: str) -> Upload:
        """Begins an upload."""

    def label(self, path: str, about: Mapping[str, str]) -> None:
        """Labels an object that was uploaded in parts as `put` does."""

    def try_upload(self, path: str) -> None:
        """Raises what an upload to this name would; creates no object."""
        self.begin(path).abort()

    @abstractmethod
    def head(self, path: str) -> Stored | None:
        """An object by its name. If there is none, returns None, or is refused for a reason in
        `gone`."""

    @abstractmethod
    def page(self, prefix: str, after: str, token: str | None, *, recursive: bool) -> Page:
        """A page of the objects whose names begin with `prefix`, in order. It may contain names up
        to `after`. Without `recursive`, only those with no slash after the prefix, and the folders
        below it, with trailing slashes."""

    @abstractmethod
    def get(self, found: ListedFile, begin: int, end: int) -> bytes:
        """The bytes of an object from one position up to another. Refused if it has changed."""

"""What happens to a file once its records are in Kafka and its offset is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import Enum

from penstock.connectors.files.stores.reading import (
    FileStore,
    ListedFile,
    ReadStore,
    move_without_replacing,
)


class Policy(Enum):
    """What happens to a file that was read."""

    NONE = "NONE"
    DELETE = "DELETE"
    MOVE = "MOVE"
    MOVEBYDATE = "MOVEBYDATE"


@dataclass(frozen=True, slots=True)
class After:
    """Policies for files that were read, and for files that cannot be read.

    >>> after = After(Policy.MOVEBYDATE, "/done/", relative_to="/in/")
    >>> after.destination(ListedFile("/in/b/a.csv", 1, 86_400_000))
    '/done/b/1970-01-02/a.csv'
    """

    policy: Policy = Policy.NONE
    folder: str = ""
    """The folder for files that were read; ends with a slash."""
    errors: str | None = None
    """The folder for files that cannot be read."""
    relative_to: str = ""
    """Moved files keep their path relative to this folder; "": only their name."""
    zone: tzinfo = UTC

    @property
    def removes(self) -> bool:
        """Whether files are removed after they were read."""
        return self.policy is not Policy.NONE

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that files are moved to."""
        moved = (self.folder,) if self.policy in (Policy.MOVE, Policy.MOVEBYDATE) else ()
        return (*moved, self.errors) if self.errors else moved

    def destination(self, found: ListedFile, *, error: bool = False) -> str:
        """The new path of a file that is moved."""
        folder, _, name = found.path.rpartition("/")
        within = ""
        if self.relative_to and f"{folder}/".startswith(self.relative_to):
            within = f"{folder}/"[len(self.relative_to) :]
        if error:
            return f"{self.errors}{within}{name}"
        if self.policy is Policy.MOVEBYDATE:
            day = datetime.fromtimestamp(found.modified_ms / 1000, self.zone)
            within += f"{day:%Y-%m-%d}/"
        return f"{self.folder}{within}{name}"

    def apply(self, store: ReadStore, found: ListedFile, *, error: bool) -> bool:
        """Applies the policy; may be repeated. Returns whether the file was removed."""
        if self.policy is Policy.NONE and not (error and self.errors):
            return False
        assert isinstance(store, FileStore), "no other source has these settings"
        if error:
            if self.errors is None:
                return False
            move_without_replacing(store, found, self.destination(found, error=True))
        elif self.policy is Policy.DELETE:
            store.delete(found)
        else:
            move_without_replacing(store, found, self.destination(found))
        return True

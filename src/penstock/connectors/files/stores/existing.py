"""Objects that exist under the name of one that is to be stored, where names end by the clock.

An object names in its metadata its writer, its last offset and its origin. The name alone does not
tell what it holds: offsets may have been reset, or the topic may have been created again.

| the existing object | what happens |
|---|---|
| of the same writer | it is the object: it was put before, and the response was lost |
| of the same origin | it is kept, and the task continues after its last offset |
| of the same partition and a later lineage | the task waits, as it is about to lose the partition |
| any other | it is replaced, provided that nobody replaces it at the same time |
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from penstock.connectors.files.stores.store import FileExists, NewFile, StoreUnavailable

log = logging.getLogger(__name__)

_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the metadata; `mark` is between their words."""

    mark: str = "-"

    def _name(self, *words: str) -> str:
        return self.mark.join(("penstock", *words))

    @property
    def _writer(self) -> str:
        return self._name("writer")

    @property
    def _end(self) -> str:
        return self._name("end", "offset")

    def of(self, file: NewFile, writer: str) -> dict[str, str]:
        """The metadata of a complete file."""
        origin = file.origin
        return {
            self._writer: writer,
            self._end: file.about["endOffset"],
            self._name("source"): quote(origin.source),  # metadata is ASCII
            self._name("lineage"): origin.lineage,
            self._name("first", "timestamp"): str(origin.first_ms),
        }

    def is_stored(self, file: NewFile, writer: str, existing: Mapping[str, str]) -> bool:
        """Whether an existing object with this metadata is the file; if not, it may be replaced.
        Raises FileExists and StoreUnavailable."""
        if existing.get(self._writer) == writer:
            return True
        own = self.of(file, writer)
        different = [
            name
            for name in own
            if name not in (self._writer, self._end) and existing.get(name) != own[name]
        ]
        if not different and self._end in existing:
            raise FileExists(file.path, int(existing[self._end]))
        lineage, source = self._name("lineage"), self._name("source")
        if source not in different and existing.get(lineage, "") > own[lineage]:
            raise StoreUnavailable(
                f"{file.path} is of a task that began later, so this one is about to lose "
                f"{file.origin.source}. If it does not, the clocks of the workers differ."
            )
        log.warning(
            "Replacing %s, which holds something else: it differs in %s",
            file.path,
            ", ".join(different) or self._end,
        )
        return False


def put(
    file: NewFile,
    writer: str,
    names: Names,
    put_if: Callable[[str | None], bool],
    look: Callable[[], tuple[str, Mapping[str, str]] | None],
) -> None:
    """Stores a file. `put_if` puts it if the existing object has this version (None: if none
    exists) and returns whether it did; `look` returns the version and the metadata of the existing
    object, if there is one. Raises FileExists and StoreUnavailable."""
    version: str | None = None
    for _ in range(_TRIES):
        if put_if(version):
            return
        found = look()
        if found is None:
            version = None
            continue
        version, metadata = found
        if names.is_stored(file, writer, metadata):
            return
    raise StoreUnavailable(f"{file.path} is being replaced by others all the time.")

"""Names of the things a cluster is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One task of one connector. Tasks are numbered from 0."""

    connector: str
    number: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.number}"

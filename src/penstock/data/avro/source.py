"""Generates Python functions as text, for the compilers of Avro data.

Only names of a schema become code, as literals; everything else is a constant among the globals of
the functions. `path_of` finds the place in the data where a function failed by its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from penstock.data.avro import schema as names
from penstock.data.avro.schema import Node, Nodes, resolved
from penstock.data.paths import Step, at_index, at_key

_MOST_INDENT: Final = 12  # Python limits the nesting
_FILE: Final = "<avro>"
_PATHS: Final = "paths"
"""The global with the path of each line, by function."""


@dataclass(frozen=True, slots=True)
class Index:
    """The step to the element that comes after those in the variable `done`."""

    done: str


@dataclass(frozen=True, slots=True)
class ArrayItem:
    """The step to the element `item` of the variable `items`."""

    items: str
    item: str


@dataclass(frozen=True, slots=True)
class MapKey:
    """The step to the entry whose key is in a variable."""

    variable: str


Path = tuple[str | Index | ArrayItem | MapKey, ...]


def path_of(error: BaseException) -> list[Step]:
    """The steps to the value at which a generated function failed; none for the whole value."""
    steps: list[Step] = []
    trace = error.__traceback__
    while trace is not None:
        frame, code = trace.tb_frame, trace.tb_frame.f_code
        if code.co_filename == _FILE:
            path: Path = frame.f_globals[_PATHS][code.co_name][trace.tb_lineno - 1]
            steps += (_step(part, frame.f_locals) for part in path)
        trace = trace.tb_next
    return steps


def _step(part: str | Index | ArrayItem | MapKey, variables: Mapping[str, Any]) -> Step:
    match part:
        case str():
            return part
        case Index(done):
            return at_index(len(variables[done]))
        case ArrayItem(items, item):
            there = (value is variables[item] for value in variables[items])
            return at_index(next(at for at, same in enumerate(there) if same))
        case MapKey(variable):
            return at_key(variables[variable])


class Source:
    """Functions being generated, and their globals."""

    def __init__(self, named: Nodes, known: dict[str, Any]) -> None:
        self.named = named
        self.globals = known
        self._paths: dict[str, list[Path]] = {}
        known[_PATHS] = self._paths
        self._lines: list[str] = []
        self._line_paths: list[Path] = []
        self._path: Path = ()
        self._indent = 0
        self._count = 0
        self._used: set[str] = set()
        self._functions: dict[str, str] = {}  # of named types

    def new(self, letter: str) -> str:
        """A new name."""
        self._count += 1
        return f"{letter}{self._count}"

    def constant(self, value: object) -> str:
        """The name of a global with this value."""
        name = self.new("k")
        self.globals[name] = value
        return name

    def line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)
        self._line_paths.append(self._path)

    @contextmanager
    def at(self, step: str | Index | ArrayItem | MapKey) -> Iterator[None]:
        """Lines written inside the context handle a value one step further inside."""
        outer, self._path = self._path, (*self._path, step)
        yield
        self._path = outer

    @contextmanager
    def under(self, header: str) -> Iterator[None]:
        """Lines written inside the context are indented under `header`."""
        self.line(header)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def function(self, name: str, parameters: str) -> Iterator[None]:
        """Lines written inside the context are the body of a new global function."""
        outer = self._lines, self._line_paths, self._path, self._indent
        self._lines, self._line_paths, self._path, self._indent = [], [], (), 0
        with self.under(f"def {name}({parameters}):"):
            yield
        source = "\n".join(self._lines)
        self._paths[name] = self._line_paths
        self._lines, self._line_paths, self._path, self._indent = outer
        exec(compile(source, _FILE, "exec"), self.globals)

    @property
    def deep(self) -> bool:
        """Whether the nesting requires a new function."""
        return self._indent > _MOST_INDENT

    def shared(self, node: Node) -> tuple[str | None, bool]:
        """The name of a record's function, and whether it must be generated.

        A repeated type gets a function, or code would grow exponentially; so does a recursive one.
        """
        name = resolved(node, self.named)["name"]
        if name in self._functions:
            return self._functions[name], False
        if name in self._used or name == names.ANYTHING:
            self._functions[name] = self.new("f")
            return self._functions[name], True
        self._used.add(name)
        return None, False

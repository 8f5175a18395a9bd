"""Generates Python functions as text, for the compilers of Avro data.

Only names of a schema become code, as literals; everything else is a constant among the globals of
the functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from penstock.data.avro import schema as names
from penstock.data.avro.schema import Node, Nodes, resolved

_MOST_INDENT: Final = 12  # Python limits the nesting


class Source:
    """Functions being generated, and their globals."""

    def __init__(self, named: Nodes, known: dict[str, Any]) -> None:
        self.named = named
        self.globals = known
        self._lines: list[str] = []
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
        outer, self._lines = self._lines, []
        indent, self._indent = self._indent, 0
        with self.under(f"def {name}({parameters}):"):
            yield
        source = "\n".join(self._lines)
        self._lines, self._indent = outer, indent
        exec(compile(source, "<avro>", "exec"), self.globals)

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

"""Writing Python functions out as text, which the compilers of Avro data have in common.

Nothing of a schema becomes code but names, as literals; everything else it holds is a constant
among the globals of the functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from penstock.schema_registry import avro_schema as names
from penstock.schema_registry.avro_schema import Node, Nodes, resolved

_MOST_INDENT: Final = 12  # Python has a limit, and so do readers of a trace


class Source:
    """Functions that are being written, and the globals they will see."""

    def __init__(self, named: Nodes, known: dict[str, Any]) -> None:
        self.named = named
        self.globals = known
        self._lines: list[str] = []
        self._indent = 0
        self._count = 0
        self._seen: set[str] = set()
        self._functions: dict[str, str] = {}  # of the named types that have one

    def new(self, letter: str) -> str:
        """A name that is used for nothing else."""
        self._count += 1
        return f"{letter}{self._count}"

    def constant(self, value: object) -> str:
        """The name of a global that is `value`."""
        name = self.new("k")
        self.globals[name] = value
        return name

    def line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def under(self, header: str) -> Iterator[None]:
        """What is written inside is indented under `header`."""
        self.line(header)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def function(self, name: str, parameters: str) -> Iterator[None]:
        """What is written inside is the body of a function of its own, among the globals after."""
        outer, self._lines = self._lines, []
        indent, self._indent = self._indent, 0
        with self.under(f"def {name}({parameters}):"):
            yield
        source = "\n".join(self._lines)
        self._lines, self._indent = outer, indent
        exec(compile(source, "<avro>", "exec"), self.globals)

    @property
    def deep(self) -> bool:
        """Whether it is time for a function of its own."""
        return self._indent > _MOST_INDENT

    def shared(self, node: Node) -> tuple[str | None, bool]:
        """The function of a record that has one of its own, and whether it is still to be written.

        A type that occurs again has one, or code would double each time; so does one that is meant
        to hold itself.
        """
        name = resolved(node, self.named)["name"]
        if name in self._functions:
            return self._functions[name], False
        if name in self._seen or name == names.ANYTHING:
            self._functions[name] = self.new("f")
            return self._functions[name], True
        self._seen.add(name)
        return None, False

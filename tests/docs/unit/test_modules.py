"""A module of src/penstock has one subject: at most 600 lines, and no banners between subjects. In
the core, classes and functions are small, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.places import ROOT

SOURCE = ROOT / "src" / "penstock"
MODULES = {
    path.relative_to(SOURCE).as_posix(): path.read_text().splitlines()
    for path in sorted(SOURCE.rglob("*"))
    if path.suffix in {".py", ".java"}
}

MOST_LINES = 600
TABLES = {
    "cluster/events.py": "the catalogue of the herder's events, requests and commands",
    "runtime/metric_table.py": "the catalogue of a worker's metrics",
}
CORE = ("cluster", "runtime", "flow", "kafka", "offsets", "rest", "host")
MOST_LINES_OF_A_CLASS = 250
MOST_LINES_OF_A_FUNCTION = 60
MOST_ATTRIBUTES = 15
LARGER = {
    "cluster/assign.py: assign_cooperative": "67 lines",
    "flow/driver/tasks.py: Tasks": "333 lines",
    "runtime/planning.py: Planner.flow": "79 lines",
    "runtime/validation.py: Validator": "271 lines",
    "runtime/worker.py: Worker": "30 attributes",
    "runtime/worker.py: Worker.__init__": "80 lines",
}
"""Classes and functions that are larger. They may only shrink."""
BANNER = re.compile(r"^\s*(?:#|//)\s*[─━═=*#~_-]{2}")


def banners(lines: list[str]) -> Iterator[int]:
    """The numbers of lines that are banners."""
    for number, line in enumerate(lines, 1):
        if BANNER.match(line):
            yield number


def test_only_tables_have_more_than_600_lines() -> None:
    long = {name: len(lines) for name, lines in MODULES.items() if len(lines) > MOST_LINES}

    assert {name: count for name, count in long.items() if name not in TABLES} == {}
    assert set(TABLES) <= set(long), "a table that has become short need not be listed"


def test_no_module_has_banners() -> None:
    found = {name: list(banners(lines)) for name, lines in MODULES.items()}

    assert {name: numbers for name, numbers in found.items() if numbers} == {}


def test_banner_comments_are_recognized() -> None:
    lines = ["# ── the loop ──", "    // --- keys", "# a comment - with a dash", "x = 1  # ── here"]

    assert list(banners(lines)) == [1, 2]


def attributes(definition: ast.ClassDef) -> set[str]:
    """What instances of a class have: the fields it declares, and what is assigned to `self`."""
    declared = {
        node.target.id
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return declared | {
        node.attr
        for node in ast.walk(definition)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def larger(source: str) -> Iterator[tuple[str, str]]:
    """The classes and functions of a module that are above the limits, and by what."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from walk(child, prefix)
                continue
            name = prefix + child.name
            lines = (child.end_lineno or 0) - child.lineno + 1
            if isinstance(child, ast.ClassDef):
                if (count := len(attributes(child))) > MOST_ATTRIBUTES:
                    yield name, f"{count} attributes"
                elif lines > MOST_LINES_OF_A_CLASS:
                    yield name, f"{lines} lines"
            elif lines > MOST_LINES_OF_A_FUNCTION:
                yield name, f"{lines} lines"
            yield from walk(child, f"{name}.")

    yield from walk(ast.parse(source), "")


def test_classes_and_functions_of_the_core_are_small() -> None:
    found = {
        f"{module}: {name}": size
        for module, lines in MODULES.items()
        if module.split("/")[0] in CORE and module.endswith(".py")
        for name, size in larger("\n".join(lines))
    }

    assert set(found) <= set(LARGER), "divide them"
    assert set(LARGER) <= set(found), "one that has become small need not be listed"
    for name, size in found.items():
        assert int(size.split()[0]) <= int(LARGER[name].split()[0]), f"{name} may only shrink"


def test_which_classes_and_functions_are_larger() -> None:
    many = "\n".join(f"        self.a{number} = 0" for number in range(16))
    long = "\n".join("        pass" for _ in range(61))
    source = f"class A:\n    def few(self):\n        self.a = 0\n    def long(self):\n{long}\n"
    source += f"class B:\n    def __init__(self):\n{many}\n"

    assert list(larger(source)) == [("A.long", "62 lines"), ("B", "16 attributes")]

"""One name for one thing: a public class of the core, or of a connector family, has a name that no
other one there has. What is listed here is older than this rule; the lists may only shrink."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping

from tests.places import ROOT

SOURCE = ROOT / "src" / "penstock"
TWICE: Mapping[str, frozenset[str]] = {
    "core": frozenset(
        {
            "Fields",
            "Malformed",
            "Member",
            "Options",
            "Parts",
            "Refused",
            "Response",
            "Run",
            "Target",
            "Version",
        }
    ),
}


def classes_by_scope() -> dict[str, dict[str, list[str]]]:
    """Modules of public classes, by class, by scope: a connector family, or the core."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        scope = parts[1] if parts[0] == "connectors" and len(parts) > 2 else "core"
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[scope][node.name].append(".".join(parts))
    return found


def test_a_public_class_has_a_name_of_its_own() -> None:
    found = {
        scope: {name: modules for name, modules in names.items() if len(modules) > 1}
        for scope, names in classes_by_scope().items()
    }
    new = {
        name: modules
        for scope, names in found.items()
        for name, modules in names.items()
        if name not in TWICE.get(scope, frozenset())
    }
    assert new == {}, "choose another name"
    ended = {scope: names - found[scope].keys() for scope, names in TWICE.items()}
    assert not any(ended.values()), f"a name that is there once now need not be listed: {ended}"


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and node.value.value.startswith("Of ")
    ]
    assert found == []

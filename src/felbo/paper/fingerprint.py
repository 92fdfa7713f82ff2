"""Fingerprint of a study's code, to detect cells that were computed by other code."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

Place = tuple[str, str]  # of a definition: module and name


class _Module(NamedTuple):
    """Top level of a module: its definitions by name, and the origin of imported names."""

    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, Place]


def fingerprint(function: Callable[..., Any]) -> str:
    """Hash a function together with every definition of its package that it uses, transitively.

    Names are followed from definition to definition, also into other modules of the package that
    contains the function's module. Comments, docstrings and formatting are ignored, and so is code
    that the function does not use: for ``run`` of a study, its figure and its claims.

    Returns:
        16 hexadecimal digits; empty for a function whose source is not available.
    """
    while isinstance(function, partial):
        function = function.func
    package = function.__module__.rpartition(".")[0]
    # A nested function is hashed with the whole function around it.
    queue: list[Place] = [(function.__module__, function.__qualname__.split(".")[0])]
    parsed: dict[str, _Module] = {}
    found: dict[Place, str] = {}
    while queue:
        place = queue.pop()
        if place in found:
            continue
        try:
            module = parsed.setdefault(place[0], parsed.get(place[0]) or _parse(place[0]))
        except (OSError, TypeError):  # defined interactively
            return ""
        statements = module.definitions.get(place[1], [])
        if place[1] == "<lambda>":
            statements = [each for several in module.definitions.values() for each in several]
        found[place] = "\n".join(ast.unparse(_bare(each)) for each in statements)
        queue += [used for each in statements for used in _used(each, place[0], module, package)]
    text = "\n".join(f"{'.'.join(place)}\n{found[place]}" for place in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _parse(name: str) -> _Module:
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    definitions: dict[str, list[ast.stmt]] = {}
    imports: dict[str, Place] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            relative = "." * statement.level + (statement.module or "")
            source = importlib.util.resolve_name(relative, name.rpartition(".")[0])
            for alias in statement.names:
                imports[alias.asname or alias.name] = (source, alias.name)
        for defined in _defined(statement):
            definitions.setdefault(defined, []).append(statement)
    return _Module(definitions, imports)


def _defined(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement defines or may modify."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    targets: list[ast.AST] = [statement]
    if isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return {node.id for each in targets for node in ast.walk(each) if isinstance(node, ast.Name)}


def _used(statement: ast.stmt, home: str, module: _Module, package: str) -> Iterator[Place]:
    """Yield the definitions of the package that a statement refers to."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id in module.definitions:
            yield home, node.id
        elif isinstance(node, ast.Name) and node.id in module.imports:
            source, name = module.imports[node.id]
            if package and source.startswith(f"{package}."):
                yield source, name
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            # module.name, where the module was imported from the package
            source, name = module.imports.get(node.value.id, ("", ""))
            if package and source == package and f"{source}.{name}" in sys.modules:
                yield f"{source}.{name}", node.attr


def _bare(statement: ast.stmt) -> ast.stmt:
    """Remove the docstrings from a definition."""
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return statement

"""Rooms use each other's public modules only."""

import ast
from pathlib import Path

import felbo

ROOT = Path(felbo.__file__).parent


def private_imports(path):
    """Yield imports of a module whose name begins with an underscore, from another room."""
    room = path.relative_to(ROOT).parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            parts = name.split(".")
            other = parts[0] == "felbo" and len(parts) > 2 and parts[1] != room
            if other and any(part.startswith("_") for part in parts[2:]):
                yield f"{path.relative_to(ROOT)} imports {name}"


def test_no_room_imports_private_modules_of_another():
    found = [line for path in sorted(ROOT.rglob("*.py")) for line in private_imports(path)]
    assert found == []

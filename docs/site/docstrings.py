"""The API on the site: references and formulas become code, examples are recognised."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr):`~?([\w.]+)`")
FORMULA = re.compile(r":math:`([^`]+)`")
DISPLAY = re.compile(r"^( *)\.\. math::\n((?:\1 +.*\n?|\n)+)", re.M)


class Docstrings(griffe.Extension):
    """Turns the roles of reStructuredText into Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            text = DISPLAY.sub(_display, obj.docstring.value)
            text = re.sub(r"^( *)Example:$", r"\1Examples:", text, flags=re.M)
            obj.docstring.value = FORMULA.sub(r"`\1`", ROLE.sub(r"`\1`", text))

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Show a function that has the name of its module, such as `predict`, not the module."""
        for name, member in pkg.members.items():
            own = member.is_alias and member.target_path.startswith("felbo.")
            if own and member.is_module and name in member.members:
                pkg.members[name] = griffe.Alias(name, member.members[name], parent=pkg)


def _display(match: re.Match[str]) -> str:
    indent, body = match.groups()
    return f"{indent}```text\n{body.rstrip()}\n{indent}```\n"

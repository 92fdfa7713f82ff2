"""Generated parts of a Markdown page, between two comments that name the command."""

from __future__ import annotations

import re

from felbo.errors import SettingError

_PART = re.compile(r"<!-- begin: (?P<command>.+?) -->\n(?P<body>.*?)<!-- end -->", re.S)


def parts(page: str) -> dict[str, str]:
    r"""Return the generated parts of a page by the command that makes them.

    Example:
        >>> parts("Text\n<!-- begin: make bench -->\nold\n<!-- end -->\nmore")
        {'make bench': 'old\n'}
    """
    return {part["command"]: part["body"] for part in _PART.finditer(page)}


def replace_part(page: str, command: str, body: str) -> str:
    r"""Return the page with another body between the comments of a command.

    Example:
        >>> replace_part("<!-- begin: make bench -->\nold\n<!-- end -->", "make bench", "new")
        '<!-- begin: make bench -->\nnew\n<!-- end -->'
    """
    if command not in parts(page):
        raise SettingError(
            f"The page has no part '<!-- begin: {command} -->' … '<!-- end -->'; it has "
            f"{list(parts(page))}."
        )

    def filled(part: re.Match[str]) -> str:
        if part["command"] != command:
            return part[0]
        return f"<!-- begin: {command} -->\n{body.strip()}\n<!-- end -->"

    return _PART.sub(filled, page)

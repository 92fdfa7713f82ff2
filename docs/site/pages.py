"""Build the site from the pages as they are read in the repository.

README, CONTRIBUTING and CHANGELOG become pages of the site. Figures and tables that pages link to
outside ``docs/`` are copied into it; source files, which it does not hold, become plain text.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
COPIED = ("results/", "examples/", "LICENSE")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root, and every file that a page links to."""
    for source, target in TOP.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, target, content=text))
    for page in [*ROOT.glob("docs/*.md"), *(ROOT / name for name in TOP)]:
        for *_, target in LINK.findall(page.read_text(encoding="utf-8")):
            name = _from_root(target, page.parent)
            if name.startswith(COPIED) and files.get_file_from_path(name) is None:
                copied = File.generated(config, name, abs_src_path=str(ROOT / name))
                files.append(copied)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links lead to where their targets are on the site."""
    folder = ROOT if page.file.src_uri in TOP.values() else ROOT / "docs"

    def link(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        name = _from_root(target, folder)
        if name in TOP:
            return f"{mark}[{text}]({TOP[name]})"
        if name.startswith("docs/"):
            return f"{mark}[{text}]({name.removeprefix('docs/')})"
        if name.startswith(COPIED):
            return f"{mark}[{text}]({name})"
        # Links that lead nowhere stay, so that the build names them.
        return text if (ROOT / name).is_file() else match[0]

    return LINK.sub(link, markdown) if page.file.src_uri.count("/") == 0 else markdown


def _from_root(target: str, folder: Path) -> str:
    """Return a relative link as a path from the root of the repository, others as they are."""
    if re.match(r"[a-z]+:|#", target):
        return target
    path, _, anchor = target.partition("#")
    name = (folder / path).resolve().relative_to(ROOT).as_posix()
    return f"{name}#{anchor}" if anchor else name

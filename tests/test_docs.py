"""The pages say what is so: their Python runs, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


# Those of the README run in test_readme.py, which looks at what they give.
@pytest.mark.parametrize("page", [p for p in PAGES[1:] if blocks(p)], ids=lambda p: p.name)
def test_python_blocks_run_as_pasted(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page)):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_inside_the_project_exist(page):
    prose = re.sub(
        r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S | re.M
    )
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", prose)
    missing = [
        target
        for target in targets
        if not target.startswith("http") and not (page.parent / target).exists()
    ]
    assert missing == []


def test_the_pages_have_blocks_to_run():
    assert len(blocks(ROOT / "README.md")) >= 2
    nouns = [
        "dirichlet",
        "models",
        "priors",
        "measurement",
        "objectives",
        "training",
        "evaluation",
        "data",
    ]
    assert [noun for noun in nouns if not blocks(ROOT / "docs" / f"{noun}.md")] == []

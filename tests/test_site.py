"""The site leaves out no page and no public name."""

import re
from pathlib import Path

import felbo

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"data", "dirichlet", "distributed", "measurement", "networks"}


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert listed == pages | {"index.md", "contributing.md", "changelog.md"}


def test_every_public_name_is_on_a_page_of_the_api():
    text = "\n".join(path.read_text("utf-8") for path in ROOT.glob("docs/api/*.md"))
    documented = set(re.findall(r"^::: felbo\.(\w+)$", text, re.M))
    assert "::: felbo.errors" in text  # with FelboError
    assert set(felbo.__all__) - PACKAGES - {"FelboError"} == documented


def test_every_measurement_set_is_on_a_page_of_the_api():
    text = (ROOT / "docs" / "api" / "priors.md").read_text("utf-8")
    sets = {name for name in felbo.measurement.__all__ if name[0].isupper()}
    documented = set(re.findall(r"^::: felbo\.measurement\.(\w+)$", text, re.M))
    assert sets - {"ItemwiseSet"} <= documented <= set(felbo.measurement.__all__)


def test_the_version_is_in_one_place():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {felbo.__version__}\n" in citation

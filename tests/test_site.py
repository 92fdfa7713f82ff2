"""The site leaves out no page and no public name."""

import importlib.util
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import pytest

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


@pytest.fixture
def pages(monkeypatch):
    """The hook that puts pages on the site, without mkdocs, which only `make docs` installs."""
    for name in ("mkdocs", "mkdocs.config", "mkdocs.structure"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name in ("mkdocs.config.defaults", "mkdocs.structure.files", "mkdocs.structure.pages"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "site" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("link", "on_the_site"),
    [
        ("[test](../tests/test_site.py)", "test"),  # not part of the site
        ("[numbers](../results/two_moons.json)", "[numbers](results/two_moons.json)"),
        ("[start](../README.md)", "[start](index.md)"),
        ("[cost](measurement.md#cost)", "[cost](measurement.md#cost)"),
        ("[nowhere](../tests/no_such_file.py)", "[nowhere](../tests/no_such_file.py)"),
    ],
)
def test_links_lead_to_where_the_site_has_their_target(pages, link, on_the_site):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="trust.md"))
    assert pages.on_page_markdown(f"See {link}.", page) == f"See {on_the_site}."


def test_the_api_has_no_formulas_in_latex():
    """The site has no renderer for them, and neither has `help`."""
    text = "\n".join(path.read_text("utf-8") for path in ROOT.glob("docs/api/*.md"))
    found = []
    for name in re.findall(r"^::: felbo\.([\w.]+)$", text, re.M):
        thing = pkgutil.resolve_name(f"felbo.{name}")
        members = vars(thing).values() if inspect.isclass(thing) else ()
        documents = (inspect.getdoc(part) or "" for part in (thing, *members))
        found += [name for document in documents if re.search(r"\\[a-z]{2}", document)]
    assert found == []

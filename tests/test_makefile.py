"""`make test` installs everything that the tests need."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(name: str) -> set[str]:
    """What a distribution asks for, without its extras."""
    needed = (Requirement(line) for line in requires(name) or [])
    return {key(r.name) for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})}


def test_what_the_laplace_packages_need_is_installed_though_they_come_without_it():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = re.findall(r"^LAPLACE := (.*)$", makefile, re.M)[0].split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = {Requirement(line).name for line in project["dependencies"]}
    installed = {key(name) for name in (*listed, *own)} | set().union(*map(asked_for, own))
    needed = set().union(*map(asked_for, listed))
    assert needed - installed == {"torchvision"}

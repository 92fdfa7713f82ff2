from pathlib import Path

import pooch
import pytest

from felbo.data import data_root
from felbo.data.location import fetch_command


def test_argument_comes_before_environment_and_environment_before_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("FELBO_DATA", str(tmp_path / "named"))
    assert data_root(tmp_path / "given") == tmp_path / "given"
    assert data_root() == tmp_path / "named"
    monkeypatch.delenv("FELBO_DATA")
    assert data_root() == Path(pooch.os_cache("felbo"))


def test_an_empty_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("FELBO_DATA", "")
    assert data_root() == Path(pooch.os_cache("felbo"))


@pytest.mark.parametrize("given", ["~/sets", "sets"])
def test_home_and_relative_paths_become_absolute(given, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert data_root(given) == tmp_path / "sets"
    monkeypatch.setenv("FELBO_DATA", given)
    assert data_root() == tmp_path / "sets"


def test_the_command_names_the_root_only_where_it_is_not_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("FELBO_DATA", str(tmp_path))
    assert fetch_command("mnist", tmp_path) == "felbo data fetch mnist"
    assert fetch_command("mnist", tmp_path / "a") == f"felbo data fetch mnist --root {tmp_path}/a"

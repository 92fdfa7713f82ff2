import dataclasses

import pytest
from typer.testing import CliRunner

from felbo.cli.data import app
from felbo.data import REGISTRY

from .stand_ins import lay_out


def run(*arguments):
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, list(map(str, arguments)))


@pytest.fixture
def root(tiny_mnist, tmp_path):
    info, contents = tiny_mnist
    lay_out(tmp_path / "sets", info, contents)
    return tmp_path / "sets"


def row(output, name):
    return next(line for line in output.splitlines() if f" {name} " in line)


def test_list_says_what_is_there_where_and_how_large(root):
    (root / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    result = run("list", "--root", root)
    assert result.exit_code == 0
    assert str(root) in result.output
    assert "3 of 4" in row(result.output, "mnist")
    size = sum(path.stat().st_size for path in (root / "mnist").iterdir())
    assert f"{size} bytes" in row(result.output, "mnist")
    assert "0 of 7" in row(result.output, "cifar10")
    assert "download: 170.5 MB" in row(result.output, "cifar10")


def test_verify_is_content_with_good_files(root):
    result = run("verify", "mnist", "--root", root)
    assert result.exit_code == 0
    assert result.output.count("good") == 4


@pytest.mark.parametrize("named", [True, False])
def test_verify_fails_on_a_bad_file_and_says_how_to_mend_it(root, named):
    bad = root / "mnist" / "train-images-idx3-ubyte.gz"
    bad.write_bytes(bad.read_bytes()[:-1])
    result = run("verify", *(["mnist"] if named else []), "--root", root)
    assert result.exit_code == 1
    assert "bad" in row(result.output, bad.name)
    assert f"expected {REGISTRY['mnist'].train[0].md5}" in row(result.output, bad.name)
    assert f"felbo data fetch mnist --root {root}" in result.output


def test_verify_fails_where_a_named_set_is_absent(tmp_path):
    result = run("verify", "cifar100", "--root", tmp_path)
    assert result.exit_code == 1
    assert result.output.count("missing") == 3 + 1  # three rows, one line of advice


def test_verify_of_everything_leaves_out_sets_that_are_not_here(root, tmp_path):
    result = run("verify", "--root", root)
    assert result.exit_code == 0
    assert "CIFAR" not in result.output
    nothing = run("verify", "--root", tmp_path / "empty")
    assert nothing.exit_code == 0
    assert "No data set in" in nothing.output


def test_fetch_of_a_complete_set_is_done_at_once(root):
    result = run("fetch", "mnist", "--root", root)
    assert result.exit_code == 0
    assert "MNIST is complete" in result.output


def test_fetch_offline_fails_and_names_every_mirror(root, monkeypatch):
    mirrors = ("http://127.0.0.1:9/a/", "http://127.0.0.1:9/b/")
    info = dataclasses.replace(REGISTRY["mnist"], mirrors=mirrors)
    monkeypatch.setitem(REGISTRY, "mnist", info)
    (root / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    result = run("fetch", "mnist", "--root", root)
    assert result.exit_code == 1
    for mirror in mirrors:
        assert f"{mirror}t10k-labels-idx1-ubyte.gz" in result.output


def test_an_unknown_name_is_turned_down_with_the_known_ones():
    result = run("fetch", "cifar-10")
    assert result.exit_code == 2
    assert "cifar100" in result.output

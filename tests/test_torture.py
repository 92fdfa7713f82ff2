"""A little of what `make torture` does at length."""

import random
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))


def test_trainings_of_any_kind_survive_kills_at_any_instant(tmp_path, capsys):
    from benchmarks.torture.kills import kills

    seed = random.randrange(1 << 30)
    survived, tried = kills(6, tmp_path, seed)
    assert survived == tried >= 6, f"seed {seed}: {capsys.readouterr().out}"


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_refused_or_read_right(tmp_path, capsys):
    from benchmarks.torture.mutations import mutate
    from benchmarks.torture.readers import readers

    for name, reader in readers(tmp_path / "files").items():
        count = 3 if name.startswith("checkpoint") else 20
        assert mutate(name, reader, count, random.Random(1)).failed == 0, capsys.readouterr().out


def test_a_reader_that_fails_is_counted(tmp_path, capsys):
    from benchmarks.torture.mutations import Counts, Reader, mutate

    (tmp_path / "number").write_text("1234")
    reader = Reader(tmp_path / "number", lambda path: int(path.read_text()), exact=True)
    found = mutate("number", reader, 50, random.Random(0))
    assert found.failed > 40
    assert sum(found) == 50
    assert capsys.readouterr().out.count("FAILED number") == found.failed
    assert isinstance(found, Counts)
    assert (tmp_path / "number").read_text() == "1234"


@pytest.mark.parametrize(("what", "count"), [("fits", 5000), ("losses", 60), ("trainings", 30)])
@pytest.mark.filterwarnings("ignore")
def test_hostile_numbers_are_handled(what, count, capsys):
    from benchmarks.torture import hostile

    handled, tried = getattr(hostile, what)(count, 7)
    assert handled == tried >= count, capsys.readouterr().out


def test_a_wrong_fit_is_not_taken_for_right():
    import numpy as np
    from benchmarks.torture.hostile import _is_maximum

    draws = np.array([[[0.6, 0.3, 0.1]], [[0.4, 0.4, 0.2]]])
    right = 45.01  # the example of felbo.dirichlet.fit
    assert not _is_maximum(draws, np.array([right * 1.002]), 3.0, 1e3)[0]
    assert not _is_maximum(draws, np.array([right * 0.998]), 3.0, 1e3)[0]
    assert not _is_maximum(draws, np.array([3.0]), 3.0, 1e3)[0]
    assert not _is_maximum(draws, np.array([np.nan]), 3.0, 1e3)[0]


def test_the_committed_table_shows_no_failure(tmp_path):
    from benchmarks.torture.readers import readers

    text = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    counted = {row[0]: [int(n.replace(",", "")) for n in row[1:]] for row in rows if _counts(row)}
    for what, least in {"kills survived": 200, "Dirichlet fits handled": 100_000}.items():
        assert counted[what][1] >= least
    assert all(found[0] == found[1] for found in counted.values() if len(found) == 2)
    files = {what: found for what, found in counted.items() if len(found) == 4}
    assert files.keys() == readers(tmp_path / "files").keys()
    assert all(sum(found) == 1000 and found[3] == 0 for found in files.values())


def _counts(row: list[str]) -> bool:
    return len(row) > 2 and all(n.replace(",", "").isdigit() for n in row[1:])

"""The memory that a prediction takes does not grow with the number of rows."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_million_rows_take_less_than_a_gigabyte(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)  # the process that is measured finds the benchmarks here
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.streaming import GOAL, ROWS, measure

    megabytes, _ = measure(tmp_path, ROWS)
    assert megabytes < GOAL

import time

import pytest
import torch

from felbo.paper.panels import Ticker, compute_panels


def make_double():
    # Made inside a function, it is sent to the processes by value: they cannot import a test.
    def double(panel, ticker):
        import torch

        for _ in range(3):
            ticker()
        return 2 * int(panel[1]), ticker.count, torch.get_num_threads()

    return double


def fail(panel, ticker):
    raise RuntimeError("this panel has no data")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_back_by_panel_in_order(jobs, capsys):
    panels = [("slow", "3"), ("fast", "1"), ("fast", "2")]
    found = compute_panels(
        make_double(), panels, steps=3, jobs=jobs, describe=lambda result: f"gave {result[0]}"
    )
    assert list(found) == panels
    assert [result[:2] for result in found.values()] == [(6, 3), (2, 3), (4, 3)]
    # The number of threads has a part in the rounding.
    assert all(threads == 1 for _, _, threads in found.values())
    assert torch.get_num_threads() == 2
    printed = capsys.readouterr().out
    assert all(f"gave {value}" in printed for value in (2, 4, 6))


def test_a_failure_reaches_the_caller():
    with pytest.raises(RuntimeError, match="no data"):
        compute_panels(fail, [("a", "1")], steps=1, jobs=1, describe=str)


def test_a_ticker_counts_its_calls(tmp_path):
    ticker = Ticker(tmp_path / "count")
    assert ticker.count == 0
    start = time.perf_counter()
    for _ in range(1000):
        ticker()
    assert ticker.count == 1000
    assert time.perf_counter() - start < 5.0

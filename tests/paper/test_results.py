"""Means, standard errors and percentiles over seeds, and their way through a file."""

import math
import statistics

import numpy as np
import pytest

from felbo.paper.results import (
    DamagedTableError,
    Raw,
    Summary,
    read_summaries,
    summarise,
    write_csv,
)


def rows(values, metric="ece", model="MAP", shift=10.0):
    return [Raw("toy", metric, model, shift, seed, value) for seed, value in enumerate(values)]


def test_mean_and_standard_error_over_seeds():
    values = [1.0, 2.0, 4.0, 9.0]
    (summary,) = summarise(rows(values))
    assert summary.mean == 4.0
    assert summary.standard_error == pytest.approx(statistics.stdev(values) / 2.0)
    assert summary.deviation == pytest.approx(statistics.stdev(values))
    assert summary.seeds == 4


def test_percentiles_over_seeds():
    values = [float(v) for v in np.random.default_rng(0).permutation(101)]
    (summary,) = summarise(rows(values))
    assert (summary.p10, summary.median, summary.p90) == pytest.approx((10.0, 50.0, 90.0))


def test_a_single_seed_has_no_standard_error():
    (summary,) = summarise(rows([3.0]))
    assert summary.mean == summary.p10 == summary.p90 == 3.0
    assert math.isnan(summary.standard_error)


def test_groups_keep_the_order_in_which_they_came():
    mixed = rows([1.0], model="b") + rows([2.0], model="a") + rows([3.0], model="b", shift=0.0)
    mixed += rows([5.0], model="b")
    found = [(s.model, s.shift, s.mean) for s in summarise(mixed)]
    assert found == [("b", 10.0, 3.0), ("a", 10.0, 2.0), ("b", 0.0, 3.0)]


def test_a_large_offset_does_not_cost_the_spread():
    (summary,) = summarise(rows([1e9 + 1, 1e9 + 2, 1e9 + 3]))
    assert summary.standard_error == pytest.approx(1.0 / math.sqrt(3.0))


def test_summaries_survive_a_file(tmp_path):
    written = summarise(rows([0.5, 0.25]) + rows([2.0], model="fVI, odd name"))
    write_csv(tmp_path / "toy.csv", written, Summary._fields)
    read = read_summaries(tmp_path / "toy.csv")
    assert read[0] == pytest.approx(written[0])
    assert read[1][:5] == written[1][:5]
    assert math.isnan(read[1].standard_error)


def test_a_missing_table_says_what_to_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="felbo reproduce rotated-mnist"):
        read_summaries(tmp_path / "rotated_mnist.csv")


HEADER = "experiment,metric,model,shift,mean,standard_error,seeds,p10,median,p90"


@pytest.mark.parametrize(
    "content",
    [
        b"experiment,metric,model\ntoy,nll,MAP\n",
        f"{HEADER}\ntoy,nll,MAP,0,1.5\n".encode(),
        f"{HEADER}\ntoy,nll,MAP,0,1.5,0.1,three,1,1,1\n".encode(),
        f"{HEADER}\ntoy,nll,MAP,\xff,1.5,0.1,3,1,1,1\n".encode("latin-1"),
        HEADER.encode(),
        b"",
    ],
    ids=["columns", "cut", "no number", "no text", "no rows", "empty"],
)
def test_damaged_tables_are_refused(content, tmp_path):
    (tmp_path / "toy.csv").write_bytes(content)
    with pytest.raises(DamagedTableError, match="felbo reproduce toy"):
        read_summaries(tmp_path / "toy.csv")

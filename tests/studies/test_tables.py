"""Tables: folds that do not overlap, one cell, claims and bars on made-up numbers."""

import torch

from felbo.paper.results import Raw, summarise
from felbo.studies import tables

SETTINGS = tables.STUDY.presets["smoke"].settings


def test_folds_cover_the_table_once():
    held_out = torch.cat([tables.fold("iris", seed)[1][0] for seed in range(5)])
    x, _ = tables.rows_of("iris")
    assert sorted(map(tuple, held_out.tolist())) == sorted(map(tuple, x.tolist()))
    (train, _), (test, _) = tables.fold("wine", 1)
    assert len(train) + len(test) == 178


def test_digits_are_rows_whose_constant_pixels_are_zero():
    x, _ = tables.rows_of("digits")
    assert x.shape == (1797, 64)
    deviation = x.std(0)
    assert set(deviation.round(decimals=4).tolist()) == {0.0, 1.0}


def test_a_cell_measures_the_fold_and_far_from_it():
    found = {o.metric: o.value for o in tables.run("iris everywhere", 0, SETTINGS)}
    assert set(found) == {"accuracy", "log_likelihood", "ece", "auroc_moved", "auroc_times_ten"}
    assert all(0 <= found[m] <= 1 for m in ("ece", "auroc_moved", "auroc_times_ten"))


def summaries(lost, auroc):
    values = {"wine": (-0.1, 0.4), "wine everywhere": (-0.1 - lost, auroc)}
    rows = [
        Raw("unknown_shift_tables", metric, model, 0.0, 0, value)
        for model, (log_likelihood, seen) in values.items()
        for metric, value in {
            "log_likelihood": log_likelihood,
            "ece": 0.1,
            "auroc_moved": seen,
            "auroc_times_ten": seen,
        }.items()
    ]
    return summarise(rows)


def test_claims_hold_and_fail_with_the_numbers():
    assert [claim.holds for claim in tables.claims(summaries(0.04, 0.96))] == [True] * 3
    assert [claim.holds for claim in tables.claims(summaries(0.06, 0.94))] == [False] * 3


def test_the_bars_are_drawn(tmp_path):
    tables.draw(summaries(0.0, 1.0), str(tmp_path / "tables"))
    assert "breast cancer" in (tmp_path / "tables.svg").read_text()

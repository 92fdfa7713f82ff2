"""Cells: which are listed, kept, read and run again."""

import json

import pytest

from felbo.paper.cells import cells, is_finished, read_cell, run_cell
from felbo.paper.results import Observation
from felbo.paper.study import Preset, Study


def make_study(settings, run=lambda model, seed, settings: [Observation("m", 0.5, float(seed))]):
    return Study(
        name="toy-study",
        title="Toy",
        models={"cheap": 1.0, "Costly +90": 5.0},
        presets={"smoke": Preset(2, settings)},
        run=run,
        draw=lambda summaries, stem: None,
    )


def listed(study, folder):
    return cells(study, list(study.models), 2, "smoke", folder)


def test_order_is_by_seed_and_then_by_cost(tmp_path):
    found = [(c.model, c.seed) for c in listed(make_study({}), tmp_path)]
    assert found == [("Costly +90", 0), ("cheap", 0), ("Costly +90", 1), ("cheap", 1)]


def test_every_cell_has_a_file_of_its_own(tmp_path):
    paths = [c.path for c in listed(make_study({}), tmp_path)]
    assert len(set(paths)) == 4
    assert paths[0] == tmp_path / "toy_study" / "smoke" / "costly-90-0.json"


def test_a_run_cell_is_finished_and_reads_back(tmp_path):
    study = make_study({"epochs": 3, "angles": (0, 90)})
    cell = listed(study, tmp_path)[2]
    assert not is_finished(cell)
    run_cell(study, cell)
    assert is_finished(cell)
    assert read_cell(study, cell) == [("toy_study", "m", "Costly +90", 0.5, 1, 1.0)]
    assert [p.name for p in cell.path.parent.iterdir()] == [cell.path.name]


def test_the_file_has_the_documented_fields(tmp_path):
    study = make_study({"epochs": 3})
    cell = listed(study, tmp_path)[0]
    run_cell(study, cell)
    content = json.loads(cell.path.read_text())
    assert content.pop("seconds") >= 0
    assert content == {
        "model": "Costly +90",
        "seed": 0,
        "settings": {"epochs": 3},
        "observations": [["m", 0.5, 0.0]],
    }


@pytest.mark.parametrize("other", [{"epochs": 4}, {"epochs": 3, "size": 1}, {}])
def test_a_file_of_other_settings_does_not_count(tmp_path, other):
    study = make_study({"epochs": 3})
    run_cell(study, listed(study, tmp_path)[0])
    assert is_finished(listed(study, tmp_path)[0])
    assert not is_finished(listed(make_study(other), tmp_path)[0])


def test_a_failed_cell_leaves_nothing(tmp_path):
    def fail(model, seed, settings):
        raise FloatingPointError("the loss became NaN")

    study = make_study({}, fail)
    cell = listed(study, tmp_path)[0]
    with pytest.raises(FloatingPointError):
        run_cell(study, cell)
    assert not is_finished(cell)
    assert list(tmp_path.rglob("*.json")) == []

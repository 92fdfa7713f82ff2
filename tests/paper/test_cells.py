"""Cells: which are listed, kept, read and run again."""

import json
from dataclasses import replace

import pytest
import torch

import felbo
from felbo.paper import catalogue
from felbo.paper.cells import (
    DamagedCellError,
    OutdatedCellError,
    cells,
    read_cell,
    run_cell,
    stored_cells,
)
from felbo.paper.fingerprint import fingerprint
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
    with pytest.raises(FileNotFoundError):
        read_cell(cell)
    run_cell(study, cell)
    assert read_cell(cell) == [("toy_study", "m", "Costly +90", 0.5, 1, 1.0)]
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
        "code": fingerprint(study.run),
        "felbo": felbo.__version__,
        "torch": torch.__version__,
        "observations": [["m", 0.5, 0.0]],
    }


@pytest.mark.parametrize("other", [{"epochs": 4}, {"epochs": 3, "size": 1}, {}])
def test_a_file_of_other_settings_does_not_count(tmp_path, other):
    study = make_study({"epochs": 3})
    run_cell(study, listed(study, tmp_path)[0])
    assert len(read_cell(listed(study, tmp_path)[0])) == 1
    with pytest.raises(OutdatedCellError, match=r"costly-90-0\.json was made with other settings"):
        read_cell(listed(make_study(other), tmp_path)[0])


def test_a_file_counts_when_only_settings_of_other_models_differ(tmp_path):
    def uses(model, settings):
        return settings if model == "cheap" else {}

    first, second = (replace(make_study({"epochs": e}), uses=uses) for e in (3, 4))
    costly, cheap = listed(first, tmp_path)[:2]
    run_cell(first, costly)
    run_cell(first, cheap)
    assert len(read_cell(listed(second, tmp_path)[0])) == 1
    with pytest.raises(OutdatedCellError, match=r"cheap-0\.json was made with other settings"):
        read_cell(listed(second, tmp_path)[1])


def other_run(model, seed, settings):
    return [Observation("m", 0.5, -1.0)]


def test_a_file_of_other_code_does_not_count(tmp_path):
    run_cell(make_study({}), listed(make_study({}), tmp_path)[0])
    with pytest.raises(OutdatedCellError, match=r"costly-90-0\.json was made by other code"):
        read_cell(listed(make_study({}, other_run), tmp_path)[0])


def test_a_file_from_before_the_code_was_recorded_does_not_count(tmp_path):
    study = make_study({})
    cell = listed(study, tmp_path)[0]
    run_cell(study, cell)
    content = json.loads(cell.path.read_text())
    del content["code"], content["felbo"], content["torch"]
    cell.path.write_text(json.dumps(content))
    with pytest.raises(OutdatedCellError, match="other code"):
        read_cell(cell)


def test_a_failed_cell_leaves_nothing(tmp_path):
    def fail(model, seed, settings):
        raise FloatingPointError("the loss became NaN")

    study = make_study({}, fail)
    cell = listed(study, tmp_path)[0]
    with pytest.raises(FloatingPointError):
        run_cell(study, cell)
    assert list(tmp_path.rglob("*.json")) == []


def whole_cell(tmp_path):
    study = make_study({})
    cell = listed(study, tmp_path)[0]
    run_cell(study, cell)
    return cell, json.loads(cell.path.read_text())


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-20],
        lambda text: text.replace("observations", "obs"),
        lambda text: text.replace("[[", "[[[1], "),
        lambda text: text.replace('[["m", 0.5, 0.0]]', "[]"),
        lambda text: text.replace('[["m", 0.5, 0.0]]', '[["m", 0.5, 0.0], ["m", 0.5, 0.0]]'),
        lambda text: text.replace('[["m", 0.5, 0.0]]', '[["m", 1, 0.0], ["m", 1.0, 7.0]]'),
        lambda text: text.replace("0.5", "null"),
        lambda text: text.replace('["m"', "[7"),
        lambda text: text.replace("0.5", '"left"'),
        lambda text: "[1, 2]",
        lambda text: "null",
    ],
)
def test_a_damaged_file_is_named(tmp_path, damage):
    cell, _ = whole_cell(tmp_path)
    cell.path.write_text(damage(cell.path.read_text()))
    with pytest.raises(DamagedCellError, match=r"costly-90-0\.json is damaged \("):
        read_cell(cell)


def test_a_study_that_measures_a_value_twice_leaves_nothing(tmp_path):
    study = make_study({}, lambda *_: [Observation("m", 1, 0.0), Observation("m", 1.0, 2.0)])
    with pytest.raises(ValueError, match=r"'m' at 1\.0 is there 2 times"):
        run_cell(study, listed(study, tmp_path)[0])
    assert list(tmp_path.rglob("*.json")) == []


def test_bytes_that_are_no_text_are_named(tmp_path):
    cell, _ = whole_cell(tmp_path)
    cell.path.write_bytes(b"\xff\x00\xfe")
    with pytest.raises(DamagedCellError, match=r"costly-90-0\.json is damaged"):
        read_cell(cell)


@pytest.mark.parametrize("other", [1, 2])
def test_a_copy_under_another_name_is_no_result_of_that_name(tmp_path, other):
    cell, _ = whole_cell(tmp_path)
    copy = listed(make_study({}), tmp_path)[other]
    copy.path.write_bytes(cell.path.read_bytes())
    with pytest.raises(
        DamagedCellError,
        match=rf"{copy.path.name} holds 'Costly \+90', seed 0.*should hold .*seed {copy.seed}",
    ):
        read_cell(copy)


def test_stored_cells_are_found_by_name_and_strays_are_told_apart(tmp_path):
    study = make_study({})
    for cell in listed(study, tmp_path)[1:]:
        run_cell(study, cell)
    home = tmp_path / "toy_study" / "smoke"
    strays = ["cheap-01.json", "cheap-x.json", "cheap.json", "notes-old.json", "unknown-0.json"]
    for name in strays:
        (home / name).write_text("{}")
    found, others = stored_cells(study, "smoke", tmp_path)
    assert [(c.model, c.seed) for c in found] == [("cheap", 0), ("cheap", 1), ("Costly +90", 1)]
    assert [path.name for path in others] == strays


@pytest.mark.parametrize("study", catalogue.STUDIES.values(), ids=lambda study: study.name)
def test_no_two_cells_of_a_study_share_a_file(study, tmp_path):
    paths = [c.path for c in cells(study, list(study.models), 2, "paper", tmp_path)]
    assert len(set(paths)) == len(paths) == 2 * len(study.models)

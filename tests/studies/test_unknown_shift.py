"""Unknown shifts: what is trained with what, what is measured, and claims on made-up numbers."""

import pytest

import felbo
from felbo.measurement import Batch, Elsewhere, Mixture, Noise, WorstCase
from felbo.paper.results import Raw, summarise
from felbo.studies import unknown_shift

from .fakes import load

SETTINGS = {
    **unknown_shift.MNIST.presets["smoke"].settings,
    "train_size": 40,
    "test_size": 40,
    "strength": 0.2,
    "data_strength": 0.01,
    "ascent_strength": 0.3,
}


@pytest.fixture(autouse=True)
def small_data(monkeypatch):
    monkeypatch.setattr(felbo.data, "load", load)
    yield
    unknown_shift.images_of.cache_clear()
    unknown_shift.turned.cache_clear()


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("fVI", [(Batch, 1.0)]),
        ("fVI +90", [(Mixture, 1.0)]),
        ("everywhere", [(Batch, 0.01), (Elsewhere, 0.2)]),
        ("everywhere +ascent", [(Batch, 0.01), (Elsewhere, 0.3)]),
        ("only Noise", [(Batch, 0.01), (Noise, 0.2)]),
    ],
)
def test_each_variant_measures_where_its_name_says(variant, expected):
    made = unknown_shift.objective(variant, 40, SETTINGS)
    assert [(type(t.measurement), t.weight) for t in made.terms] == expected
    assert isinstance(unknown_shift.objective("", 40, SETTINGS), felbo.NegativeLogLikelihood)


def test_the_ascent_is_a_seventh_of_the_points():
    made = unknown_shift.objective("everywhere +ascent", 40, SETTINGS)
    parts = made.terms[-1].measurement.parts
    assert [isinstance(part, WorstCase) for part in parts] == [False] * 6 + [True]


@pytest.mark.parametrize(
    ("name", "strengths"),
    [
        ("MAP", set()),
        ("Ensemble fVI +90", set()),
        ("MAP everywhere", {"strength", "data_strength"}),
        ("MAP only Noise", {"strength", "data_strength"}),
        ("MAP everywhere +ascent", {"ascent_strength", "data_strength"}),
    ],
)
def test_a_cell_depends_on_the_strengths_that_its_model_has(name, strengths):
    used = unknown_shift.uses(name, SETTINGS)
    assert {key for key in used if key.endswith("strength")} == strengths
    assert used["epochs"] == SETTINGS["epochs"]


@pytest.mark.parametrize("name", ["MAP everywhere", "MC Dropout", "MAP only Rolled"])
def test_a_cell_is_measured_at_every_angle_and_on_the_other_set(name):
    found = unknown_shift.run(name, 0, SETTINGS, dataset="mnist")
    places = [(o.metric, o.shift) for o in found]
    metrics = ("accuracy", "log_likelihood", "ece")
    assert places == [(m, a) for a in (0.0, 90.0) for m in metrics] + [("auroc", 0.0)]
    assert all(0.0 <= o.value <= 1.0 for o in found if o.metric in ("ece", "auroc"))


def summaries(**changes):
    value = {
        ("accuracy", "MAP", 0): 97.0,
        ("accuracy", "MAP everywhere", 0): 96.8,
        ("log_likelihood", "MAP", 0): -0.10,
        ("log_likelihood", "MAP everywhere", 0): -0.105,
        ("log_likelihood", "MAP fVI", 30): 5.0,
        ("log_likelihood", "MAP fVI", 40): -3.0,
        ("log_likelihood", "MAP fVI", 90): -4.0,
        ("log_likelihood", "MAP everywhere", 40): -2.0,
        ("log_likelihood", "MAP everywhere", 90): -3.0,
        **{("auroc", f"MAP{way}", 0): 0.995 for way in ("", " fVI", " everywhere")},
    }
    rows = [
        Raw("unknown_shift_mnist", metric, model, float(shift), 0, mean)
        for (metric, model, shift), mean in value.items()
    ]
    return summarise(row._replace(value=changes.get(row.metric, row.value)) for row in rows)


def test_claims_hold_and_fail_with_the_numbers():
    claims = unknown_shift.claims(summaries())
    assert [claim.holds for claim in claims] == [True] * 5
    assert "40° … 180° -2.50, fVI -3.50" in claims[2].text
    assert not unknown_shift.claims(summaries(auroc=0.98))[3].holds
    assert unknown_shift.claims(summaries()[:3]) == []


def test_the_figures_are_drawn(tmp_path):
    rows = summaries()
    unknown_shift.draw(rows, str(tmp_path / "shift"), title="Shift")
    assert (tmp_path / "shift.png").exists()
    assert not (tmp_path / "shift_alone.png").exists()
    alone = [row._replace(model="MAP only Rolled") for row in rows]
    unknown_shift.draw([*rows, *alone], str(tmp_path / "shift"), title="Shift")
    assert (tmp_path / "shift_alone.png").exists()


def test_no_two_sets_of_points_look_the_same_in_the_figure():
    names = ["MAP everywhere", *(f"MAP {variant}" for variant in unknown_shift.ALONE)]
    styles = unknown_shift.styles_alone(names)
    assert set(styles) == set(names)
    assert len({(s["color"], s.get("linestyle", "-")) for s in styles.values()}) == len(names)
    dashed = {name for name, style in styles.items() if style.get("linestyle") == "--"}
    assert dashed == {"MAP only WorstCase", "MAP only RandomConvolution", "MAP only Mosaic"}

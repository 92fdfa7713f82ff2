"""The example scripts run, and what they claim is so."""

import importlib.util
from pathlib import Path

import pytest
import torch

import felbo

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
SUREST = "the surest 80 %"


def load(name):
    path = next(path for path in EXAMPLES if path.stem == name)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_loop_learns_the_digits():
    assert load("own_loop").main(epochs=10).accuracy > 90


def test_plain_loop_stops_by_itself_and_saves_its_prediction(tmp_path):
    history, prediction = load("plain_loop").main(path=str(tmp_path / "digits.npz"))
    assert len(history) < 30
    assert [scores.accuracy > 97 for scores in history.validation].index(True) == len(history) - 1
    again = felbo.Prediction.load(tmp_path / "digits.npz")
    assert torch.equal(again.precision, prediction.precision)
    assert prediction.precision.max() <= 1010  # three quarters of three quarters of 1797 images


def test_existing_ensemble_is_least_sure_where_the_networks_part():
    prediction = load("existing_ensemble").main()
    on_moon, between, beyond = prediction.epistemic.tolist()
    assert beyond > 10 * max(on_moon, between)
    assert prediction.total[1] > 3 * prediction.total[0]


def test_random_forest_prior_brings_the_network_nearer_to_the_forest():
    distances = load("random_forest_prior").main(epochs=150)
    assert distances["forest prior"] < 0.5 * distances["conventional"]


def test_points_elsewhere_draws_a_row_for_every_set(tmp_path):
    data = torch.randint(0, 256, (20, 3, 32, 32), dtype=torch.uint8), torch.arange(20) % 10
    rows = load("points_elsewhere").main(str(tmp_path / "points.png"), data, epochs=1)
    assert (tmp_path / "points.png").stat().st_size > 10_000
    for name, points in rows.items():
        assert points.shape == (8, 3, 32, 32)
        assert name == "the batch" or not torch.equal(points, rows["the batch"])


def test_points_share_their_pass_with_the_batch_for_a_reason():
    found = load("points_and_batch_norm").main(seeds=1, epochs=6)
    _, plain, _, sure = found["no prior"]
    _, together, _, away = found["normalised together"]
    _, apart, _, _ = found["running statistics"]
    assert plain > together > apart
    assert away > 2.0 > sure


def test_free_mean_trains_as_well_as_the_mean_of_the_draws():
    images = torch.rand(600, 1, 8, 8) - 1
    labels = (images[:, 0, :, :4].mean((1, 2)) > images[:, 0, :, 4:].mean((1, 2))).long()
    data = images[:500], labels[:500], images[500:], labels[500:]
    found = load("free_mean").main(data, seeds=1, epochs=60, members=3)
    assert set(found) == {"no prior", "mean of the draws", "free mean"}
    for scores in found.values():
        assert scores[0].accuracy > 75
    given, free = found["mean of the draws"][0], found["free mean"][0]
    assert free.log_likelihood == pytest.approx(given.log_likelihood, abs=0.1)


@pytest.mark.filterwarnings("ignore:.*(does not have many workers|LeafSpec).*")
def test_lightning_trainer_learns_and_is_unsure_of_negatives(tmp_path):
    found = load("lightning_trainer").main(epochs=8, folder=str(tmp_path))
    assert found["accuracy"] > 93
    assert found["epistemic, negatives"] > 2 * found["epistemic, test images"]
    assert len(list(tmp_path.glob("*.ckpt"))) == 1


def test_scikit_learn_finds_a_strength_and_is_right_where_it_is_sure():
    found = load("scikit_learn").main(epochs=8, strengths=(0.003, 0.3))
    assert found["strength"] in (0.003, 0.3)
    everywhere, surest = (found[f"accuracy on {rows}"] for rows in ("all test rows, %", SUREST))
    assert everywhere > 92
    assert surest > everywhere + 2


def test_active_learning_needs_fewer_labels_than_random_picks():
    found = load("active_learning").main(rounds=3, steps=60, seeds=1)
    assert found["epistemic"][0] == found["random"][0]  # the same first labels
    assert found["epistemic"][-1] > found["random"][-1] + 5


def test_continual_learning_forgets_without_the_old_model_as_prior():
    found = load("continual_learning").main(epochs=8)
    forgetful, remembering = found["without a memory"], found["old model as prior"]
    assert max(forgetful[:-1]) < 10 < 85 < forgetful[-1]
    assert min(remembering) > 75


def test_transformer_is_unsure_of_random_words_at_no_cost_in_accuracy():
    found = load("transformer_text").main()
    accuracy, _, sure = found["no prior"]
    with_prior, on_sentences, on_random_words = found["prior at random words"]
    assert accuracy > 65  # the largest of the four chapters has less than half of the sentences
    assert with_prior > accuracy - 5
    assert on_random_words < sure - 0.1
    assert on_random_words < on_sentences - 0.1


def test_pretrained_network_tells_photographs_apart_and_does_not_know_digits():
    found = load("pretrained_network").main(count=40, epochs=40)
    accuracy, _, sure = found["no prior"]
    with_prior, on_photographs, on_digits = found["prior elsewhere"]
    assert min(accuracy, with_prior) > 85
    assert on_digits < sure - 0.15
    assert on_digits < on_photographs - 0.15


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_says_how_to_run_it_and_has_a_test(path):
    assert f"python examples/{path.name}" in path.read_text()
    assert f'load("{path.stem}")' in Path(__file__).read_text()

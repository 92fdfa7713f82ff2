"""Rotated MNIST: killed half-way and finished; line styles and claims on made-up numbers."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from felbo.paper import rotated_mnist
from felbo.paper.compare import compare
from felbo.paper.published import published
from felbo.paper.results import Summary, read_summaries

COMMAND = [
    sys.executable,
    "-c",
    "from felbo.cli import app; app()",
    "reproduce",
    "rotated-mnist",
    "--preset",
    "smoke",
]


@pytest.mark.slow  # a killed worker of a study is tested in seconds in test_engines.py
def test_killed_half_way_and_finished(tmp_path, mnist_root):
    command = [*COMMAND, "--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 60.0
        while not list((tmp_path / "runs").rglob("*.json")):
            assert process.poll() is None, "ended before it wrote a cell"
            assert time.monotonic() < give_up, "no cell after a minute"
            time.sleep(0.005)
    finally:
        os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*.json")}
    assert 1 <= len(kept) < len(rotated_mnist.STUDY.models)
    assert not (tmp_path / "results").exists()

    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    files = list((tmp_path / "runs").rglob("*.json"))
    assert len(files) == len(rotated_mnist.STUDY.models)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    summaries = read_summaries(tmp_path / "results" / "smoke" / "rotated_mnist.csv")
    assert len(summaries) == 12 * 3 * 3
    assert max(s.mean for s in summaries if s.metric == "accuracy") > 50.0
    for name in ("rotated_mnist.png", "rotated_mnist_enriched.png"):
        assert (tmp_path / "results" / "smoke" / name).stat().st_size > 10_000
    # The enriched measurement sets were published as a figure only.
    assert "of 54 cells" in finished.stdout


def test_colour_tells_the_model_and_line_style_the_training():
    styles = rotated_mnist.styles(list(rotated_mnist.STUDY.models))
    assert len(styles) == 12
    assert len({style["color"] for style in styles.values()}) == 3
    assert styles["MAP"]["color"] == styles["MAP fVI +90"]["color"]
    assert styles["Ensemble"]["linestyle"] == "--"
    assert styles["Ensemble fVI"]["linestyle"] == "-"


def as_measured(numbers):
    return [
        Summary(*p[:5], standard_error=0.01, seeds=10, p10=p.mean, median=p.mean, p90=p.mean)
        for p in numbers
    ]


def test_the_published_numbers_bear_out_the_claims_on_likelihood():
    claims = rotated_mnist.claims(as_measured(published("rotated_mnist")))
    likelihood = [claim for claim in claims if "log-likelihood" in claim.text]
    assert len(likelihood) == 3
    assert all(claim.holds for claim in likelihood)


def test_the_published_ensemble_gains_more_than_two_points():
    claims = rotated_mnist.claims(as_measured(published("rotated_mnist")))
    accuracy = {c.text.split(":")[0]: c for c in claims if "accuracy" in c.text}
    assert {kind: claim.holds for kind, claim in accuracy.items()} == {
        "MAP": True,
        "MC Dropout": True,
        "Ensemble": False,
    }
    assert "(+2.12)" in accuracy["Ensemble"].text


def test_swapped_numbers_do_not():
    swap = {"MAP": "MAP fVI", "MAP fVI": "MAP"}
    numbers = [p._replace(model=swap.get(p.model, p.model)) for p in published("rotated_mnist")]
    failed = [c.text for c in rotated_mnist.claims(as_measured(numbers)) if not c.holds]
    assert any(text.startswith("MAP: fVI has the better log-likelihood") for text in failed)


def test_base_and_enriched_models_get_a_figure_each(monkeypatch):
    drawn = {}

    def record(points, stem, **options):
        drawn[stem] = {p.model for p in points}

    monkeypatch.setattr(rotated_mnist, "draw_curves", record)
    numbers = as_measured(published("rotated_mnist"))
    rotated_mnist.draw(numbers, "base")
    assert list(drawn) == ["base"]
    numbers += [s._replace(model=f"{s.model} +90") for s in numbers if s.model == "MAP fVI"]
    rotated_mnist.draw(numbers, "all")
    assert drawn["all"] == drawn["base"]
    assert len(drawn["base"]) == 6
    assert drawn["all_enriched"] == {
        "MAP fVI",
        "MC Dropout fVI",
        "Ensemble fVI",
        "MAP fVI +90",
    }


@pytest.mark.parametrize("name", ["MAP", "MC Dropout fVI +90"])
def test_training_repeats_itself(mnist_root, name):
    settings = {"train_size": 512, "epochs": 1, **rotated_mnist.CHOICES}
    first, second = (rotated_mnist.train(name, 3, settings).state_dict() for _ in range(2))
    assert all((first[key] == second[key]).all() for key in first)


def test_what_the_paper_leaves_open_is_set_as_named():
    weights = {
        name: [p for p in rotated_mnist.build("MAP", name, "all").parameters() if p.dim() == 2]
        for name in ("glorot", "torch")
    }
    # Glorot draws from ± √(6 / (784 + 50)), torch from ± 1 / √784.
    assert weights["glorot"][0].abs().max().item() == pytest.approx((6 / 834) ** 0.5, rel=1e-3)
    assert weights["torch"][0].abs().max().item() == pytest.approx(1 / 28, rel=1e-3)
    images = torch.randn(20, 784)
    for dropout, deterministic in (("hidden", True), ("all", False)):
        model = rotated_mnist.build("MC Dropout", "glorot", dropout)
        seen = []
        first = next(m for m in model.modules() if isinstance(m, torch.nn.Linear))
        first.register_forward_hook(lambda _module, inputs, _output, seen=seen: seen.append(inputs))
        model(images)
        assert torch.equal(seen[0][0], images) is deterministic


@pytest.mark.parametrize("study", [rotated_mnist.STUDY, rotated_mnist.OTHER])
def test_only_dropout_predicts_with_a_hundred_draws(study, monkeypatch):
    assert {preset.settings["dropout_draws"] for preset in study.presets.values()} == {100}
    asked = []

    def predict(model, images, *, num_samples, seed):
        asked.append(num_samples)
        return predict_as_ever(model, images, num_samples=num_samples, seed=seed)

    predict_as_ever = rotated_mnist.felbo.predict
    monkeypatch.setattr(rotated_mnist.felbo, "predict", predict)
    monkeypatch.setattr(
        rotated_mnist, "train", lambda name, *_: rotated_mnist.build(name[:-4], "torch", "all")
    )
    monkeypatch.setattr(
        rotated_mnist, "test_data", lambda *_: (torch.randn(4, 784), torch.arange(4))
    )
    settings = {**study.presets["smoke"].settings, "angles": (0,)}
    for name in ("MAP fVI", "MC Dropout fVI", "Ensemble fVI"):
        assert len(rotated_mnist.run(name, 0, settings)) == 3
    assert asked == [None, 100, None]


def test_the_other_choices_are_compared_with_the_same_table():
    measured = [
        s._replace(experiment="rotated_mnist_other")
        for s in as_measured(published("rotated_mnist"))
    ]
    cells = compare(measured, rotated_mnist.OTHER.compared_with)
    assert len(cells) == 342
    assert all(cell.agrees for cell in cells)
    assert compare(measured) == []

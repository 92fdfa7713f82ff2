"""Exported models give what the original predicts, for any number of inputs."""

import builtins
import logging

import numpy as np
import pytest
import torch
from torch import nn

import felbo
from felbo.inputs import map_tensors, tensors
from felbo.networks import compact, mlp
from felbo.saving import ExportError, exporting
from felbo.saving.fixed import FixedDraws, with_fixed_draws, with_shared_masks

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))

MODELS = {
    "MAP": lambda: felbo.MAP(mlp(6, (8,), 3)),
    "Ensemble": lambda: felbo.Ensemble(lambda: mlp(6, (8,), 3), 4),
    "MeanField": lambda: felbo.MeanField(mlp(6, (8,), 3), rho=-1.0, evaluation_samples=4),
    "Radial": lambda: felbo.Radial(mlp(6, (8,), 3), rho=1.0, evaluation_samples=4),
    "Rank1": lambda: felbo.Rank1(mlp(6, (8,), 3), 3, rho=-0.5),
    "MCDropout": lambda: felbo.MCDropout(mlp(6, (8,), 3), 0.3, mask="draw"),
    "own dropout": lambda: felbo.MCDropout(
        nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 3)), mask="draw"
    ),
    "ConcentrationNetwork": lambda: felbo.ConcentrationNetwork(mlp(6, (8,), 3)),
    "Tempered": lambda: felbo.Tempered(felbo.MeanField(mlp(6, (8,), 3), rho=-1.0), 2.0),
    "TemperedMean": lambda: felbo.TemperedMean(felbo.MeanField(mlp(6, (8,), 3)), 2.0, draws=3),
}


def run(path, x):
    """Return the outputs of an exported file as arrays, without felbo."""
    if path.suffix == ".pt2":
        return [part.numpy() for part in torch.export.load(path).module()(x)]
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["probabilities", "epistemic"]
    names = [part.name for part in session.get_inputs()]
    assert len(names) > 1 or names == ["x"]
    given = zip(names, (part.numpy() for part in tensors(x)), strict=True)
    return session.run(None, dict(given))


@pytest.fixture
def remarks():
    """Warnings that torch logs while it writes ONNX, such as of packages that it could use."""
    found = []
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger("torch.onnx")
    handler.emit = lambda record: found.append(record.getMessage())
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


# Models that draw take seconds each, for the fit of their Dirichlet: in every run only those of
# tests/cli/test_predict.py::test_export, of docs/saving.md and, as ONNX, of several inputs below.
SLOW = [*((name, "pt2") for name in MODELS if name not in ("MAP", "ConcentrationNetwork"))]
SLOW += [("Ensemble", "onnx"), ("MCDropout", "onnx")]


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("MAP", "pt2"),
        ("ConcentrationNetwork", "pt2"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW),
    ],
)
def test_other_inputs_in_other_numbers_give_what_the_model_predicts(
    name, suffix, tmp_path, remarks
):
    model = MODELS[name]()
    path = felbo.export(model, tmp_path / f"model.{suffix}", X[:2], num_data=50, seed=5)
    assert remarks == []
    probs, epistemic = run(path, 2 * X)
    expected = felbo.predict(model, 2 * X, num_data=50, seed=5)
    np.testing.assert_allclose(probs, expected.probs, atol=1e-5)
    if expected.is_random:
        np.testing.assert_allclose(epistemic, expected.epistemic, atol=1e-5)
        assert epistemic.max() > 1e-4
    else:
        assert np.isnan(epistemic).all()


def test_masks_per_item_become_masks_per_draw_of_the_same_distribution():
    model = felbo.MCDropout(mlp(6, (8,), 3), 0.3, evaluation_samples=2000)
    fixed = with_fixed_draws(with_shared_masks(model), X, seed=0)
    draws = fixed(X).softmax(-1)
    assert torch.equal(fixed(X), fixed(X))
    assert torch.equal(fixed(X)[:, :4], fixed(X[:4]))
    own = model.eval()(X).softmax(-1)
    assert torch.allclose(draws.mean(0), own.mean(0), atol=0.03)
    assert torch.allclose(draws.std(0), own.std(0), rtol=0.15)


@pytest.mark.slow
def test_images(tmp_path):
    model = felbo.Ensemble(lambda: compact(3, width=2), 2)
    images = torch.rand(3, 3, 12, 12)
    path = felbo.export(model, tmp_path / "model.pt2", images[:1])
    np.testing.assert_allclose(run(path, images)[0], felbo.predict(model, images).probs, atol=1e-5)


@pytest.mark.slow  # tests/cli/test_predict.py::test_export is a quick one
@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
def test_a_classifier_brings_its_preprocessing(suffix, tmp_path):
    table = X.double().numpy() * 10 + 3
    labels = np.where(table[:, 0] > 3, "yes", "no")
    table[2, 1] = np.nan
    classifier = felbo.FunctionSpaceClassifier(epochs=2, random_state=0).fit(table, labels)
    classifier.learner_.temper(0.6)
    path = felbo.export(classifier, tmp_path / f"model.{suffix}", table[:2])
    probs, epistemic = run(path, torch.from_numpy(table))
    np.testing.assert_allclose(probs, classifier.predict_proba(table), atol=1e-6)
    np.testing.assert_allclose(epistemic, classifier.uncertainty(table, "epistemic"), atol=1e-6)


def test_what_cannot_be_exported_is_refused(tmp_path):
    import pandas as pd

    laplace = felbo.SubnetworkLaplace(mlp(6, (8,), 3), size=4)
    with pytest.raises(ExportError, match="SubnetworkLaplace cannot be exported"):
        felbo.export(laplace, tmp_path / "model.pt2", X)
    with pytest.raises(ValueError, match=r"\.pt2 or \.onnx"):
        felbo.export(MODELS["MAP"](), tmp_path / "model.bin", X)
    frame = pd.DataFrame({"a": ["x", "y"] * 10, "b": range(20)})
    classifier = felbo.FunctionSpaceClassifier(epochs=1).fit(frame, [0, 1] * 10)
    with pytest.raises(ExportError, match="columns of categories"):
        felbo.export(classifier, tmp_path / "model.pt2", frame)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without_onnx(name, *args, **kwargs):
        if name == "onnx":
            raise ImportError("No module named 'onnx'", name="onnx")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_onnx)
    with pytest.raises(ExportError, match=r"package onnx: pip install 'felbo\[onnx\]'"):
        felbo.export(MODELS["MAP"](), tmp_path / "model.onnx", X)


def test_a_file_that_differs_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("felbo.saving.graph.STEPS", -1)
    with pytest.raises(ExportError, match="differs from the original: its epistemic"):
        felbo.export(MODELS["Ensemble"](), tmp_path / "model.pt2", X, num_data=10**6)
    assert list(tmp_path.iterdir()) == []


def test_the_number_of_data_is_that_of_the_model(tmp_path, monkeypatch):
    model = MODELS["Ensemble"]()
    model.num_data = 50
    traced = []

    def graph(inner, x, num_data, *settings):
        traced.append(num_data)
        raise ExportError

    monkeypatch.setattr(exporting, "_graph", graph)
    with pytest.raises(ExportError):
        felbo.export(model, tmp_path / "model.pt2", X[:2])
    assert traced == [50]
    with pytest.raises(ValueError, match="pass example"):
        felbo.export(model, tmp_path / "model.pt2")


def test_draws_of_networks_that_overwrite_their_input_see_it_all():
    class Overwriting(nn.Linear):
        def forward(self, x):
            return super().forward(x.mul_(0.5))

    networks, x = [Overwriting(2, 3), Overwriting(2, 3)], torch.randn(4, 2)
    expected = torch.stack([network(x.clone()) for network in networks])
    torch.testing.assert_close(FixedDraws(networks)(x), expected)


class _Parts(nn.Module):
    """A network of two inputs, which are given by name in another order than it takes them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 8), nn.Linear(3, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, left, right):
        return self.last((self.first(left) - self.second(right)).relu())


KINDS = [felbo.MAP, felbo.MCDropout, felbo.MeanField, felbo.Rank1]
FORMS = [
    pytest.param(
        *(kind, form, suffix),
        marks=[] if (kind, form, suffix) == (felbo.MeanField, "dict", "onnx") else pytest.mark.slow,
    )
    for kind in KINDS
    for form in ("dict", "tuple")
    for suffix in ("pt2", "onnx")
]


@pytest.mark.parametrize(("kind", "form", "suffix"), FORMS)
def test_several_inputs(kind, form, suffix, tmp_path, remarks):
    felbo.seed_everything(0)
    options = {"mask": "draw"} if kind is felbo.MCDropout else {}
    model = kind(_Parts(), **options).eval()
    left, right = torch.randn(7, 2), torch.randn(7, 3)
    x = {"right": right, "left": left} if form == "dict" else (left, right)
    example = map_tensors(lambda part: part[:1], x)
    path = felbo.export(model, tmp_path / f"m.{suffix}", example, num_data=100, seed=0)
    assert remarks == []
    probs, epistemic = run(path, x)
    expected = felbo.predict(model, x, num_data=100, seed=0)
    np.testing.assert_allclose(probs, expected.probs, atol=1e-5)
    if expected.is_random:
        np.testing.assert_allclose(epistemic, expected.epistemic, atol=1e-4)


def test_inputs_of_another_kind_are_named(tmp_path):
    with pytest.raises(TypeError, match="got str"):
        felbo.export(felbo.MAP(_Parts()), tmp_path / "m.pt2", {"left": "a"}, num_data=10)

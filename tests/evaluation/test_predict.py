"""Prediction with models, with networks that exist already, and with draws."""

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

from felbo import (
    FunctionSpaceELBO,
    NegativeLogLikelihood,
    StochasticClassifier,
    Tempered,
    UniformPrior,
    dirichlet,
    fit,
)
from felbo.evaluation import predict
from felbo.models import MAP, ConcentrationNetwork, Ensemble, MCDropout
from felbo.networks import mlp

from .. import oracle


@pytest.fixture
def networks():
    return [mlp(4, (16,), 3) for _ in range(5)]


@pytest.fixture
def x():
    return torch.randn(50, 4)


class Fixed(StochasticClassifier):
    """Draws that are given; the input is the position of an item."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, x, num_samples=None):
        return self.logits[:, x.long().squeeze(-1)]


def test_a_list_of_networks_equals_the_manual_mean_and_fit(networks, x):
    with torch.no_grad():
        draws = torch.stack([network(x).softmax(-1) for network in networks])
    fitted = dirichlet.fit(dirichlet.smooth(draws.double()), max_precision=1000.0)
    epistemic = dirichlet.uncertainty(fitted.concentration).epistemic
    candidates = (networks, tuple(networks), nn.ModuleList(networks))
    for model in (*candidates, Ensemble.from_networks(networks), draws, draws.double().numpy()):
        inputs = None if isinstance(model, torch.Tensor | np.ndarray) else x
        found = predict(model, inputs, num_data=1000)
        torch.testing.assert_close(found.probs.float(), draws.mean(0))
        alpha, z = found.concentration.double(), found.precision.double()
        torch.testing.assert_close(alpha, fitted.concentration, rtol=1e-3, atol=0)
        torch.testing.assert_close(z, fitted.precision, rtol=1e-3, atol=0)
        torch.testing.assert_close(found.epistemic.double(), epistemic, rtol=1e-2, atol=1e-6)
        assert not found.probs.requires_grad
        assert not found.concentration.requires_grad


def test_every_form_of_inputs_gives_what_the_tensor_gives(networks, x):
    expected = predict(networks, x).probs
    labels = torch.zeros(50)
    forms = [
        x.double().numpy(),
        DataLoader(TensorDataset(x, labels), batch_size=16),
        DataLoader(TensorDataset(x), batch_size=16),
        DataLoader(list(x), batch_size=16),
        TensorDataset(x, labels),
        list(x.split(7)),
        (part.numpy() for part in x.split(7)),
        {"input": x, "labels": labels},
        [{"input": x[:20], "labels": labels[:20]}, {"input": x[20:]}],
        (x,),
    ]
    for form in forms:
        torch.testing.assert_close(predict(networks, form).probs, expected)
    split = predict(networks, x, batch_size=7)
    torch.testing.assert_close(split.probs, expected)
    torch.testing.assert_close(split.precision, predict(networks, x).precision, rtol=1e-3, atol=0)


def test_a_concentration_network_reports_its_own_dirichlet(x):
    model = ConcentrationNetwork(mlp(4, (16,), 3))
    with torch.no_grad():
        alpha = model.concentration(x)
    found = predict(model, x, batch_size=20)
    torch.testing.assert_close(found.concentration, alpha)
    torch.testing.assert_close(found.precision, alpha.sum(-1))
    torch.testing.assert_close(found.probs, alpha / alpha.sum(-1, keepdim=True))
    torch.testing.assert_close(found.epistemic, dirichlet.uncertainty(alpha).epistemic)


@pytest.mark.parametrize("num_samples", [None, 1, 5])
def test_models_of_one_function_show_no_epistemic_uncertainty(x, num_samples):
    network = mlp(4, (16,), 3)
    found = predict(MAP(network), x, num_data=60_000, num_samples=num_samples)
    with torch.no_grad():
        torch.testing.assert_close(found.probs, network(x).softmax(-1))
    assert (found.precision == 60_000).all()
    with pytest.warns(UserWarning, match="epistemic"):
        assert found.epistemic.isnan().all()
    for single in ([network], Ensemble.from_networks([network])):
        with pytest.warns(UserWarning, match="epistemic"):
            assert predict(single, x).epistemic.isnan().all()
    with pytest.warns(UserWarning, match="epistemic"):
        assert predict(MCDropout(network), x, num_samples=1).epistemic.isnan().all()


@pytest.mark.parametrize(
    ("classes", "smoothing", "items"), [(10_000, 1e-4, 40), (21_841, 1e-4, 20), (100, 1e-6, 2000)]
)
@pytest.mark.parametrize("noise", [30.0, 1.0, 0.1, 1e-3])
def test_float32_has_the_precision_of_float64(classes, smoothing, items, noise):
    logits = 8 * torch.randn(items, classes) + noise * torch.randn(5, items, classes)
    found = predict(Fixed(logits), torch.arange(items)[:, None], smoothing=smoothing)
    draws = dirichlet.smooth(logits.double().softmax(-1), smoothing)
    expected = dirichlet.fit(draws, max_precision=1e6).precision
    assert found.precision.dtype == torch.float32
    torch.testing.assert_close(found.precision.double(), expected, rtol=1e-3, atol=0)
    # Both use the spread of the library; an infinite one would give the least precision.
    for item in found.precision.argsort()[:5].tolist():
        exact = oracle.maximiser(draws[:, item], classes, 1e6)
        assert found.precision[item].item() == pytest.approx(exact, rel=1e-3)
    assert found.concentration.isfinite().all()


def test_without_smoothing_what_underflows_in_float32_still_counts():
    logits = 40 * torch.randn(200, 10) + 0.1 * torch.randn(5, 200, 10)
    expected = dirichlet.fit(logits.double().softmax(-1), max_precision=1e6).precision
    found = predict(Fixed(logits), torch.arange(200)[:, None], smoothing=0.0).precision
    assert (logits.softmax(-1) == 0).any()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(dtype):
    logits = torch.randn(5, 20, 3).to(dtype)
    found = predict(Fixed(logits), torch.arange(20)[:, None])
    torch.testing.assert_close(found.probs, logits.float().softmax(-1).mean(0))


def test_draws_are_repeatable_and_leave_the_generator_alone(x):
    model = MCDropout(mlp(4, (16,), 3), rate=0.3)
    state = torch.get_rng_state()
    first, second = predict(model, x, seed=4), predict(model, x, seed=4)
    assert torch.equal(first.probs, second.probs)
    assert not torch.equal(first.probs, predict(model, x, seed=5).probs)
    assert torch.equal(state, torch.get_rng_state())


def test_seeded_predictions_in_threads_do_not_disturb_each_other(x):
    model = MCDropout(mlp(4, (16,), 3), rate=0.3)
    expected = [predict(model, x, batch_size=5, seed=seed).probs for seed in range(4)]
    state = torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda seed: predict(model, x, batch_size=5, seed=seed).probs, range(4))
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_every_part_gets_its_mode_back_also_after_an_error(x):
    network = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    network.train()
    network[0].eval()
    mean = network[0].running_mean.clone()
    other = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    predict([network, other], x)
    assert (network.training, network[0].training, network[1].training) == (True, False, True)
    assert other.training
    assert torch.equal(network[0].running_mean, mean)
    assert other[0].num_batches_tracked == 0
    with pytest.raises(RuntimeError):
        predict([network, other], x[:, :2])
    assert (network.training, network[0].training, other.training) == (True, False, True)


@pytest.mark.parametrize("make", [MAP, MCDropout, ConcentrationNetwork])
def test_averaged_and_compiled_models_predict_as_the_model(make, x):
    model = make(mlp(4, (16,), 3))
    expected = predict(model, x, seed=0).probs
    average = AveragedModel(model)
    for wrapper in (average, torch.compile(model, backend="eager")):
        assert wrapper.training
        torch.testing.assert_close(predict(wrapper, x, seed=0).probs, expected)
        assert wrapper.training
    for parameter in model.parameters():
        parameter.data.add_(1.0)
    average.update_parameters(model)
    middle = make(mlp(4, (16,), 3))
    middle.load_state_dict(average.module.state_dict())
    torch.testing.assert_close(predict(average, x, seed=0).probs, predict(middle, x, seed=0).probs)


def test_an_exponential_average_predicts_with_its_own_weights(x):
    model = MCDropout(mlp(4, (16,), 3))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    with torch.no_grad():
        first = model.network[1].weight.clone()
        model.network[1].weight.add_(1.0)
    for _ in range(2):
        average.update_parameters(model)
    expected = 0.9 * (first + 1.0) + 0.1 * (first + 1.0)  # the first update copies
    torch.testing.assert_close(average.module.network[1].weight, expected)
    found = predict(average, x, seed=0)
    torch.testing.assert_close(found.probs, predict(average.module, x, seed=0).probs)


@pytest.mark.filterwarnings("ignore:All 2 draws")
def test_the_training_size_comes_from_the_model(x):
    """Draws that agree nearly everywhere have the largest precision allowed."""
    model = Ensemble.from_networks([mlp(4, (16,), 3)] * 2)
    assert (predict(model, x).precision == 1_000_000).all()
    fit(model, NegativeLogLikelihood(), (x, torch.arange(50) % 3), epochs=1, progress=False)
    assert model.num_data == 50
    assert (predict(model, x).precision == 50).all()
    assert (predict(model, x, num_data=700).precision == 700).all()
    compiled = torch.compile(model, backend="eager")
    wrapped = [copy.deepcopy(model), AveragedModel(model), compiled, Tempered(model, 2.0)]
    fresh = Ensemble.from_networks([mlp(4, (16,), 3)] * 2)
    fresh.load_state_dict(model.state_dict())
    wrapped += [fresh, pickle.loads(pickle.dumps(model))]
    for each in wrapped:
        assert predict(each, x).precision.unique().tolist() == [50]
    assert (predict([model.member(0), mlp(4, (16,), 3)], x).precision <= 1_000_000).all()


def test_the_size_that_the_objective_was_given_counts(x):
    model, y = MAP(mlp(4, (16,), 3)), torch.arange(50) % 3
    fit(model, FunctionSpaceELBO(UniformPrior(3), num_data=600), (x, y), epochs=1, progress=False)
    assert (predict(model, x).precision == 600).all()
    loader = DataLoader(TensorDataset(x, y), 10)
    fit(model, NegativeLogLikelihood(), loader, epochs=1, progress=False)
    assert (predict(model, x).precision == 50).all()


def test_state_dicts_of_models_that_know_no_size_leave_it(x):
    model, other = MAP(mlp(4, (16,), 3)), MAP(mlp(4, (16,), 3))
    model.num_data = 77
    model.load_state_dict(other.state_dict())
    assert model.num_data == 77
    other.load_state_dict(model.state_dict())
    assert other.num_data == 77


def test_copies_of_one_network_in_a_list_are_warned_of(networks, x):
    same = copy.deepcopy(networks[1])
    for copies in ([networks[0]] * 3, [*networks[:2], same]):
        with pytest.warns(UserWarning, match=r"Networks \d and \d of the list .* copies of one"):
            predict(copies, x, batch_size=20)
    with pytest.warns(UserWarning, match="Networks 1 and 2 ") as caught:
        predict([*networks[:2], same], x, batch_size=20)
    assert len(caught) == 1  # not once per batch
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict(networks, x[:1])
        predict(networks[:1], x)


def test_inference_mode_changes_nothing(networks, x):
    expected = predict(networks, x)
    with torch.inference_mode():
        found = predict(networks, x)
        assert torch.equal(found.precision, expected.precision)
    later = predict(networks, x)
    assert torch.equal(found.probs, expected.probs)
    assert torch.equal(later.epistemic, found.epistemic)


SETTINGS = {
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "all tf32": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    "cuda tf32": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "mkldnn tf32": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "tf32"),
}


@pytest.fixture(params=SETTINGS)
def narrow_products(request):
    owners = [torch.backends, torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]
    before = [owner.fp32_precision for owner in owners]
    SETTINGS[request.param]()
    yield
    torch.set_float32_matmul_precision("highest")
    for owner, value in zip(owners, before, strict=True):
        owner.fp32_precision = value


@pytest.mark.usefixtures("narrow_products")
def test_narrow_products_of_float32_are_no_obstacle(x):
    model = Ensemble(lambda: mlp(4, (16,), 3), members=3)
    loss = FunctionSpaceELBO(UniformPrior(3), 50)(model, x, torch.zeros(50, dtype=torch.int64))
    loss.total.backward()
    with torch.no_grad():
        draws = model.double()(x.double()).softmax(-1)
    found = predict(model.float(), x)
    torch.testing.assert_close(found.probs, draws.mean(0).float(), rtol=1e-2, atol=1e-2)
    expected = dirichlet.fit(dirichlet.smooth(draws), max_precision=1e6).precision.float()
    torch.testing.assert_close(found.precision, expected, rtol=0.1, atol=0)


def test_a_prediction_that_is_not_finite_names_its_input(networks, x):
    for bad in (torch.nan, torch.inf):
        x[31, 2] = bad
        for model in (networks, MAP(networks[0]), ConcentrationNetwork(networks[0])):
            for size in (7, 100):
                with pytest.raises(ValueError, match="prediction for input 31 is not finite"):
                    predict(model, x, batch_size=size)
    missing = nn.Sequential(_Missing(), networks[0])
    assert predict(MAP(missing), x).probs.isfinite().all()


class _Missing(nn.Module):
    """Takes NaN for missing values."""

    def forward(self, x):
        return x.nan_to_num(0.0, 0.0, 0.0)


@pytest.mark.parametrize("shape", [(50,), (50, 1), (25, 4), (50, 2, 3)])
def test_outputs_that_are_no_logits_are_refused(x, shape):
    class Reshaped(nn.Module):
        def forward(self, x):
            return x.flatten()[: torch.Size(shape).numel()].reshape(shape)

    wide = torch.randn(50, 6)
    for model in (
        MAP(Reshaped()),
        [Reshaped()],
        MCDropout(nn.Sequential(nn.Dropout(), Reshaped())),
    ):
        with pytest.raises(ValueError, match=rf"must give logits \[50, K\].* got \[{shape[0]}"):
            predict(model, wide)


@pytest.mark.parametrize("shape", [(50, 3), (1, 50), (2, 49, 3), (2, 50, 1)])
def test_draws_of_another_shape_are_refused(x, shape):
    class Wrong(StochasticClassifier):
        def forward(self, x, num_samples=None):
            return torch.zeros(shape)

    with pytest.raises((TypeError, ValueError), match=r"logits .*\[M, (B|50), K\]"):
        predict(Wrong(), x)


def test_a_network_in_a_list_that_gives_probabilities_is_refused(networks, x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict(networks, x)
    with pytest.raises(ValueError, match="network in the list are probabilities"):
        predict([networks[0], nn.Sequential(networks[1], nn.Softmax(-1))], x)


def test_refuses_networks_that_do_not_fit_together(networks, x):
    with pytest.raises(ValueError, match=r"same number of classes, got \[3, 2\]"):
        predict([networks[0], mlp(4, (), 2)], x)
    with pytest.raises(ValueError, match="list of networks is empty"):
        predict([], x)
    with pytest.raises(TypeError, match="MAP gives draws of its own"):
        predict([MAP(networks[0])], x)
    with pytest.raises(TypeError, match=r"networks \(nn.Module\), got str"):
        predict(["network"], x)
    with pytest.raises(ValueError, match="5 networks give exactly that many draws"):
        predict(networks, x, num_samples=3)
    with pytest.raises(TypeError, match=r"plain network .* felbo.MAP\(network\)"):
        predict(networks[0], x)
    with pytest.raises(TypeError, match="got dict"):
        predict({}, x)


def test_refuses_draws_that_are_not_predictions(x):
    draws = torch.full((4, 5, 2), 0.5)
    with pytest.raises(TypeError, match="pass them alone, without x"):
        predict(draws, x)
    with pytest.raises(TypeError, match="num_samples is the first axis"):
        predict(draws, num_samples=4)
    with pytest.raises(ValueError, match=r"\[M, B, K\].* got shape \[5, 2\]"):
        predict(draws[0])
    with pytest.raises(ValueError, match="pass probabilities, not logits"):
        predict(3 * draws)
    with pytest.raises(ValueError, match="not negative"):
        predict(torch.tensor([[[1.5, -0.5]], [[0.5, 0.5]]]))


def test_refuses_inputs_it_cannot_read(networks, x):
    with pytest.raises(TypeError, match="needs inputs x"):
        predict(networks)
    with pytest.raises(ValueError, match="gave no batch"):
        predict(networks, [])
    with pytest.raises(ValueError, match="gave no batch"):
        predict(networks, x[:0])
    with pytest.raises(TypeError, match=r"A batch must be x, \(x, y\), or a dict"):
        predict(networks, DataLoader(TensorDataset(x, x, x), 16))
    with pytest.raises(TypeError, match=r"A batch must be x"):
        predict(networks, x.tolist())
    with pytest.raises(TypeError, match="encode text"):
        predict(networks, np.array([["a"]]))
    with pytest.raises(ValueError, match="same number of items"):
        predict(networks, (x, x[:25]), batch_size=25)
    with pytest.raises(RuntimeError, match=r"(?s)inputs are torch.int64.*x.float\(\)"):
        predict(networks, x.long())


def test_refuses_impossible_settings(networks, x):
    for name, values in {
        "batch_size": (0, -1, 7.5, float("nan")),
        "num_data": (0, float("nan"), float("inf")),
        "smoothing": (1.0, -0.1, float("nan")),
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=name):
                predict(networks, x, **{name: value})


def test_no_warning_comes_from_an_ordinary_prediction(networks, x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert predict(networks, x).epistemic.isfinite().all()
        assert predict(MAP(networks[0]), x).total.isfinite().all()


def test_a_single_input_without_its_axis_is_explained():
    with pytest.raises((RuntimeError, IndexError)) as caught:
        predict(MAP(mlp(2, (4,), 3)), torch.zeros(2))
    assert any("x.unsqueeze(0)" in note for note in caught.value.__notes__)

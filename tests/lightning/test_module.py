"""The Lightning Trainer with a felbo model: the same training as felbo.fit."""

import copy
import warnings

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.networks import mlp

# What the trainer says about loggers, workers and intervals is not the subject.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(does not have many workers|no `val_dataloader`|LeafSpec).*"
)


def data(size=48, seed=11):
    x = torch.randn(size, 2, generator=torch.Generator().manual_seed(seed))
    return x, (x.sum(1) > 0).long()


def loader(size=48, batch=16, seed=11):
    return DataLoader(TensorDataset(*data(size, seed)), batch)


def elbo(**settings):
    return felbo.FunctionSpaceELBO(felbo.UniformPrior(2), num_data=48, **settings)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5)


def ensemble():
    return felbo.Ensemble(lambda: mlp(2, (8,), 2), members=3)


def trainer(**options):
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    return pl.Trainer(**{"accelerator": "cpu", "devices": 1, "max_epochs": 1, **quiet, **options})


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


class Logged(pl.Callback):
    """Keep the logged values of every epoch."""

    def __init__(self):
        self.epochs = []

    def on_train_epoch_end(self, trainer, pl_module):
        self.epochs.append({k: v.item() for k, v in trainer.callback_metrics.items()})


MODELS = {
    "ensemble": ensemble,
    "dropout": lambda: felbo.MCDropout(mlp(2, (8,), 2), rate=0.2),
    "normalised": lambda: felbo.MAP(
        nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    ),
}
OBJECTIVES = {
    "batch": elbo,
    "elsewhere": lambda: felbo.FunctionSpaceELBO.everywhere(felbo.UniformPrior(2), 48),
    "likelihood": felbo.NegativeLogLikelihood,
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_values_and_weights_are_those_of_fit(name, kind):
    """Three epochs with validation in each: draws, statistics and prior are the same."""
    model = MODELS[name]()
    twin, held_out = copy.deepcopy(model), data(20, seed=12)
    felbo.seed_everything(1)
    history = felbo.fit(
        twin,
        OBJECTIVES[kind](),
        _seedless(loader()),
        epochs=3,
        optimizer=sgd,
        validation=held_out,
        progress=False,
    )
    felbo.seed_everything(1)
    logged = Logged()
    module = felbo.lightning.FunctionSpaceModule(model, OBJECTIVES[kind](), sgd)
    validation = DataLoader(TensorDataset(*held_out), 128)
    # Without the sanity check, whose loader would draw a seed before the training's does.
    run = trainer(max_epochs=3, callbacks=[logged], num_sanity_val_steps=0)
    run.fit(module, _seedless(loader()), _seedless(validation))
    torch.testing.assert_close(weights(model), weights(twin), rtol=1e-6, atol=1e-6)
    for found, expected in zip(logged.epochs, history.epochs, strict=True):
        assert found["train_loss"] == pytest.approx(expected.total, rel=1e-6)
        assert found["train_nll"] == pytest.approx(expected.nll, rel=1e-6)
        assert found["train_kl"] == pytest.approx(expected.kl, rel=1e-6)
        scores = expected.validation
        assert found["val_loss"] == pytest.approx(scores.loss, rel=1e-6)
        assert found["val_nll"] == pytest.approx(scores.nll, rel=1e-6)
        assert found["val_accuracy"] == pytest.approx(scores.accuracy, rel=1e-6)
    assert model.num_data == twin.num_data == 48


def _seedless(source):
    """Let a loader draw the seed of its workers from a generator of its own."""
    source.generator = torch.Generator()
    return source


class Weights(felbo.Objective):
    """Keep the weight of the KL in every training step."""

    def __init__(self, objective):
        self.inner, self.found = objective, []

    def begin(self, batch_size):
        self.inner.begin(batch_size)

    def __call__(self, model, x, y):
        loss = self.inner(model, x, y)
        if torch.is_grad_enabled():
            self.found.append(((loss.total - loss.nll) / loss.kl).item())
        return loss


@pytest.mark.parametrize(
    ("size", "batch", "accumulate", "expected"),
    [(48, 16, 1, 16), (50, 16, 1, 16), (50, 8, 4, 32), (50, 16, 9, 50), (49, 48, 1, 48)],
)
def test_the_prior_has_the_weight_of_an_optimiser_step(size, batch, accumulate, expected):
    """Whatever remains for the last batch, and however many are accumulated."""
    objective = Weights(elbo())
    module = felbo.lightning.FunctionSpaceModule(felbo.MAP(mlp(2, (8,), 2)), objective)
    run = trainer(max_epochs=2, accumulate_grad_batches=accumulate)
    run.fit(module, loader(size, batch), loader(64, 64, seed=12))  # larger batches in validation
    assert objective.found == pytest.approx([1 / expected] * 2 * -(-size // batch), rel=1e-3)


@pytest.mark.parametrize(("small", "times", "size"), [(8, 4, 64), (8, 4, 50), (8, 9, 50)])
def test_accumulated_batches_are_those_of_fit_and_of_one_large_batch(small, times, size):
    """Also where the last step has fewer batches, and its last batch fewer items."""
    model = ensemble()
    twin, large = copy.deepcopy(model), copy.deepcopy(model)
    module = felbo.lightning.FunctionSpaceModule(model, elbo(), sgd)
    trainer(max_epochs=2, accumulate_grad_batches=times).fit(module, loader(size, small))
    options = {"epochs": 2, "optimizer": sgd, "progress": False}
    felbo.fit(twin, elbo(), loader(size, small), accumulate=times, **options)
    felbo.fit(large, elbo(), loader(size, small * times), **options)
    torch.testing.assert_close(weights(model), weights(twin), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(weights(model), weights(large), rtol=1e-5, atol=1e-6)


def test_fewer_batches_per_epoch_still_make_whole_steps():
    model = ensemble()
    twin = copy.deepcopy(model)
    module = felbo.lightning.FunctionSpaceModule(model, elbo(), sgd)
    trainer(accumulate_grad_batches=4, limit_train_batches=2).fit(module, loader(64, 8))
    step = elbo(batch_size=32)  # the items of a whole step
    optimizer = sgd(twin.parameters())
    step(twin, *(part[:16] for part in data(64))).total.backward()
    optimizer.step()
    torch.testing.assert_close(weights(model), weights(twin), rtol=1e-5, atol=1e-6)


def test_accumulation_of_unknown_sizes_is_refused():
    unknown = DataLoader(TensorDataset(*data()), batch_sampler=[[0, 1], [2, 3, 4]])
    module = felbo.lightning.FunctionSpaceModule(ensemble(), elbo())
    with pytest.raises(ValueError, match="batch_size=2 "):
        trainer(accumulate_grad_batches=2).fit(module, unknown)
    given = felbo.lightning.FunctionSpaceModule(ensemble(), elbo(batch_size=5))
    trainer(accumulate_grad_batches=2).fit(given, unknown)


def test_validation_leaves_no_trace_in_the_training():
    seen = []

    class Watching(felbo.NegativeLogLikelihood):
        def __call__(self, model, x, y):
            seen.append((torch.is_grad_enabled(), model.training))
            return super().__call__(model, x, y)

    results = []
    for validation in (None, loader(20, 7, seed=12)):
        felbo.seed_everything(0)
        model = MODELS["dropout"]()
        module = felbo.lightning.FunctionSpaceModule(model, Watching(), sgd)
        given = None if validation is None else _seedless(validation)
        trainer(max_epochs=3).fit(module, _seedless(loader()), given)
        results.append(weights(model))
        assert model.training
    assert torch.equal(*results)
    assert set(seen) == {(True, True), (False, False)}


def test_validation_in_inference_mode_and_training_after_it():
    """`Trainer.validate` runs in inference mode; what it leaves behind can still be trained."""
    modes = []

    class Watching(felbo.FunctionSpaceELBO):
        def __call__(self, model, x, y):
            modes.append(torch.is_inference_mode_enabled())
            return super().__call__(model, x, y)

    model, held_out = ensemble(), data(20, seed=12)
    yesterday = copy.deepcopy(model)
    yesterday.num_data = 48
    objective = Watching(felbo.ModelPrior(yesterday), 48, felbo.measurement.Elsewhere(), 0.1)
    module = felbo.lightning.FunctionSpaceModule(model, objective, sgd)
    source = DataLoader(TensorDataset(*held_out), 128)
    (logged,) = trainer().validate(module, source, verbose=False)
    expected = felbo.score(felbo.predict(model, held_out[0]), held_out[1])
    assert logged["val_nll"] == pytest.approx(-expected.log_likelihood, rel=1e-5)
    assert modes == [True]
    before = weights(model)
    trainer().fit(module, loader(), source)
    assert not torch.equal(weights(model), before)


def test_predictions_are_those_of_predict():
    model = MODELS["dropout"]()
    module = felbo.lightning.FunctionSpaceModule(model, elbo(), seed=3)
    trainer().fit(module, loader())
    x, _ = data(20, seed=12)
    batches = trainer().predict(module, DataLoader(TensorDataset(x), 8))
    expected = felbo.predict(model, x, batch_size=8, seed=3)
    found = felbo.Prediction.concatenate(batches)
    assert [len(part) for part in batches] == [8, 8, 4]
    for name in ("probs", "concentration", "epistemic"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))
    assert found.precision.max() <= 48


def test_scores_and_predictions_on_test_data():
    outputs = []

    class Keep(pl.Callback):
        def on_test_batch_end(self, trainer, pl_module, outputs_, *_):
            outputs.append(outputs_)

    model, held_out = ensemble(), data(20, seed=12)
    module = felbo.lightning.FunctionSpaceModule(model, elbo())
    source = DataLoader(TensorDataset(*held_out), 8)
    (logged,) = trainer(callbacks=[Keep()]).test(module, source, verbose=False)
    expected = felbo.score(felbo.predict(model, held_out[0]), held_out[1])
    assert logged["test_nll"] == pytest.approx(-expected.log_likelihood, rel=1e-5)
    assert logged["test_accuracy"] == pytest.approx(expected.accuracy, rel=1e-5)
    found = felbo.Prediction.concatenate(outputs)
    torch.testing.assert_close(found.probs, felbo.predict(model, held_out[0]).probs)


def test_checkpoints_reload_and_training_resumes(tmp_path):
    felbo.seed_everything(0)
    model = ensemble()
    whole = copy.deepcopy(model)
    adam = felbo.lightning.FunctionSpaceModule(model, elbo(), learning_rate=0.1)
    run = trainer(max_epochs=2)
    run.fit(adam, loader(), loader(20, 8))
    run.save_checkpoint(tmp_path / "half.ckpt")

    again = felbo.lightning.FunctionSpaceModule.load_from_checkpoint(
        tmp_path / "half.ckpt", model=ensemble(), objective=elbo()
    )
    assert torch.equal(weights(again.model), weights(model))
    assert again.model.num_data == 48
    expected = felbo.predict(model, data()[0]).concentration
    assert torch.equal(felbo.predict(again.model, data()[0]).concentration, expected)

    resumed = felbo.lightning.FunctionSpaceModule(ensemble(), elbo(), learning_rate=0.1)
    trainer(max_epochs=4).fit(resumed, loader(), loader(20, 8), ckpt_path=tmp_path / "half.ckpt")
    at_once = felbo.lightning.FunctionSpaceModule(whole, elbo(), learning_rate=0.1)
    trainer(max_epochs=4).fit(at_once, loader(), loader(20, 8))
    torch.testing.assert_close(weights(resumed.model), weights(whole))


def test_checkpoints_of_another_model_are_refused(tmp_path):
    run = trainer()
    run.fit(felbo.lightning.FunctionSpaceModule(ensemble(), elbo()), loader())
    run.save_checkpoint(tmp_path / "ensemble.ckpt")
    with pytest.raises(RuntimeError, match="comes from a Ensemble and the model is a MAP"):
        felbo.lightning.FunctionSpaceModule.load_from_checkpoint(
            tmp_path / "ensemble.ckpt", model=felbo.MAP(mlp(2, (8,), 2)), objective=elbo()
        )


def test_a_model_in_evaluation_mode_is_trained_and_frozen_parts_stay_frozen():
    model = MODELS["normalised"]()
    model.eval()
    before = model.network[1].running_mean.clone()
    module = felbo.lightning.FunctionSpaceModule(model, elbo())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*in eval mode at the start.*")
        trainer().fit(module, loader(), loader(20, 8))
        assert not torch.equal(model.network[1].running_mean, before)
        model.network[1].eval()
        before = model.network[1].running_mean.clone()
        trainer().fit(felbo.lightning.FunctionSpaceModule(model, elbo()), loader(), loader(20, 8))
    assert torch.equal(model.network[1].running_mean, before)
    assert model.training
    assert not model.network[1].training


def test_schedulers_advance_by_epoch_by_step_and_on_a_plateau():
    def rate_after(scheduler, epochs=2, **options):
        module = felbo.lightning.FunctionSpaceModule(
            ensemble(), elbo(), sgd, scheduler=scheduler, **options
        )
        run = trainer(max_epochs=epochs)
        run.fit(module, loader(), loader(20, 8))
        return run.optimizers[0].param_groups[0]["lr"]

    def halved(optimizer):
        return torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    def never_pleased(optimizer):
        return torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=0.5, patience=0, threshold=1e9, threshold_mode="abs"
        )

    assert rate_after(halved) == pytest.approx(0.5 / 4)
    assert rate_after(halved, scheduler_step="step") == pytest.approx(0.5 / 64)
    assert rate_after(never_pleased) == pytest.approx(0.25)
    assert rate_after(never_pleased, monitor="train_loss") == pytest.approx(0.25)


def test_dicts_with_labels():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(2, (8,), 2)

        def forward(self, features):
            return self.body(features)

    x, y = data()
    items = [{"features": row, "labels": label} for row, label in zip(x, y, strict=True)]
    module = felbo.lightning.FunctionSpaceModule(felbo.MAP(Named()), elbo())
    source = DataLoader(items, 16)
    run = trainer()
    run.fit(module, source, source)
    (logged,) = run.test(module, source, verbose=False)
    assert logged["test_nll"] == pytest.approx(run.callback_metrics["test_nll"].item())
    assert len(felbo.Prediction.concatenate(run.predict(module, source))) == 48


def test_a_loss_that_is_not_finite_stops_before_the_weights():
    model = ensemble()
    before = weights(model)
    x, y = data()
    x[3] = torch.nan
    module = felbo.lightning.FunctionSpaceModule(model, elbo(), sgd)
    with pytest.raises(FloatingPointError, match="hold NaN"):
        trainer().fit(module, DataLoader(TensorDataset(x, y), 48))
    assert torch.equal(weights(model), before)


def test_what_cannot_be_trained_is_refused():
    make = felbo.lightning.FunctionSpaceModule
    with pytest.raises(TypeError, match=r"felbo\.MAP\(network\)"):
        make(mlp(2, (8,), 2), elbo())
    with pytest.raises(TypeError, match="objective"):
        make(ensemble(), "elbo")
    with pytest.raises(ValueError, match="LBFGS computes the loss several times"):
        trainer().fit(make(ensemble(), elbo(), torch.optim.LBFGS), loader())
    with pytest.raises(ValueError, match=r"learning_rate=0\.1 would be ignored"):
        trainer().fit(make(ensemble(), elbo(), sgd, learning_rate=0.1), loader())
    triples = DataLoader(TensorDataset(*data(), torch.zeros(48)), 16)
    with pytest.raises(TypeError, match="A batch must be a pair"):
        trainer().fit(make(ensemble(), elbo()), triples)

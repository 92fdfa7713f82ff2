"""Comparison with other packages on the same tasks; rows of packages not installed are skipped."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

import felbo
from benchmarks.steps import mlp, step_of
from benchmarks.timing import Row, compare


def rows() -> Iterator[Row]:
    """Compare felbo with posteriors, scikit-learn and torchmetrics."""
    torch.manual_seed(0)
    x, y = torch.randn(256, 784), torch.randint(0, 10, (256,))
    yield from _posteriors(x, y)
    yield _scikit_learn(torch.randn(10_000, 784), torch.randint(0, 10, (10_000,)))
    yield _torchmetrics(torch.randn(10_000, 10).softmax(-1), torch.randint(0, 10, (10_000,)))


def _posteriors(x: Tensor, y: Tensor) -> Iterator[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import posteriors
            import torchopt
        except ImportError:
            return
    network = mlp()
    parameters = dict(network.named_parameters())

    def log_posterior(p: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        logits = torch.func.functional_call(network, p, batch[0])
        prior = posteriors.diag_normal_log_prob(p, sd_diag=0.1)
        return -F.cross_entropy(logits, batch[1]) + prior / 60_000, torch.tensor([])

    transform = posteriors.vi.diag.build(
        log_posterior, torchopt.adam(lr=1e-4), temperature=1 / 60_000
    )
    state = transform.init(parameters)

    def theirs() -> None:
        nonlocal state
        state, _ = transform.update(state, (x, y))

    model = felbo.MeanField(mlp())
    objective = felbo.WeightSpaceELBO(num_data=60_000)
    yield compare(
        "mean-field training step, MLP 784-50-50-10, B = 256",
        step_of(model, lambda: objective(model, x, y).total),
        "`posteriors` vi.diag with torchopt Adam",
        theirs,
        "≥ 1.0",
        number=10,
    )


def _scikit_learn(x: Tensor, y: Tensor) -> Row:
    from sklearn.neural_network import MLPClassifier

    inputs, labels = x.numpy(), y.numpy()

    def theirs() -> None:
        classifier = MLPClassifier((50, 50), batch_size=256, max_iter=3, solver="adam")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            classifier.fit(inputs, labels)

    def ours() -> None:
        felbo.fit(
            felbo.MAP(mlp()),
            felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=len(x)),
            (x, y),
            epochs=3,
            batch_size=256,
            progress=False,
        )

    return compare(
        "three epochs of 10,000 images through `felbo.fit`, function-space ELBO",
        ours,
        "scikit-learn's MLPClassifier, cross-entropy",
        theirs,
        "≥ 1.0",
        number=1,
        rounds=15,
    )


def _torchmetrics(probs: Tensor, labels: Tensor) -> Row:
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassCalibrationError

    classes = probs.shape[-1]
    metrics = MetricCollection(
        [
            MulticlassAccuracy(classes, average="micro"),
            MulticlassCalibrationError(classes, n_bins=15, norm="l1"),
        ]
    )

    def theirs() -> None:
        metrics.reset()
        metrics.update(probs, labels)
        metrics.compute()

    return compare(
        "`felbo.score` of 10,000 predictions, four measures",
        lambda: felbo.score(probs, labels),
        "two of them by a `torchmetrics` collection",
        theirs,
        "≥ 1.0",
        number=10,
    )

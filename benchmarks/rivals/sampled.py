"""posteriors: three of its methods with the settings of its IMDB example.

https://github.com/normal-computing/posteriors/tree/main/examples/imdb
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from benchmarks.rivals.task import TRAIN, Labelled, Predictor, Task, answer, loader, perceptron

# Its documentation has two priors: precision 1 in the quickstart, 40 in the example. Each method
# takes the one that gives the held-out labels of seed 0 the higher likelihood.
PRECISION_OF_LAPLACE, PRECISION = 40.0, 1.0
EPOCHS, BATCH_SIZE = 30, 32
CHAINS = 15
DRAWS, LINEARISED_DRAWS = 50, 1000  # the example takes 10,000 of the cheap ones

Weights = dict[str, Tensor]


def laplace(task: Task) -> Predictor:
    """Fit a Gaussian with a diagonal precision, and predict with the linearised network."""
    import posteriors

    def forward(weights: Weights, batch: Labelled) -> tuple[Tensor, Tensor]:
        return functional_call(task.network, weights, batch[0]), torch.tensor([])

    def log_likelihood(logits: Tensor, batch: Labelled) -> Tensor:
        return -F.cross_entropy(logits, batch[1], reduction="sum")

    fitted = posteriors.laplace.diag_ggn.build(
        forward, log_likelihood, init_prec_diag=PRECISION_OF_LAPLACE
    )
    state = _run(fitted, task.network, task, epochs=1)
    spread = {name: precision.rsqrt() for name, precision in state.prec_diag.items()}

    def draws(x: Tensor) -> Tensor:
        mean, root, _ = posteriors.linearized_forward_diag(
            forward, dict(state.params), (x, None), spread
        )
        noise = torch.randn(LINEARISED_DRAWS, *mean.shape)
        return (mean + torch.einsum("bkl,mbl->mbk", root, noise)).softmax(-1)

    return lambda x: answer(draws(x))


def variational(task: Task) -> Predictor:
    """Fit a Gaussian with a diagonal covariance by its bound, from the trained weights."""
    import posteriors
    import torchopt

    fitted = posteriors.vi.diag.build(
        _log_posterior(task.network),
        optimizer=torchopt.adamw(lr=1e-3),
        temperature=1 / TRAIN,
        init_log_sds=-3,
    )
    state = _run(fitted, task.network, task, EPOCHS)
    spread = {name: log_sd.exp() for name, log_sd in state.log_sd_diag.items()}
    weights = posteriors.diag_normal_sample(dict(state.params), spread, (DRAWS,))
    return _mean_of(task.network, weights)


def hamiltonian(task: Task) -> Predictor:
    """Run chains of stochastic-gradient HMC from scratch, and keep the last state of each."""
    import posteriors

    ends = []
    for _ in range(CHAINS):
        network = perceptron()
        fitted = posteriors.sgmcmc.sghmc.build(
            _log_posterior(network), lr=0.1, alpha=1.0, temperature=1 / TRAIN, momenta=0.0
        )
        ends.append(dict(_run(fitted, network, task, EPOCHS).params))
    weights = {name: torch.stack([end[name] for end in ends]) for name in ends[0]}
    return _mean_of(task.network, weights)


def _log_posterior(network: nn.Module) -> Any:
    import posteriors

    def log_posterior(weights: Weights, batch: Labelled) -> tuple[Tensor, Tensor]:
        x, y = batch
        prior = posteriors.diag_normal_log_prob(weights, sd_diag=PRECISION**-0.5)
        fit = -F.cross_entropy(functional_call(network, weights, x), y)
        return fit + prior / TRAIN, torch.tensor([])

    return log_posterior


@torch.no_grad()
def _run(fitted: Any, network: nn.Module, task: Task, epochs: int) -> Any:
    """Return the state after passes over the training data."""
    state = fitted.init(dict(network.named_parameters()))
    batches = loader(task.digits.train, BATCH_SIZE)
    for _ in range(epochs):
        for batch in batches:
            state, _ = fitted.update(state, tuple(batch))
    return state


def _mean_of(network: nn.Module, weights: Weights) -> Predictor:
    """Predict with every one of the stacked weights."""
    logits = vmap(partial(functional_call, network), in_dims=(0, None))
    return lambda x: answer(logits(weights, x).softmax(-1))

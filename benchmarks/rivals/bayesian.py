"""bayesian-torch: mean-field layers in place of linear ones, as in its README."""

from __future__ import annotations

from copy import deepcopy

import torch

from benchmarks.rivals.task import BATCH_SIZE, Predictor, Task, answer, train

DRAWS = 20  # the default of its examples
SETTINGS = {
    "prior_mu": 0.0,
    "prior_sigma": 1.0,
    "posterior_mu_init": 0.0,
    "posterior_rho_init": -3.0,
    "type": "Reparameterization",
    "moped_delta": 0.5,
}


def from_trained(task: Task) -> Predictor:
    """Start means and deviations from the trained weights (MOPED)."""
    return _fit(task, moped=True)


def from_scratch(task: Task) -> Predictor:
    """Start means at random."""
    return _fit(task, moped=False)


def _fit(task: Task, moped: bool) -> Predictor:
    from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss

    network = deepcopy(task.network).train()
    dnn_to_bnn(network, {**SETTINGS, "moped_enable": moped})
    train(network, task.digits.train, lambda: get_kl_loss(network) / BATCH_SIZE)
    network.eval()
    return lambda x: answer(torch.stack([network(x).softmax(-1) for _ in range(DRAWS)]))

"""Ways to get probabilities and uncertainties for a trained network, in felbo and elsewhere.

Each follows the documentation of its package. What a recipe leaves open, such as the number of
epochs, is as in the training of the network itself. A package is imported by the methods that need
it, when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.rivals import bayesian, laplace, ours, plain, sampled
from benchmarks.rivals.task import Predictor, Task


class Method(NamedTuple):
    """A row of the table.

    Attributes:
        package: the name under which the package is installed.
        name: what is done, in Markdown.
        fit: from the task to a function of images.
    """

    package: str
    name: str
    fit: Callable[[Task], Predictor]


METHODS = [
    Method("torch", "the network as it is", plain.network_alone),
    Method("torch", "temperature scaling [h]", plain.temperature_scaling),
    Method("torch", "deep ensemble of 5 [s]", plain.deep_ensemble),
    Method("felbo", "`finetune`", ours.finetune),
    Method("felbo", "`everywhere`, one network [s]", ours.everywhere),
    Method("felbo", "`everywhere`, `Ensemble` of 5 [s]", ours.ensemble),
    Method("laplace-torch", "last layer, Kronecker, marginal likelihood", laplace.last_layer),
    Method("laplace-torch", "all weights, Kronecker, marginal likelihood", laplace.all_weights),
    Method("laplace-torch", "all weights, diagonal, grid search [h]", laplace.grid_search),
    Method("posteriors", "`laplace.diag_ggn`, linearised [h]", sampled.laplace),
    Method("posteriors", "`vi.diag` [h]", sampled.variational),
    Method("posteriors", "`sgmcmc.sghmc`, 15 chains [s, h]", sampled.hamiltonian),
    Method("bayesian-torch", "`dnn_to_bnn` with MOPED", bayesian.from_trained),
    Method("bayesian-torch", "`dnn_to_bnn` [s]", bayesian.from_scratch),
]

"""Weight-space evidence lower bound (ELBO)."""

from __future__ import annotations

from torch import Tensor

from felbo.inputs import Inputs, batch_size
from felbo.models import StochasticClassifier, unwrap
from felbo.objectives.base import Loss, Objective
from felbo.objectives.checks import check_count, check_model, check_weight
from felbo.objectives.class_weights import ClassWeights, as_class_weights
from felbo.objectives.forward import checked
from felbo.objectives.likelihood import expected_nll


class WeightSpaceELBO(Objective):
    """Expected negative log-likelihood plus the KL divergence to a prior over weights.

    ``loss = mean −log f_y + temperature · KL[q(w) || p(w)] / N``

    The KL is ``model.weight_kl()``, exact and summed over all weights; the division by N puts it on
    the scale of the mean likelihood of one training example. With temperature 1 this is the
    negative ELBO divided by N. It is the conventional counterpart of :class:`FunctionSpaceELBO` for
    MeanField, Radial and Rank1; for MAP, MCDropout and Ensemble the KL is 0, and weight decay in
    the optimiser is the prior.

    Args:
        num_data: N, the number of training examples.
        temperature: weight of the KL term; below 1 a cold posterior.
        num_samples: M; ``None`` takes the model's training default.
        class_weights: factor of each class in the likelihood ``[K]``: ``−w_y log f_y``.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MeanField(felbo.networks.mlp(2, (25,), 3))
        >>> objective = felbo.WeightSpaceELBO(num_data=100)
        >>> loss = objective(model, torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64))
        >>> loss.total.backward()
    """

    def __init__(
        self,
        num_data: int,
        *,
        temperature: float = 1.0,
        num_samples: int | None = None,
        class_weights: ClassWeights | None = None,
    ) -> None:
        check_count("num_data, the number of training examples,", num_data)
        check_weight("temperature", temperature)
        self.num_data = num_data
        self.temperature = temperature
        self.num_samples = num_samples
        self.class_weights = as_class_weights(class_weights)

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss on inputs ``x [B, ...]`` and labels ``y [B]``; its ``kl`` is KL / N."""
        check_model(model)
        logits = checked(model(x, self.num_samples), batch_size(x))
        nll = expected_nll(logits, y, self.class_weights)
        kl = unwrap(model).weight_kl() / self.num_data
        return Loss(total=nll + self.temperature * kl, nll=nll, kl=kl)

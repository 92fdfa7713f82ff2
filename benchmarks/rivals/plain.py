"""What one does by hand: nothing, temperature scaling, a deep ensemble."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.rivals.task import Answer, Predictor, Task, answer, trained

MEMBERS = 5


def network_alone(task: Task) -> Predictor:
    """Take the softmax for what it is."""
    return _mean_of(task.network)


def temperature_scaling(task: Task) -> Predictor:
    """Divide logits by the temperature with the best likelihood of the held-out labels."""
    x, y = task.digits.validation
    with torch.no_grad():
        logits = task.network(x)
    log_temperature = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([log_temperature], line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(logits / log_temperature.exp(), y)
        value.backward()
        return value

    optimizer.step(loss)
    temperature = log_temperature.detach().exp()
    return lambda x: Answer((task.network(x) / temperature).softmax(-1))


def deep_ensemble(task: Task) -> Predictor:
    """Train networks from other initial weights, and take their mean."""
    return _mean_of(*(trained(task.digits.train) for _ in range(MEMBERS)))


def _mean_of(*networks: nn.Module) -> Predictor:
    return lambda x: answer(torch.stack([network(x).softmax(-1) for network in networks]))

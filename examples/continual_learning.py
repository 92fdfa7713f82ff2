"""Continual learning: the model of yesterday is the prior of today.

    python examples/continual_learning.py

Learns the digits in five tasks of two classes each, one after another, and never sees a labelled
image of an earlier task again. With `felbo.ModelPrior` the predictions of the old model are the
prior at twenty unlabelled images that were kept of each earlier task. Prints the accuracy on every
task after the last one.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor

import felbo

TASKS = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
KEPT = 20


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 8 - 1, dtype=torch.float32), torch.tensor(labels)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=0)
    return x, y, x_test, y_test


def of_task(y: Tensor, task: tuple[int, int]) -> Tensor:
    return torch.isin(y, torch.tensor(task))


def objective(
    model: felbo.StochasticClassifier, kept: list[Tensor], num_data: int, remember: bool
) -> felbo.FunctionSpaceELBO:
    """Return the bound of a task: a weak uniform prior on the data, the old model elsewhere."""
    terms = [felbo.Term(felbo.measurement.Batch(), 0.001)]
    if kept and remember:
        old = felbo.ModelPrior(model, max_precision=50.0)
        terms.append(felbo.Term(felbo.measurement.Pool(torch.cat(kept)), 1.0, old))
    return felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data, terms, kl_weight=1.0)


def learn(remember: bool, epochs: int, seed: int) -> list[float]:
    """Train on one task after another; return the accuracy on each of them after the last."""
    felbo.seed_everything(seed)
    x, y, x_test, y_test = digits()
    model = felbo.Ensemble(lambda: felbo.networks.mlp(64, (100,), 10), members=5)
    kept: list[Tensor] = []
    for task in TASKS:
        here = of_task(y, task)
        felbo.fit(
            model,
            objective(model, kept, int(here.sum()), remember),
            (x[here], y[here]),
            epochs=epochs,
            learning_rate=3e-3,
            seed=seed,
            progress=False,
        )
        kept.append(x[here][:KEPT])
    labels = felbo.predict(model, x_test).labels
    right = (labels == y_test).float()
    return [100 * right[of_task(y_test, task)].mean().item() for task in TASKS]


def main(epochs: int = 30, seed: int = 0) -> dict[str, list[float]]:
    found = {
        "without a memory": learn(False, epochs, seed),
        "old model as prior": learn(True, epochs, seed),
    }
    print(f"{'digits':20}" + "".join(f"{a:>6},{b}" for a, b in TASKS) + "    mean")
    for name, row in found.items():
        print(f"{name:20}" + "".join(f"{value:8.1f}" for value in row) + f"{sum(row) / 5:8.1f}")
    return found


if __name__ == "__main__":
    main()

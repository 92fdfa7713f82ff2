"""Active learning: ask for the labels that the model can learn most from.

    python examples/active_learning.py

Begins with 20 labelled digits and asks for ten labels at a time: those with the highest epistemic
uncertainty, or random ones. Prints the accuracy on test images by the number of labels, means over
the seeds.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor

import felbo

FIRST, PER_ROUND = 20, 10
Data = tuple[Tensor, Tensor]


def digits() -> tuple[Data, Data]:
    """Return a pool, whose labels are paid for, and test data."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 8 - 1, dtype=torch.float32), torch.tensor(labels)
    pool, test, pool_labels, test_labels = train_test_split(x, y, test_size=0.4, random_state=0)
    return (pool, pool_labels), (test, test_labels)


def train(x: Tensor, y: Tensor, steps: int, seed: int) -> felbo.StochasticClassifier:
    felbo.seed_everything(seed)
    model = felbo.Ensemble(lambda: felbo.networks.mlp(64, (50,), 10), members=5)
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=len(x), kl_weight=0.001)
    felbo.fit(
        model,
        objective,
        (x, y),
        epochs=steps,
        batch_size=None,  # so few that every step can take all of them
        learning_rate=0.01,
        progress=False,
    )
    return model


def learn(picks: str, rounds: int, steps: int, seed: int) -> list[float]:
    """Return the accuracy before every round of picking labels, and after the last."""
    (x, y), (x_test, y_test) = digits()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    known, rest = order[:FIRST], order[FIRST:]
    accuracies = []
    for turn in range(rounds + 1):
        model = train(x[known], y[known], steps, seed)
        accuracies.append(felbo.score(felbo.predict(model, x_test), y_test).accuracy)
        if turn == rounds:
            break
        if picks == "random":
            wanted = torch.randperm(len(rest), generator=generator)[:PER_ROUND]
        else:
            wanted = felbo.predict(model, x[rest]).epistemic.topk(PER_ROUND).indices
        known = torch.cat([known, rest[wanted]])
        left = torch.ones(len(rest), dtype=torch.bool)
        left[wanted] = False
        rest = rest[left]
    return accuracies


def main(rounds: int = 12, steps: int = 100, seeds: int = 3) -> dict[str, list[float]]:
    found = {}
    for picks in ("epistemic", "random"):
        runs = [learn(picks, rounds, steps, seed) for seed in range(seeds)]
        found[picks] = torch.tensor(runs).mean(0).tolist()
    print("labels   epistemic   random")
    for turn, pair in enumerate(zip(found["epistemic"], found["random"], strict=True)):
        print(f"{FIRST + PER_ROUND * turn:6} {pair[0]:9.1f} % {pair[1]:6.1f} %")
    return found


if __name__ == "__main__":
    main()

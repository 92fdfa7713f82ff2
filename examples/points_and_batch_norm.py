"""Batch normalisation of points elsewhere: together with the batch, or by running statistics.

    python examples/points_and_batch_norm.py

Trains a small network with batch normalisation on digits, with the prior at shuffled, inverted
images, in both ways and with three seeds, and prints the scores on the data and the entropy
elsewhere.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import felbo
from felbo.objectives import expected_nll, function_space_kl

WEIGHT = 0.1


def data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1
    parts = train_test_split(x, torch.tensor(labels), test_size=0.3, random_state=0)
    return parts[0], parts[2], parts[1], parts[3]


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def elsewhere(x: Tensor) -> Tensor:
    order = torch.randperm(64)
    return -x.flatten(1)[:, order].view_as(x)


def running_statistics(model: felbo.StochasticClassifier, x: Tensor, y: Tensor) -> felbo.Loss:
    """Compute the KL in a separate pass over the points, with running statistics."""
    nll = expected_nll(model(x), y)
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.eval()
    logits = model(elsewhere(x))
    for norm in norms:
        norm.train()
    kl = function_space_kl(logits, torch.ones(10), 1257.0).mean().to(nll.dtype)
    return felbo.Loss(nll + WEIGHT * kl, nll, kl)


def main(seeds: int = 3, epochs: int = 30) -> dict[str, list[float]]:
    x, y, test_x, test_y = data()
    together = felbo.FunctionSpaceELBO(
        felbo.UniformPrior(10), len(x), measurement=elsewhere, kl_weight=WEIGHT
    )
    objectives = {
        "no prior": felbo.NegativeLogLikelihood(),
        "normalised together": together,
        "running statistics": running_statistics,
    }
    print(f"{'':22}{'accuracy':>10}{'log-lik.':>10}{'ECE':>8}{'entropy elsewhere':>20}")
    found: dict[str, list[float]] = {}
    for name, objective in objectives.items():
        rows = []
        for seed in range(seeds):
            felbo.seed_everything(seed)
            model = felbo.MAP(network())
            felbo.fit(
                model,
                objective,
                (x, y),
                epochs=epochs,
                batch_size=64,
                learning_rate=3e-3,
                seed=seed,
                progress=False,
            )
            scores = felbo.score(felbo.predict(model, test_x), test_y)
            away = felbo.predict(model, elsewhere(test_x)).total.mean().item()
            rows.append([scores.accuracy, scores.log_likelihood, scores.ece, away])
        found[name] = torch.tensor(rows).mean(0).tolist()
        accuracy, likelihood, ece, away = found[name]
        print(f"{name:22}{accuracy:10.2f}{likelihood:10.3f}{ece:8.3f}{away:20.3f}")
    return found


if __name__ == "__main__":
    main()

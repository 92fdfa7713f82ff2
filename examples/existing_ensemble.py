"""Fit a Dirichlet, and with it epistemic uncertainty, to the predictions of trained networks.

python examples/existing_ensemble.py
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import make_moons
from torch import nn

import felbo


def train(x: torch.Tensor, y: torch.Tensor, steps: int) -> nn.Module:
    """Train a network in plain PyTorch, without felbo."""
    network = nn.Sequential(nn.Linear(2, 25), nn.ReLU(), nn.Linear(25, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network


def main(steps: int = 300) -> felbo.Prediction:
    felbo.seed_everything(0)
    features, labels = make_moons(200, noise=0.2, random_state=0)
    x, y = torch.tensor(features, dtype=torch.float32), torch.tensor(labels)
    networks = [train(x, y, steps) for _ in range(5)]

    places = {
        "on a moon": (0.0, 1.0),
        "between the moons": (0.5, 0.25),
        "beyond the moons": (2.0, 3.0),
    }
    prediction = felbo.predict(networks, torch.tensor(list(places.values())), num_data=len(x))
    print(f"{'':18} probability of class 1   precision   total   aleatoric   epistemic")
    for i, place in enumerate(places):
        print(
            f"{place:18} {prediction.probs[i, 1]:22.3f} {prediction.precision[i]:11.1f} "
            f"{prediction.total[i]:7.3f} {prediction.aleatoric[i]:11.3f} "
            f"{prediction.epistemic[i]:11.3f}"
        )
    return prediction


if __name__ == "__main__":
    main()

"""A random forest as prior: the network follows it where there are no training data.

python examples/random_forest_prior.py
"""

import torch
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier

import felbo


def main(epochs: int = 500) -> dict[str, float]:
    features, labels = make_moons(100, noise=0.2, random_state=456)
    x, y = torch.tensor(features, dtype=torch.float32), torch.tensor(labels)
    forest = RandomForestClassifier(20, criterion="entropy", max_depth=10, random_state=123)
    prior = felbo.ClassifierPrior(forest.fit(features, labels), precision=2.0)
    plane = felbo.measurement.Grid([(-2.0, 3.0), (-1.5, 2.0)], step=0.25)
    beliefs = prior(plane.points)  # the points never change, so the forest is called only once

    objectives = {
        "conventional": felbo.NegativeLogLikelihood(),
        "forest prior": felbo.FunctionSpaceELBO(
            lambda _: beliefs, num_data=len(x), measurement=plane, kl_weight=1.0
        ),
    }
    distances = {}
    for name, objective in objectives.items():
        felbo.seed_everything(0)
        model = felbo.MAP(felbo.networks.mlp(2, (25, 25), 2))
        felbo.fit(model, objective, (x, y), epochs=epochs, learning_rate=0.005, progress=False)
        probs = felbo.predict(model, plane.points).probs
        distances[name] = float((probs - beliefs.mean).abs().amax(-1).mean())
        print(f"{name}: differs from the forest by {distances[name]:.3f} on average over the plane")
    return distances


if __name__ == "__main__":
    main()

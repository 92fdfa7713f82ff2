"""The bound with all of the Dirichlet fitted to the draws, on an ensemble for MNIST.

    python examples/free_mean.py

The bound of the library fits the precision of a Dirichlet and takes the mean of the draws as its
mean. Here the mean is fitted as well (``felbo.dirichlet.fit(..., mean="free")``), in an objective
that is written as a function. Prints the scores on rotated test images and the time of a training,
means over three seeds.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

import felbo
from felbo.objectives import expected_nll

Data = tuple[Tensor, Tensor, Tensor, Tensor]
BATCH = 256
ANGLES = (0, 30, 60, 90, 180)


def mnist() -> Data:
    train, test = (felbo.data.load("mnist", split) for split in ("train", "test"))
    return felbo.data.scale(train.images), train.labels, felbo.data.scale(test.images), test.labels


def free_mean(model: felbo.StochasticClassifier, x: Tensor, y: Tensor) -> felbo.Loss:
    """Return the bound with a uniform prior, of which log Dir(f | β) is a constant."""
    logits = model(x)
    nll = expected_nll(logits, y)
    f = felbo.dirichlet.smooth(logits.double().softmax(-1), 1e-4)
    alpha = felbo.dirichlet.fit(f.detach(), mean="free").concentration
    beta = torch.ones(f.shape[-1], dtype=f.dtype)
    density = felbo.dirichlet.log_prob
    kl = (density(f, alpha) - density(f, beta)).mean().to(nll.dtype)
    return felbo.Loss(nll + kl / BATCH, nll, kl)


def main(
    data: Data | None = None, seeds: int = 3, epochs: int = 10, members: int = 5
) -> dict[str, dict[int, felbo.Scores]]:
    x, y, test_x, test_y = mnist() if data is None else data
    inputs, classes = x[0].numel(), int(y.max()) + 1
    bound = felbo.FunctionSpaceELBO(felbo.UniformPrior(classes), len(x), kl_weight=1 / BATCH)
    objectives = {
        "no prior": felbo.NegativeLogLikelihood(),
        "mean of the draws": bound,
        "free mean": free_mean,
    }
    found: dict[str, dict[int, felbo.Scores]] = {}
    for name, objective in objectives.items():
        rows: dict[int, list[felbo.Scores]] = {angle: [] for angle in ANGLES}
        kls, seconds = [], 0.0
        for seed in range(seeds):
            felbo.seed_everything(seed)
            model = felbo.Ensemble(lambda: felbo.networks.mlp(inputs, (50, 50), classes), members)
            start = time.process_time()
            history = felbo.fit(
                model,
                objective,
                (x, y),
                epochs=epochs,
                batch_size=BATCH,
                seed=seed,
                progress=False,
            )
            seconds += (time.process_time() - start) / seeds
            kls.append(history.kl[-1])
            for angle in ANGLES:
                turned = felbo.data.rotate(test_x, angle, fill=-1.0)
                rows[angle].append(felbo.score(felbo.predict(model, turned), test_y))
        kl = sum(kls) / seeds
        print(f"{name}: KL {kl:.2f} nats in the last epoch, {seconds:.1f} s of processor time")
        found[name] = {angle: mean(scores) for angle, scores in rows.items()}
        for angle, scores in found[name].items():
            print(
                f"    {angle:4}°: accuracy {scores.accuracy:5.2f}, log-likelihood "
                f"{scores.log_likelihood:6.3f}, calibration error {scores.ece:.3f}"
            )
    return found


def mean(scores: list[felbo.Scores]) -> felbo.Scores:
    return felbo.Scores(*(sum(values) / len(scores) for values in zip(*scores, strict=True)))


if __name__ == "__main__":
    main()

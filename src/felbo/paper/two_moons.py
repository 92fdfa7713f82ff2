"""Two moons: predictions over the plane for three kinds of model and several priors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from torch import Tensor

import felbo
from felbo._files import require_writable, write_atomically
from felbo.measurement import Grid
from felbo.paper.panels import Ticker, compute_panels
from felbo.priors import Prior
from felbo.report.planes import draw_planes

SEED = 123
EPOCHS = 1000
CLASSES = 2
BOUNDS = ((-2.0, 3.0), (-1.5, 2.0))
STEP = 0.05
# In the units of the plane: the noise of the moons has a standard deviation of 0.2.
NEAR, FAR = 0.2, 0.6

MODELS: dict[str, Callable[[], felbo.StochasticClassifier]] = {
    "MAP": lambda: felbo.MAP(_network()),
    # Ten draws, as in the tables, would make the picture grainy.
    "MC Dropout": lambda: felbo.MCDropout(_network(), rate=0.2, evaluation_samples=100),
    "Ensemble": lambda: felbo.Ensemble(_network, members=10),
}
PRIORS: dict[str, Callable[[], Prior | None]] = {
    "conventional": lambda: None,
    "uniform prior": lambda: felbo.UniformPrior(CLASSES),
    "GP prior": lambda: felbo.ClassifierPrior(gaussian_process(), precision=CLASSES),
    "random-forest prior": lambda: felbo.ClassifierPrior(random_forest(), precision=CLASSES),
}
BETAS = (0.1, 0.5, 1.0, 5.0, 10.0)


class Panel(NamedTuple):
    """One panel of a figure: a kind of model and its prior."""

    model: str
    prior: str


@dataclass(frozen=True)
class Outcome:
    """Results of one panel.

    Attributes:
        accuracy: fraction of 1000 held-out points that are classified correctly.
        confidence_near: mean probability of the likelier class over the points of the plane
            within ``NEAR`` of a training point.
        confidence_far: the same over those at least ``FAR`` from every training point.
        seconds: wall time of training and prediction.
        cpu_seconds: processor time of the same, which depends less on other programs.
    """

    accuracy: float
    confidence_near: float
    confidence_far: float
    seconds: float
    cpu_seconds: float


Rows = Sequence[Sequence[Panel]]
# The numbers of a panel, and the probability of class 1 on the plane [S].
Result = tuple[Outcome, Tensor]


def _network() -> torch.nn.Module:
    return felbo.networks.mlp(2, (25, 25), CLASSES)


@lru_cache(maxsize=1)
def training_data() -> tuple[Tensor, Tensor]:
    """Return the 100 points ``[N, 2]`` and their labels ``[N]``."""
    return _moons(100, 456)


@lru_cache(maxsize=1)
def held_out_data() -> tuple[Tensor, Tensor]:
    """Return 1000 other points of the same moons."""
    return _moons(1000, 457)


def _moons(size: int, seed: int) -> tuple[Tensor, Tensor]:
    x, y = make_moons(size, noise=0.2, random_state=seed)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def plane() -> Grid:
    """Return the visible plane as a grid: the measurement set, and the pixels of the picture."""
    return Grid(BOUNDS, STEP)


def gaussian_process() -> GaussianProcessClassifier:
    """Return a Gaussian process with RBF kernel, its length scale optimised on the data."""
    x, y = training_data()
    return GaussianProcessClassifier(RBF(), random_state=SEED).fit(x.numpy(), y.numpy())


def random_forest() -> RandomForestClassifier:
    """Return a random forest of 20 trees."""
    x, y = training_data()
    forest = RandomForestClassifier(20, criterion="entropy", max_depth=10, random_state=SEED)
    return forest.fit(x.numpy(), y.numpy())


def train(
    model: str, prior: Prior | None, *, epochs: int = EPOCHS, ticker: Ticker | None = None
) -> felbo.StochasticClassifier:
    """Train one model; without a prior, by maximum likelihood."""
    x, y = training_data()
    felbo.seed_everything(SEED)
    classifier = MODELS[model]()
    objective: Any = felbo.NegativeLogLikelihood()
    if prior is not None:
        # Evaluated once: the measurement points are the same in every step.
        beliefs = prior(plane().points)
        objective = felbo.FunctionSpaceELBO(
            lambda _: beliefs, num_data=len(x), measurement=plane(), kl_weight=1.0
        )
    felbo.fit(
        classifier,
        objective,
        (x, y),
        epochs=epochs,
        batch_size=None,
        learning_rate=0.005,
        seed=SEED,
        progress=False,
        on_epoch=None if ticker is None else lambda epoch: ticker(),
    )
    return classifier


def confidences(probs: Tensor) -> tuple[float, float]:
    """Mean confidence near the training points and far from them, of ``probs [S, K]``."""
    distance = torch.cdist(plane().points, training_data()[0]).amin(1)
    confidence = probs.amax(-1).double()
    near, far = confidence[distance <= NEAR].mean(), confidence[distance >= FAR].mean()
    return round(float(near), 4), round(float(far), 4)


def _compute(
    make_prior: Callable[[str], Prior | None], epochs: int, panel: Panel, ticker: Ticker
) -> Result:
    """Train a panel's model; return its numbers and the probability of class 1 on the plane."""
    clock, processor = time.perf_counter(), time.process_time()
    model = train(panel.model, make_prior(panel.prior), epochs=epochs, ticker=ticker)
    x, y = held_out_data()
    right = felbo.predict(model, x, seed=SEED).labels == y
    probs = felbo.predict(model, plane().points, seed=SEED).probs
    outcome = Outcome(
        round(float(right.double().mean()), 4),
        *confidences(probs),
        seconds=round(time.perf_counter() - clock, 2),
        cpu_seconds=round(time.process_time() - processor, 2),
    )
    return outcome, probs[:, 1]


def _described(result: Result) -> str:
    outcome = result[0]
    return (
        f"accuracy {outcome.accuracy:.3f}   confidence near {outcome.confidence_near:.2f}, "
        f"far {outcome.confidence_far:.2f}   {outcome.seconds:.0f} s"
    )


def two_moons(
    out: Path, jobs: int, *, epochs: int = EPOCHS, summary: str = "two_moons.json"
) -> Path:
    """Draw three kinds of model, conventional and with three priors: twelve panels."""
    rows = [[Panel(model, prior) for prior in PRIORS] for model in MODELS]
    results = _results(rows, _prior_by_name, jobs, epochs, out / summary)
    return _draw(rows, results, out / "two_moons", list(PRIORS), list(MODELS))


def two_moons_betas(out: Path, jobs: int, *, epochs: int = EPOCHS) -> Path:
    """Draw MC Dropout under constant priors, from β = 0.1 to β = 10: five panels."""
    names = [f"β = {beta:g}" for beta in BETAS]
    rows = [[Panel("MC Dropout", name) for name in names]]
    results = _results(rows, _prior_by_beta, jobs, epochs, out / "two_moons_betas.json")
    return _draw(rows, results, out / "two_moons_betas", names, ["MC Dropout"])


def _prior_by_name(name: str) -> Prior | None:
    return PRIORS[name]()


def _prior_by_beta(name: str) -> Prior:
    return felbo.DirichletPrior([float(name.removeprefix("β = "))] * CLASSES)


def _results(
    rows: Rows,
    make_prior: Callable[[str], Prior | None],
    jobs: int,
    epochs: int,
    summary: Path,
) -> dict[Panel, Result]:
    """Compute all panels and write their numbers to ``summary``."""
    require_writable(summary.parent)
    start = time.perf_counter()
    panels = [panel for row in rows for panel in row]
    cost = list(MODELS)
    queue = sorted(panels, key=lambda p: (p.prior == "conventional", -cost.index(p.model)))
    results = compute_panels(
        partial(_compute, make_prior, epochs), queue, steps=epochs, jobs=jobs, describe=_described
    )
    content = {
        "epochs": epochs,
        "measurement_points": len(plane().points),
        "near": f"points of the plane within {NEAR} of a training point",
        "far": f"points of the plane at least {FAR} from every training point",
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(sum(results[panel][0].cpu_seconds for panel in panels), 2),
        "panels": [{**panel._asdict(), **asdict(results[panel][0])} for panel in panels],
    }
    write_atomically(summary, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return results


def _draw(
    rows: Rows, results: dict[Panel, Result], stem: Path, columns: list[str], sides: list[str]
) -> Path:
    x, y = training_data()
    return draw_planes(
        [[results[panel][1].reshape(plane().shape).numpy() for panel in row] for row in rows],
        str(stem),
        bounds=BOUNDS,
        points=x.numpy(),
        labels=y.numpy(),
        columns=columns,
        rows=sides,
    )

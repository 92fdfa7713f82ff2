"""felbo: a prior over predictions for any PyTorch classifier."""

from typing import TYPE_CHECKING, Any

from felbo import data, dirichlet, measurement, networks
from felbo.evaluation import (
    ConformalSets,
    Evaluation,
    Prediction,
    Scores,
    calibrate,
    conformal,
    evaluate,
    predict,
    score,
)
from felbo.models import (
    MAP,
    ConcentrationNetwork,
    Ensemble,
    MCDropout,
    MeanField,
    Radial,
    Rank1,
    StochasticClassifier,
    SubnetworkLaplace,
    Tempered,
    TemperedMean,
)
from felbo.objectives import (
    BeliefMatching,
    Evidential,
    FunctionSpaceELBO,
    Loss,
    NegativeLogLikelihood,
    Objective,
    PriorNetwork,
    Term,
    WeightSpaceELBO,
)
from felbo.priors import ClassifierPrior, DirichletPrior, UniformPrior
from felbo.random import seed_everything

if TYPE_CHECKING:
    from felbo.training import History, fit
    from felbo.training.finetune import finetune

__version__ = "0.1.0"

__all__ = [
    "MAP",
    "BeliefMatching",
    "ClassifierPrior",
    "ConcentrationNetwork",
    "ConformalSets",
    "DirichletPrior",
    "Ensemble",
    "Evaluation",
    "Evidential",
    "FunctionSpaceELBO",
    "History",
    "Loss",
    "MCDropout",
    "MeanField",
    "NegativeLogLikelihood",
    "Objective",
    "Prediction",
    "PriorNetwork",
    "Radial",
    "Rank1",
    "Scores",
    "StochasticClassifier",
    "SubnetworkLaplace",
    "Tempered",
    "TemperedMean",
    "Term",
    "UniformPrior",
    "WeightSpaceELBO",
    "calibrate",
    "conformal",
    "data",
    "dirichlet",
    "evaluate",
    "finetune",
    "fit",
    "measurement",
    "networks",
    "predict",
    "score",
    "seed_everything",
    "training",
]

# The distributed engine behind the training loop takes twice as long to import as torch, so that
# room is opened on first use.
_TRAINING = ("History", "finetune", "fit", "training")

if not TYPE_CHECKING:  # or every misspelt name would pass a type checker

    def __getattr__(name: str) -> Any:
        """Import :mod:`felbo.training` when one of its names is first asked for."""
        if name not in _TRAINING:
            raise AttributeError(f"module 'felbo' has no attribute {name!r}")
        from importlib import import_module

        room = import_module("felbo.training")
        return room if name == "training" else getattr(room, name)


def __dir__() -> list[str]:
    """Return the public names, those of rooms that are not open yet included."""
    return sorted({*globals(), *__all__})

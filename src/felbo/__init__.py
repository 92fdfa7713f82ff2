"""felbo: a prior over predictions for any PyTorch classifier."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from felbo import data, dirichlet, distributed, errors, measurement, networks
from felbo.errors import FelboError
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
    OutlierExposure,
    PriorNetwork,
    Term,
    WeightSpaceELBO,
)
from felbo.priors import ClassifierPrior, DirichletPrior, ModelPrior, UniformPrior
from felbo.random import seed_everything
from felbo.training import (
    Epoch,
    History,
    StopTraining,
    TrainingInterrupted,
    choose_strength,
    finetune,
    fit,
    train,
)

if TYPE_CHECKING:
    from felbo import lightning as lightning
    from felbo.estimator import FunctionSpaceClassifier
    from felbo.saving import export, load, save

__version__ = "0.1.0"

__all__ = [
    "MAP",
    "BeliefMatching",
    "ClassifierPrior",
    "ConcentrationNetwork",
    "ConformalSets",
    "DirichletPrior",
    "Ensemble",
    "Epoch",
    "Evaluation",
    "Evidential",
    "FelboError",
    "FunctionSpaceClassifier",
    "FunctionSpaceELBO",
    "History",
    "Loss",
    "MCDropout",
    "MeanField",
    "ModelPrior",
    "NegativeLogLikelihood",
    "Objective",
    "OutlierExposure",
    "Prediction",
    "PriorNetwork",
    "Radial",
    "Rank1",
    "Scores",
    "StochasticClassifier",
    "StopTraining",
    "SubnetworkLaplace",
    "Tempered",
    "TemperedMean",
    "Term",
    "TrainingInterrupted",
    "UniformPrior",
    "WeightSpaceELBO",
    "calibrate",
    "choose_strength",
    "conformal",
    "data",
    "dirichlet",
    "distributed",
    "errors",
    "evaluate",
    "export",
    "finetune",
    "fit",
    "load",
    "measurement",
    "networks",
    "predict",
    "save",
    "score",
    "seed_everything",
    "train",
]


# Imported on first use: scikit-learn takes longer to load than all of felbo.
_LAZY = {
    "FunctionSpaceClassifier": "felbo.estimator",
    "export": "felbo.saving",
    "load": "felbo.saving",
    "save": "felbo.saving",
}


if not TYPE_CHECKING:  # a type checker would take any name for a name of this module

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            return getattr(import_module(_LAZY[name]), name)
        if name == "lightning":  # a room that no other imports
            return import_module("felbo.lightning")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

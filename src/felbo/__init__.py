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
from felbo.training import Epoch, History, StopTraining, choose_strength, finetune, fit, train

if TYPE_CHECKING:
    from felbo.estimator import FunctionSpaceClassifier

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
    "FunctionSpaceClassifier",
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
    "StopTraining",
    "SubnetworkLaplace",
    "Tempered",
    "TemperedMean",
    "Term",
    "UniformPrior",
    "WeightSpaceELBO",
    "calibrate",
    "choose_strength",
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
    "train",
]


def __getattr__(name: str) -> Any:
    # Imported lazily: scikit-learn takes longer to load than all of felbo.
    if name == "FunctionSpaceClassifier":
        from felbo.estimator import FunctionSpaceClassifier

        return FunctionSpaceClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

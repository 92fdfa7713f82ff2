"""felbo: a prior over predictions for any PyTorch classifier."""

from felbo import data, dirichlet, measurement, networks
from felbo.evaluation import Prediction, Scores, predict, score
from felbo.models import MAP, Ensemble, MCDropout, StochasticClassifier
from felbo.objectives import FunctionSpaceELBO, Loss, NegativeLogLikelihood
from felbo.priors import ClassifierPrior, DirichletPrior, UniformPrior
from felbo.random import seed_everything
from felbo.training import History, fit

__version__ = "0.1.0"

__all__ = [
    "MAP",
    "ClassifierPrior",
    "DirichletPrior",
    "Ensemble",
    "FunctionSpaceELBO",
    "History",
    "Loss",
    "MCDropout",
    "NegativeLogLikelihood",
    "Prediction",
    "Scores",
    "StochasticClassifier",
    "UniformPrior",
    "data",
    "dirichlet",
    "fit",
    "measurement",
    "networks",
    "predict",
    "score",
    "seed_everything",
]

"""Dirichlet distributions over predictions: fit to draws, density, KL divergence, uncertainty."""

from felbo.dirichlet._density import kl_divergence, log_normalizer, log_prob
from felbo.dirichlet._fit import DirichletFit, fit, fit_statistics, smooth
from felbo.dirichlet._uncertainty import Uncertainty, sample_uncertainty, uncertainty

__all__ = [
    "DirichletFit",
    "Uncertainty",
    "fit",
    "fit_statistics",
    "kl_divergence",
    "log_normalizer",
    "log_prob",
    "sample_uncertainty",
    "smooth",
    "uncertainty",
]

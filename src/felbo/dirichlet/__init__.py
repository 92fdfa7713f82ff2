"""Dirichlet distributions over predictions: fit to draws, density, KL divergence, uncertainty."""

from felbo.dirichlet.density import kl_divergence, log_normalizer, log_prob
from felbo.dirichlet.fitting import DirichletFit, fit, fit_spread, smooth, spread
from felbo.dirichlet.uncertainties import Uncertainty, sample_uncertainty, uncertainty

__all__ = [
    "DirichletFit",
    "Uncertainty",
    "fit",
    "fit_spread",
    "kl_divergence",
    "log_normalizer",
    "log_prob",
    "sample_uncertainty",
    "smooth",
    "spread",
    "uncertainty",
]

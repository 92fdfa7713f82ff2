"""The method once more, slowly: a maximiser by bisection, and the divergence with 40 digits."""

import mpmath
import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import digamma


def log_minus_digamma(x):
    """Return log x − ψ(x), by its series where the difference would cancel."""
    x = np.asarray(x, dtype=np.float64)
    large = np.maximum(x, 1e3)
    series = 1 / (2 * large) + 1 / (12 * large**2) - 1 / (120 * large**4)
    return np.where(x > 1e3, series, np.log(x) - digamma(np.minimum(x, 1e3)))


def maximiser(draws, lower, upper):
    """Return the precision in ``[lower, upper]`` that is most likely for one item ``[M, K]``."""
    draws = np.asarray(draws, dtype=np.float64)
    draws = draws / draws.sum(-1, keepdims=True)
    draws = draws[:, draws.max(0) > 0]
    if len(draws) == 1 or draws.shape[1] == 1:
        return upper
    if (draws == 0).any():
        return lower
    mean = draws.mean(0)
    ratio = draws / mean
    spread = (mean * (ratio - 1 - np.log(ratio)).mean(0)).sum()

    def derivative(z):
        return (mean * log_minus_digamma(z * mean)).sum() - log_minus_digamma(z) - spread

    if derivative(lower) <= 0:
        return lower
    if derivative(upper) >= 0:
        return upper
    return brentq(derivative, lower, upper, rtol=1e-12)


def kl(logits, beta, max_precision, smoothing=1e-4):
    """Return mean_m [log Dir(f_m | α) − log Dir(f_m | β)] at each point, and its gradient.

    The gradient is that for a constant α. ``logits [M, S, K]``, ``beta [S, K]`` or ``[K]``.
    """
    beta = beta.double().expand(logits.shape[1:]).tolist()
    items = zip(logits.double().transpose(0, 1).tolist(), beta, strict=True)
    found = [_kl_of_item(rows, own, max_precision, smoothing) for rows, own in items]
    values, gradients = zip(*found, strict=True)
    as_tensor = {"dtype": torch.float64}
    return torch.tensor(values, **as_tensor), torch.tensor(gradients, **as_tensor).transpose(0, 1)


def _kl_of_item(rows, beta, max_precision, smoothing):
    with mpmath.workdps(40):
        draws, classes = len(rows), len(beta)
        # A shift of the logits keeps the exponentials within the digits.
        exps = [[mpmath.exp(mpmath.mpf(l) - max(row)) for l in row] for row in rows]
        probs = [[e / mpmath.fsum(row) for e in row] for row in exps]
        shift, keep = mpmath.mpf(smoothing) / classes, 1 - mpmath.mpf(smoothing)
        f = [[keep * p + shift for p in row] for row in probs]
        floats = [[float(v) for v in row] for row in f]
        z = mpmath.mpf(maximiser(floats, float(classes), max_precision))
        alpha = [z * mpmath.fsum(column) / draws for column in zip(*f, strict=True)]
        mean_log = [
            mpmath.fsum(mpmath.log(v) for v in column) / draws for column in zip(*f, strict=True)
        ]
        value = _log_beta(beta) - _log_beta(alpha)
        value += mpmath.fsum((a - b) * l for a, b, l in zip(alpha, beta, mean_log, strict=True))
        excess = [(a - b) / draws for a, b in zip(alpha, beta, strict=True)]
        gradient = [_by_logits(p, v, excess, keep) for p, v in zip(probs, f, strict=True)]
        return float(value), gradient


def _log_beta(alpha):
    return mpmath.fsum(mpmath.loggamma(a) for a in alpha) - mpmath.loggamma(mpmath.fsum(alpha))


def _by_logits(probs, f, by_log_f, keep):
    """Chain rule for one draw: ∂f_k / ∂l_j = (1 − γ) p_k (δ_kj − p_j)."""
    by_log_p = [keep * g * p / v for g, p, v in zip(by_log_f, probs, f, strict=True)]
    total = mpmath.fsum(by_log_p)
    return [float(g - p * total) for g, p in zip(by_log_p, probs, strict=True)]

import numpy as np
import torch

from felbo import dirichlet
from felbo.paper.simplex import DRAWS, SEED, SOURCES, simplex


def test_the_fit_recovers_the_spread_that_the_means_do_not_show():
    rng = np.random.default_rng(SEED)
    fits = [
        dirichlet.fit(torch.from_numpy(rng.dirichlet(alpha, DRAWS))) for alpha in SOURCES.values()
    ]
    agree, disagree, corner = fits
    assert torch.allclose(agree.mean, disagree.mean, atol=0.1)
    assert agree.precision > 10 * disagree.precision
    assert corner.mean[0] > 0.7


def test_the_picture_is_written(tmp_path):
    assert simplex(tmp_path, 1).stat().st_size > 10_000

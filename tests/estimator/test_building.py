"""Where the prior counts by default."""

import torch

from felbo.estimator.building import MEASUREMENTS, around_rows
from felbo.measurement import Beyond, Box


def test_points_around_rows_keep_their_distance():
    assert MEASUREMENTS["elsewhere"] is around_rows
    box, beyond = around_rows().parts
    assert isinstance(box, Box)
    assert (box.scale, box.nearest) == (8.0, 4.0)
    assert isinstance(beyond, Beyond)
    assert (beyond.nearest, beyond.farthest) == (2.0, 3.0)
    x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0)).double()
    points = around_rows()(x)
    assert points.shape == (32, 3)
    deviations = ((points - x.mean(0)) / x.std(0, correction=0)).abs().amax(1)
    # Half in the box; the others are farther out along their lines.
    assert (deviations[:16] >= 4 - 1e-9).all()
    assert (deviations[:16] <= 8).all()
    assert (torch.cdist(points[16:], x).amin(1) > 2 * x.std()).all()

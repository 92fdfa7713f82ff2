"""Type of a prior."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.distributions import Dirichlet

# x [S, ...] -> Dirichlet with batch shape [S], or [] if it does not depend on x. Any such callable
# is a prior; this package has the common ones.
Prior = Callable[[Tensor], Dirichlet]

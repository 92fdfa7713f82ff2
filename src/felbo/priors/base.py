"""What a prior is."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.distributions import Dirichlet

# x [S, ...] -> Dirichlet with batch shape [S], or [] when it does not depend on x. Any callable is
# a prior; the classes of this package are only the common ones.
Prior = Callable[[Tensor], Dirichlet]

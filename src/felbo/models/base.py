"""Base class of all stochastic classifiers: ``forward`` returns M draws of the logits."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from felbo._numbers import whole_number
from felbo.errors import SettingError
from felbo.inputs import Inputs, run, run_on_copy
from felbo.models._conversion import last_layer
from felbo.models._state import check_same_kind, packed, unpacked


class StochasticClassifier(nn.Module, ABC):
    """A network with random weights ``w ~ q(w)``; each draw is one function ``x -> logits``.

    A subclass defines the default number of draws (``training_samples`` while the module is in
    training mode, ``evaluation_samples`` otherwise) and how a draw is computed. Random numbers
    come from torch's global generator, as in every ``nn.Module``; seed it with
    :func:`felbo.seed_everything`, or pass ``seed`` to :func:`felbo.predict`.

    Inputs are a tensor ``[B, ...]``, or several in a tuple (positional arguments of the network)
    or a dict (keyword arguments). The network returns logits ``[B, K]`` or an object that has them
    as ``.logits``.
    """

    training_samples: int = 1
    evaluation_samples: int = 10
    # Minimum batch size of a training step with the default number of draws.
    smallest_batch: int = 1
    # True if the logits are log α of a Dirichlet, so that the model predicts α directly.
    gives_concentration: bool = False
    # True if the random numbers are weights, shared by all items of a batch.
    draws_weights: bool = False
    # Module types that stay in training mode, because torch's fast paths for evaluation would skip
    # the random parts of the model.
    always_training: tuple[type[nn.Module], ...] = ()
    # N, the number of training examples, which felbo.fit sets; the default of felbo.predict.
    num_data: int | None = None
    # Appended to the warning that all draws are equal.
    reason_for_equal_draws: str = (
        "Likely its spread is below the precision of the numbers, or the converted layers do not "
        "influence the outputs."
    )

    _values_seen = False
    _spread_seen = False
    # The modes (training or not) in which the network was seen not to overwrite its inputs.
    _modes_without_overwriting: frozenset[bool] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_pre_hook(_accept_state_without_kind)  # type: ignore[no-untyped-call]

    @abstractmethod
    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return logits of ``M`` draws.

        Args:
            x: inputs ``[B, ...]``.
            num_samples: M; ``None`` takes the model's default for its current mode.

        Returns:
            Logits ``[M, B, K]``: the draws always come first and are never folded into the batch.
        """

    def weight_kl(self) -> Tensor:
        """KL[q(w) || p(w)], summed over all weights; 0 for a model without a weight posterior."""
        parameter = next(self.parameters(), None)
        return torch.zeros(()) if parameter is None else parameter.new_zeros(())

    def concentration(self, x: Inputs) -> Tensor | None:
        """Return α ``[B, K]`` if the model predicts it directly, else ``None``."""
        if not self.gives_concentration:
            return None
        log_alpha: Tensor = self(x, 1)
        return log_alpha.squeeze(0).exp()

    @property
    def is_random(self) -> bool:
        """True if draws for one input can differ."""
        return True

    def last_layer_parameters(self) -> list[nn.Parameter]:
        """Parameters of the last linear or convolutional layer, in each member of the model.

        The last layer is the last one that the network's constructor registers.
        """
        return list(last_layer(self)[1].parameters())

    def resolve_samples(self, num_samples: int | None) -> int:
        """Return ``num_samples``, or the default of the current mode, as a positive int."""
        if num_samples is None:
            return self.training_samples if self.training else self.evaluation_samples
        return whole_number("num_samples", num_samples)

    def evaluation_draws(self, wanted: int) -> int:
        """Return the number of draws in evaluation for an objective with ``num_samples=wanted``."""
        return wanted

    def run_network(self, network: Callable[..., Any], x: Inputs) -> Tensor:
        """Run a network on ``x`` and return its logits ``[B, K]``; ``x`` is not modified.

        A network may overwrite its input, for instance with ``x.div_(255)``; the next draw would
        then see another one. So it runs on a copy, until it is seen not to.
        """
        if torch.compiler.is_compiling() or self.training in self._modes_without_overwriting:
            return run(network, x)
        logits, untouched = run_on_copy(network, x)
        if untouched:
            self._modes_without_overwriting |= {self.training}
        return logits

    def checked(self, draws: Tensor) -> Tensor:
        """Return ``draws [M, B, K]``; the first calls check their values.

        Two things are checked, once each: logits that are probabilities are refused, and a warning
        is given if all draws of a random model in evaluation mode are equal.
        """
        if not self._values_seen and not torch.compiler.is_compiling():
            source = f"the network in this {type(self).__name__}"
            self._values_seen = refuse_probabilities(draws.detach(), source)
        unseen = not (self._spread_seen or self.training) and len(draws) > 1
        if unseen and self.is_random and not torch.compiler.is_compiling():
            self._spread_seen = self._warn_of_equal_draws(draws.detach())
        return draws

    def train(self, mode: bool = True) -> Self:
        """Set the mode of all modules except those in ``always_training``."""
        super().train(mode)
        self._keep_in_training()
        return self

    def settings(self) -> dict[str, Any]:
        """Return the settings that a state dict must match to be loaded."""
        return {}

    def get_extra_state(self) -> Tensor:
        """Return the model's class, settings and ``num_data``, which the state dict stores."""
        known = {} if self.num_data is None else {"num_data": self.num_data}
        return packed({"kind": type(self).__name__, **self.settings(), **known})

    def set_extra_state(self, state: Tensor) -> None:
        """Take ``num_data``; raise if the model was of another class or had other settings."""
        check_same_kind(state, packed({"kind": type(self).__name__, **self.settings()}))
        self.num_data = unpacked(state).get("num_data", self.num_data)

    def _take_mode_of(self, *networks: nn.Module) -> None:
        """Set the model's own mode to that of the networks, without changing their modules."""
        self.training = any(network.training for network in networks)
        self._keep_in_training()

    def _keep_in_training(self) -> None:
        for module in self.modules() if self.always_training else ():
            if isinstance(module, self.always_training):
                module.training = True

    def _warn_of_equal_draws(self, draws: Tensor) -> bool:
        """Warn if all draws are equal; return False if there are no values to tell from."""
        equal = _read((draws == draws[:1]).all()) if draws.numel() else None
        if equal:
            warnings.warn(
                f"All {len(draws)} draws of this {type(self).__name__} are exactly equal, so it "
                f"shows no uncertainty. {self.reason_for_equal_draws}",
                stacklevel=2,
            )
        return equal is not None


def refuse_probabilities(logits: Tensor, source: str) -> bool:
    """Raise if all logits ``[..., K]`` are non-negative and sum to one, and not by chance.

    The first row does so by chance as often as the tolerance says. Each further one is evidence as
    far as the sums could have differed: outputs that hardly depend on the input, as those of a last
    layer that starts at zero, are one row.

    Args:
        logits: outputs of a network.
        source: what gave them, as the message calls it.

    Returns:
        True if they are no probabilities; False if that cannot be told from these values.
    """
    if not logits.is_floating_point():
        return True
    if not logits.numel():
        return False
    rows = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    told = True
    # Of half precision converted after a softmax, the sums are as far from one as before.
    for dtype in dict.fromkeys((logits.dtype, torch.float16, torch.bfloat16)):
        tolerance = max(1e-6, torch.finfo(dtype).eps)
        near = (rows >= 0).all() & ((rows.sum(-1) - 1).abs() <= tolerance).all()
        sum_to_one = _read(near & (rows == rows.to(dtype)).all())
        if sum_to_one and _log10_of_chance(rows, tolerance) < -10:
            raise SettingError(
                f"The outputs of {source} are probabilities: they are positive and sum to one. "
                "felbo takes logits and applies softmax itself: leave out the network's last "
                "softmax, or return the logarithm of its output."
            )
        told &= sum_to_one is False
    return told


def _log10_of_chance(rows: Tensor, tolerance: float) -> float:
    """Return log10 of the probability that rows ``[R, K]`` sum to one by chance."""
    # Standard deviation of the sums if the classes were independent.
    spread = float(rows.var(0, correction=0).sum().sqrt().clamp(tolerance, 1.0))
    return math.log10(tolerance) + (len(rows) - 1) * math.log10(tolerance / spread)


def _read(condition: Tensor) -> bool | None:
    """Return a truth value; ``None`` if it is not known."""
    try:
        return bool(condition)
    except RuntimeError:  # values cannot be read under torch.func.vmap and on the meta device
        return None


def _accept_state_without_kind(
    model: nn.Module, state_dict: dict[str, Any], prefix: str, *_: object
) -> None:
    """Make state dicts loadable that were saved before they stored the model's class."""
    state_dict.setdefault(f"{prefix}_extra_state", model.get_extra_state())

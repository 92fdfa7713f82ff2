"""Cost of a cell, measured on a few inputs of the full-size model and extrapolated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from felbo.models import StochasticClassifier, evaluation_mode, training_mode
from felbo.objectives import Objective
from felbo.random import torch_seed

# Inputs of the pass that is counted, and operations of the step that is timed: about a second.
COUNTED = 4
TIMED_FLOPS = 2e10
# Feature maps that a forward pass without gradients holds at a time: input, output, a shortcut.
LIVE_MAPS = 3


@dataclass(frozen=True)
class Workload:
    """What a cell computes: trainings of one model, and passes through it.

    Attributes:
        model: makes the untrained model at full size.
        objective: makes its objective, for batches of a given size.
        inputs: shape of one input.
        classes: K.
        batch_size: B of a training step.
        steps: training steps of one training.
        trainings: files of the weights it needs, relative to the folder of weights. Several cells
            may need the same ones.
        passes: inputs whose prediction is computed, with the draws of a prediction; a backward pass
            counts as two more.
        draws: of a prediction; ``None`` is the model's default.
        prediction_batch: inputs per prediction.
        data_bytes: memory of the data.
        precision: of training, as Fabric names it; predictions are in float32.
        beside: measures and returns the seconds of processor time spent beside the model, such as
            on corruptions.
    """

    model: Callable[[], StochasticClassifier]
    objective: Callable[[int], Objective]
    inputs: tuple[int, ...]
    classes: int
    batch_size: int
    steps: int
    trainings: tuple[str, ...]
    passes: int
    draws: int | None = None
    prediction_batch: int = 500
    data_bytes: int = 0
    precision: str = "32-true"
    beside: Callable[[], float] = lambda: 0.0


class Cost(NamedTuple):
    """Cost of one training and of all that follows it.

    Attributes:
        steps: of one training.
        training_flops: floating-point operations of one training.
        evaluation_flops: of all passes.
        training_speed: operations per second of one core of this processor, in a training step.
        evaluation_speed: the same in float32.
        beside: seconds of processor time beside the model.
        memory: bytes: weights, gradients, momentum, activations of a training step or of a
            prediction, whichever is larger, and data.
    """

    steps: int
    training_flops: float
    evaluation_flops: float
    training_speed: float
    evaluation_speed: float
    beside: float
    memory: float


def measure(work: Workload) -> Cost:
    """Count the operations of a step and of a prediction on a few inputs, and time a step.

    Operations are those of matrix products and convolutions, which grow in proportion to the
    number of inputs. They are counted by ``torch.utils.flop_counter.FlopCounterMode``.
    """
    with torch_seed(0):
        model = work.model()
        with training_mode(model):
            step_flops, saved = _count_step(work, model)
            size = min(max(COUNTED, int(TIMED_FLOPS / max(step_flops, 1.0))), work.batch_size)
            speeds = [
                step_flops * size / _time_step(work, model, size, precision)
                for precision in dict.fromkeys((work.precision, "32-true"))
            ]
        with evaluation_mode([model]):
            pass_flops, widest = _count_prediction(work, model)
    weights = sum(weight.nbytes for weight in model.parameters())
    predicting = weights + LIVE_MAPS * widest * work.prediction_batch
    return Cost(
        steps=work.steps,
        training_flops=step_flops * work.batch_size * work.steps,
        evaluation_flops=pass_flops * work.passes,
        training_speed=speeds[0],
        evaluation_speed=speeds[-1],
        beside=work.beside(),
        memory=max(3 * weights + saved, predicting) + work.data_bytes,
    )


def _batch(work: Workload, size: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(size, *work.inputs)
    if x.ndim == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    return x, torch.arange(size) % work.classes


def _count_step(work: Workload, model: StochasticClassifier) -> tuple[float, float]:
    """Return the operations of a training step per input, and the bytes kept for a full batch."""
    with FlopCounterMode(display=False) as counter:
        loss, several = _kept_for_backward(work, model, 2 * COUNTED)
        loss.backward()  # type: ignore[no-untyped-call]
    _, few = _kept_for_backward(work, model, COUNTED)
    # Two sizes, since weights that were drawn are kept once, whatever the size of the batch.
    each = (several - few) / COUNTED
    kept = few + each * (work.batch_size - COUNTED)
    return counter.get_total_flops() / (2 * COUNTED), kept


def _kept_for_backward(
    work: Workload, model: StochasticClassifier, size: int
) -> tuple[Tensor, float]:
    """Return the loss of ``size`` inputs, and the bytes that its graph keeps beside the weights."""
    x, y = _batch(work, size)
    objective = work.objective(size)
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = objective(model, x, y).total
    return loss, float(sum(kept.values()))


def _time_step(work: Workload, model: StochasticClassifier, size: int, precision: str) -> float:
    """Return the processor time of a training step: loss, gradients and update."""
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)  # type: ignore[arg-type]
    x, y = _batch(work, size)
    objective = work.objective(size)
    # A step size of zero, so that the measurement cannot diverge. Processor time and not that of
    # the clock, which other programs on the machine would lengthen.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    start = time.process_time()
    optimizer.zero_grad()
    with fabric.autocast():
        loss = objective(model, x, y).total
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return time.process_time() - start


def _count_prediction(work: Workload, model: StochasticClassifier) -> tuple[float, float]:
    """Return operations and bytes of the largest feature map, of one input in a prediction."""
    x, _ = _batch(work, COUNTED)
    counter = FlopCounterMode(display=False)
    with _largest_output(model) as widest, torch.no_grad(), counter:
        model(x, work.draws)
    return counter.get_total_flops() / COUNTED, widest[0] / COUNTED


@contextmanager
def _largest_output(model: nn.Module) -> Iterator[list[int]]:
    """Record the bytes of the largest output of any module."""
    largest = [0]

    def look(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor):
            largest[0] = max(largest[0], output.nbytes)

    handles = [part.register_forward_hook(look) for part in model.modules()]
    try:
        yield largest
    finally:
        for handle in handles:
            handle.remove()

"""What stands between the measured ratios and their goals: which operation, how many, how fast."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import felbo
from benchmarks import loops
from benchmarks.steps import cross_entropy, mlp, step_of
from benchmarks.timing import seconds
from felbo import dirichlet
from felbo._softmax import softmax
from felbo.dirichlet._fit import precision_of_statistics
from felbo.dirichlet._precision import with_total
from felbo.dirichlet._special import stirling_part
from felbo.evaluation.prediction import summarise
from felbo.training.batches import TensorBatches

# logits [M, B, K] -> loss
Loss = Callable[[Tensor], Tensor]

# What only looks at a tensor in another way, and costs no pass over it.
_VIEWS = ("view", "expand", "select", "slice", "unsqueeze", "detach", "alias", "t.", "_unsafe_view")


@dataclass(frozen=True)
class Limit:
    """One cost that is there on our side and not on the other.

    Attributes:
        row: the line of the table of goals.
        operation: what is done.
        count: how often.
        each: microseconds each.
        share: of the time of the plain side.
    """

    row: str
    operation: str
    count: int
    each: float
    share: float


class _Counter(TorchDispatchMode):
    """Counts operations, views left out, that read or write a tensor of some size."""

    def __init__(self, at_least: int) -> None:
        super().__init__()
        self.at_least = at_least
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not str(func).removeprefix("aten.").startswith(_VIEWS):
            read = [part for part in (result, *args) if isinstance(part, Tensor)]
            self.count += max((part.numel() for part in read), default=0) >= self.at_least
        return result


def operations(loss: Loss, logits: Tensor, at_least: int = 0) -> int:
    """Count what a loss of given logits and its backward pass ask of PyTorch."""
    given = logits.detach().requires_grad_()
    with _Counter(at_least) as counter:
        loss(given).backward()
    return counter.count


def small_operations(build: Callable[[], felbo.StochasticClassifier], row: str) -> Iterator[Limit]:
    """Compare the operations of the bound with those of cross-entropy, for given logits.

    One operation is timed where it runs: between the forward pass of the network and the next one,
    with caches full of other things.
    """
    torch.manual_seed(0)
    x, y = torch.randn(256, 784), torch.randint(0, 10, (256,))
    model = build()
    bound, entropy = losses(x, y, classes=10)
    logits = model(x)
    bound(logits)
    ours, theirs = operations(bound, logits), operations(entropy, logits)

    small, spent = torch.rand(256, 10), []
    functions = (torch.exp, torch.log1p, torch.square, torch.neg, torch.sigmoid, torch.sqrt)

    def loss() -> Tensor:
        result = cross_entropy(model, x, y)
        start = time.perf_counter()
        for function in functions:
            function(small)
        spent.append((time.perf_counter() - start) / len(functions))
        return result

    step = step_of(model, loss)
    seconds(step, 300)
    plain = seconds(step_of(model, lambda: cross_entropy(model, x, y)), 300)
    each, count = statistics.median(spent), ours - theirs
    name = f"small operations: {ours} in place of {theirs}"
    yield Limit(row, name, count, 1e6 * each, count * each / plain)
    extra = in_step(model, bound, x) - in_step(model, entropy, x)
    yield Limit(row, "value of the loss, all of it", 1, 1e6 * extra, extra / plain)


def losses(x: Tensor, y: Tensor, classes: int) -> tuple[Loss, Loss]:
    """Return the bound and the cross-entropy as functions of the logits."""
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(classes), num_data=60_000)
    return (
        lambda logits: objective(lambda *_: logits, x, y).total,
        lambda logits: cross_entropy(lambda *_: logits, x, y),
    )


def in_step(
    model: felbo.StochasticClassifier,
    loss: Loss,
    x: Tensor,
    number: int = 400,
) -> float:
    """Return the median seconds that a loss takes right after the forward pass of the network."""
    spent = []
    for _ in range(number):
        logits = model(x)
        start = time.perf_counter()
        loss(logits)
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def many_classes() -> Iterator[Limit]:
    """Time the parts of the bound for K = 1000, M = 5, S = 256."""
    row, draws, points, classes = "K = 1000", 5, 256, 1000
    torch.manual_seed(0)
    x, y = torch.randn(points, 512), torch.randint(0, classes, (points,))
    model = felbo.Ensemble(lambda: nn.Sequential(nn.Linear(512, classes)), members=draws)
    probs = dirichlet.smooth(model(x).detach().softmax(-1))
    mean, mean_log = probs.mean(0), probs.log().mean(0)
    spread = ((mean.log() - mean_log) * mean).sum(-1, keepdim=True)

    def fit() -> Tensor:
        return precision_of_statistics(with_total(mean), mean_log, spread, 1e3, 6e4)

    bound, entropy = losses(x, y, classes)
    ours, theirs = (operations(loss, model(x), probs.numel()) for loss in (bound, entropy))
    passes = f"passes over 5 × 256 × 1000: {ours} in place of {theirs}"
    plain = seconds(step_of(model, lambda: cross_entropy(model, x, y)), 20)
    for operation, count, call in (
        ("fit to 256 × 1000 statistics", 1, fit),
        ("what Stirling's formula leaves of lnΓ, 256 × 1000", 1, lambda: stirling_part(1e3 * mean)),
        (passes, ours - theirs, lambda: probs * probs),
    ):
        seconds(call, 5)
        each = statistics.median(seconds(call, 5) for _ in range(7))
        yield Limit(row, operation, count, 1e6 * each, count * each / plain)


def shuffling() -> Limit:
    """Compare the bare loop over pre-shuffled data with one that shuffles, and nothing else."""
    x, y = loops.data()
    pairs = [
        (
            seconds(lambda: loops.bare_loop(TensorBatches(x, y, loops.BATCH)), 1),
            seconds(lambda: loops.bare_epoch(x, y), 1),
        )
        for _ in range(9)
    ][1:]
    steps = -(-loops.SIZE // loops.BATCH)
    extra = statistics.median(a - b for a, b in pairs)
    share = statistics.median(a / b for a, b in pairs) - 1.0
    return Limit(
        "epoch of `felbo.fit`", "gathers of a shuffled batch", steps, 1e6 * extra / steps, share
    )


def prediction() -> Iterator[Limit]:
    """Time what a prediction does with a block of logits, against the forward pass that made it."""
    row, block = "prediction", 2048
    torch.manual_seed(0)
    x, model = torch.randn(block, 784), felbo.Ensemble(mlp, members=10).eval()
    blocks = -(-190_000 // block)
    with torch.no_grad():
        logits = model(x)
        forward = statistics.median(seconds(lambda: model(x), 3) for _ in range(9))
        for operation, call in (
            ("softmax of 10 × 2048 × 10", lambda: softmax(logits)),
            ("softmax, and mean and spread of the draws", lambda: summarise(softmax(logits), 1e-4)),
        ):
            each = statistics.median(seconds(call, 3) for _ in range(9))
            yield Limit(row, operation, blocks, 1e6 * each, each / forward)


def rows() -> Iterator[Limit]:
    """Measure all of them."""
    yield from small_operations(lambda: felbo.MAP(mlp()), "training step, M = 1")
    yield from small_operations(lambda: felbo.Ensemble(mlp, members=10), "training step, M = 10")
    yield from many_classes()
    yield shuffling()
    yield from prediction()

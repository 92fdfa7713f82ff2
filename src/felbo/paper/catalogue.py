"""The experiments by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from felbo.paper import (
    adversarial_cifar,
    corrupted_cifar,
    digits,
    hypercube,
    newton_iterations,
    particle_gradient,
    pathwise_gradient,
    rotated_mnist,
    simplex,
    two_moons,
)
from felbo.paper.study import Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        rotated_mnist.STUDY,
        rotated_mnist.OTHER,
        hypercube.HYPERCUBE,
        hypercube.BETAS,
        pathwise_gradient.STUDY,
        particle_gradient.STUDY,
        newton_iterations.STUDY,
        digits.STUDY,
        digits.TEMPERATURE,
        corrupted_cifar.CIFAR10,
        corrupted_cifar.CIFAR100,
        corrupted_cifar.CIFAR100_FULL_WEIGHT,
        corrupted_cifar.BASELINES_CIFAR10,
        corrupted_cifar.ABLATION_CIFAR10,
        adversarial_cifar.CIFAR10,
        adversarial_cifar.CIFAR100,
    )
}

# Pictures of one run, without seeds to average over: picture(results folder, jobs) -> PNG file.
PICTURES: dict[str, Callable[[Path, int], Path]] = {
    "two-moons": two_moons.two_moons,
    "two-moons-betas": two_moons.two_moons_betas,
    "simplex": simplex.simplex,
}

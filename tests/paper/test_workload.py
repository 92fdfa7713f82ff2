"""Costs are counted: operations and memory by hand for small networks, and the known ResNet-18."""

import pytest
import torch

import felbo
from felbo.paper.workload import Workload, measure


def workload(**changes):
    settings = {
        "model": lambda: felbo.MAP(felbo.networks.mlp(20, (30,), 5)),
        "objective": lambda size: felbo.NegativeLogLikelihood(),
        "inputs": (20,),
        "classes": 5,
        "batch_size": 64,
        "steps": 7,
        "trainings": ("one",),
        "passes": 1000,
    }
    return Workload(**{**settings, **changes})


FORWARD = 2 * (20 * 30 + 30 * 5)


def test_operations_of_a_perceptron_by_hand():
    cost = measure(workload())
    # Backward: gradients of both weights and of the hidden layer, none of the inputs.
    step = FORWARD + 2 * (20 * 30 + 30 * 5) + 2 * 30 * 5
    assert cost.training_flops == 7 * 64 * step
    assert cost.evaluation_flops == 1000 * FORWARD
    assert cost.training_speed == cost.evaluation_speed > 0
    assert cost.beside == 0.0


def test_a_step_is_timed_in_the_precision_of_training():
    seen = []

    class Objective(felbo.NegativeLogLikelihood):
        def __call__(self, model, x, y):
            seen.append(model(x).dtype)
            return super().__call__(model, x, y)

    mixed = workload(objective=lambda size: Objective(), precision="bf16-mixed")
    cost = measure(mixed)
    # Two steps are counted and two are timed.
    assert seen == [torch.float32, torch.float32, torch.bfloat16, torch.float32]
    assert cost.training_speed != cost.evaluation_speed


def test_draws_and_members_multiply_the_operations():
    dropout = workload(model=lambda: felbo.MCDropout(felbo.networks.mlp(20, (30,), 5)), draws=6)
    assert measure(dropout).evaluation_flops == 6 * 1000 * FORWARD
    several = workload(
        model=lambda: felbo.Ensemble(lambda: felbo.networks.mlp(20, (30,), 5), members=3)
    )
    assert measure(several).evaluation_flops == 3 * 1000 * FORWARD


def test_memory_has_weights_gradients_momentum_activations_and_data():
    weights = 4 * (20 * 30 + 30 + 30 * 5 + 5)
    small, large = (
        measure(workload(batch_size=size, prediction_batch=1)).memory for size in (64, 128)
    )
    each = (large - small) / 64
    assert 4 * (20 + 30) <= each <= 4 * (20 + 3 * 30 + 3 * 5) + 16
    assert small >= 3 * weights + 64 * 4 * 50
    more = measure(workload(batch_size=64, prediction_batch=1, data_bytes=10**6)).memory
    assert more == small + 10**6


def test_weights_that_are_drawn_once_do_not_grow_with_the_batch():
    def radial():
        return felbo.Radial(felbo.networks.mlp(20, (300, 300), 5))

    few, many = (
        measure(workload(model=radial, batch_size=size, prediction_batch=1)).memory
        for size in (8, 1008)
    )
    plain = [
        measure(
            workload(
                model=lambda: felbo.MAP(felbo.networks.mlp(20, (300, 300), 5)),
                batch_size=size,
                prediction_batch=1,
            )
        ).memory
        for size in (8, 1008)
    ]
    assert many - few == pytest.approx(plain[1] - plain[0], rel=0.05)


def test_large_prediction_batches_are_counted_in_memory():
    few, many = (measure(workload(prediction_batch=size)).memory for size in (10**5, 2 * 10**5))
    assert many - few == pytest.approx(3 * 30 * 4 * 10**5)  # three maps of 30 float32


def test_the_paper_s_network_has_its_known_cost():
    cost = measure(
        workload(
            model=lambda: felbo.MAP(felbo.networks.resnet18(10, width=64)),
            inputs=(3, 32, 32),
            classes=10,
            passes=1,
        )
    )
    # 0.56 billion multiply-adds for a 32×32 image.
    assert cost.evaluation_flops == pytest.approx(2 * 0.5556e9, rel=0.005)
    assert cost.training_flops == pytest.approx(7 * 64 * 3 * cost.evaluation_flops, rel=0.005)


def test_a_measurement_leaves_generators_alone():
    before = torch.get_rng_state()
    measure(workload())
    assert torch.equal(torch.get_rng_state(), before)

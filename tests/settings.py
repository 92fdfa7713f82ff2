"""``pytest --setting inference|autocast|threads``: run every test in a setting of torch.

Each test function runs in ``torch.inference_mode()``, under ``torch.autocast``, or twice at the
same time in two threads. What cannot pass there, because of torch or of what the test compares, is
left out by a rule below; everything else has to pass.
"""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

SETTINGS = ("inference", "autocast", "threads")

# Rooms whose tests make sense in every setting: predictions, and what they are made of. The others
# train, read files or start processes, whose threads and modes are their own.
ROOMS = ("dirichlet", "evaluation", "fused", "layers", "measurement", "models", "networks")
ROOMS += ("objectives", "priors")
# Autocast is there to change what layers give, and the tests of these rooms compare just that.
ABOUT_LAYERS = ("layers", "models", "networks")

# What torch, and so felbo, says to a test that takes gradients in inference mode: no failure.
REFUSALS = ("does not require grad", "nference tensor", "Training needs gradients")

# Words in a test, or fixtures of it, that tell that it cannot run in a setting.
WORDS: dict[str, dict[str, str]] = {
    "inference": {
        "requires_grad": "looks at gradients",
        ".grad": "looks at gradients",
        "compile": "compiled code has modes of its own",
        "vmap": "torch.func does not work on inference tensors",
    },
    "autocast": {
        "compile": "compiled code has modes of its own",
        "dtype": "looks at dtypes, which autocast changes",
        "func": "torch.func does not know autocast",
        "thread": "autocast belongs to a thread",
    },
    "threads": {
        "tmp_path": "both threads would write the same files",
        "monkeypatch": "changes the process",
        "capsys": "reads the output of the process",
        "pytester": "runs in a folder of the process",
        "warn": "Python's filters of warnings belong to the process",
        "seed": "torch's global generator belongs to the process",
        "rng_state": "torch's global generator belongs to the process",
        "set_default_dtype": "changes the process",
        "tracemalloc": "measures the process",
        "compile": "torch.compile is for one thread at a time",
        "hessian": "torch counts levels of forward-mode differentiation for the process",
        "jvp": "torch counts levels of forward-mode differentiation for the process",
        "gradcheck": "moves its inputs, which both threads share",
    },
}

# Tests that cannot run in a setting, though no word of theirs tells.
NAMES: dict[str, dict[str, str]] = {
    "inference": {
        "test_second_derivatives_are_those_of_the_plain_form": "takes gradients",
        "test_a_smaller_last_batch_has_the_weight_of_a_full_one": (
            "the size of a full step is learnt from steps, which have gradients"
        ),
    },
    "autocast": dict.fromkeys(
        [
            "test_a_concentration_network_reports_its_own_dirichlet",
            "test_a_list_of_networks_equals_the_manual_mean_and_fit",
            "test_accumulated_batches_have_the_weights_of_one_large_batch",
            "test_arrays",
            "test_draws_follow_the_seed_and_their_number",
            "test_every_part_is_what_its_own_function_gives",
            "test_gradients_per_item_under_a_prior_that_depends_on_the_input",
            "test_it_is_the_dirichlet_of_predict",
            "test_loaders_in_any_order",
            "test_models_of_one_function_show_no_epistemic_uncertainty",
            "test_predictions_give_the_same_as_the_model",
            "test_the_loop_finds_the_optimum",
            "test_the_precision_of_one_draw_is_the_number_of_training_examples",
            "test_value_is_mean_nll_plus_divergence_per_example",
        ],
        "compares the output of a network in more digits than bfloat16 has",
    ),
    "threads": dict.fromkeys(
        [
            "test_second_derivatives_are_those_of_the_plain_form",
            "test_training_lowers_the_loss_and_repeats_itself",
            "test_saved_state_gives_identical_predictions",
            "test_deepcopy_is_equal_and_independent",
            "test_evaluation_leaves_nothing_behind",
            "test_logits_are_divided_draw_by_draw",
            "test_an_exponential_average_predicts_with_its_own_weights",
        ],
        "draws from torch's global generator, which belongs to the process",
    ),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--setting", choices=SETTINGS, help="run every test in a setting of torch")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run in the setting."""
    setting = config.getoption("setting")
    if setting is None:
        return
    kept, left_out = [], []
    for item in items:
        (kept if reason_against(setting, item) is None else left_out).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def reason_against(setting: str, item: Any) -> str | None:
    """Return why a test cannot run in a setting; ``None`` if it can."""
    if item.path.parent.name not in ROOMS:
        return "of another room"
    if setting == "autocast" and item.path.parent.name in ABOUT_LAYERS:
        return "about layers"
    if item.originalname in NAMES[setting]:
        return NAMES[setting][item.originalname]
    if hasattr(item.obj, "hypothesis"):
        return "hypothesis runs its examples itself" if setting == "threads" else None
    named = [
        name for name in item.fixturenames if not name.startswith("_")
    ]  # not those of all tests
    text = inspect.getsource(item.obj) + " ".join(named)
    return next((why for word, why in WORDS[setting].items() if word in text), None)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Any:
    """Run a test function in the setting."""
    setting = pyfuncitem.config.getoption("setting")
    if setting == "threads":
        pyfuncitem.obj = twice_at_once(pyfuncitem.obj)
        return (yield)
    if setting is None:
        return (yield)
    import torch

    if setting == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            return (yield)
    with torch.inference_mode():
        try:
            return (yield)
        except RuntimeError as error:
            if any(words in str(error) for words in REFUSALS):
                pytest.xfail("takes gradients, which inference mode refuses")
            raise


def twice_at_once(test: Any) -> Any:
    """Return a function that runs a test in two threads at the same time."""

    def both(**arguments: Any) -> None:
        start = threading.Barrier(2)

        def run(_: int) -> None:
            start.wait()
            test(**arguments)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(run, range(2)))  # raises what the first to fail has raised

    return both

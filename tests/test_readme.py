"""The README's examples show what it says of them."""

import re
from pathlib import Path

import pytest
import torch

from felbo.training import compare_before_after

README = (Path(__file__).resolve().parents[1] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.S | re.M)


def run(block, **names):
    namespace: dict[str, object] = {"__name__": "__main__", **names}
    exec(compile(block, "README.md", "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def rows():
    found = run(BLOCKS[0])
    arguments = (found[name] for name in ("network", "model", "test", "never_seen"))
    return {(row.inputs, row.model): row for row in compare_before_after(*arguments)}


@pytest.fixture(scope="module")
def moons():
    return run(BLOCKS[1])


@pytest.fixture
def prediction(moons):
    return moons["prediction"]


def test_fine_tuning_costs_little_on_the_data_and_helps_elsewhere(rows):
    assert rows["data", "after"].accuracy > rows["data", "before"].accuracy - 1
    assert rows["data", "after"].log_likelihood > rows["data", "before"].log_likelihood - 0.03
    for name in ("turned", "negative"):
        assert rows[name, "after"].auroc > max(0.9, rows[name, "before"].auroc + 0.2)


def test_the_table_is_the_one_that_is_printed(rows):
    table = re.search(r"^inputs +model.*?^```", README, re.S | re.M)[0].splitlines()[1:-1]
    assert len(table) == len(rows)
    for line in table:
        name, when, *numbers = line.split()
        confidence, row = float(numbers[3]), rows[name, when]
        assert confidence == pytest.approx(row.confidence, abs=0.05)
        for text, value in zip(numbers, row[2:], strict=True):
            if text != "–":
                assert float(text) == pytest.approx(value, rel=0.05, abs=0.06)


def test_it_is_sure_on_the_moon_and_unsure_far_away(prediction):
    on_moon, far = prediction.confidence.tolist()
    assert on_moon > 0.8
    assert far < 0.6
    assert prediction.epistemic[1] > 2 * prediction.epistemic[0]


def test_the_numbers_in_its_comments_are_the_ones_it_prints(prediction):
    shown = re.search(r"confidence\)\s+# tensor\((\[.*?\])\)", BLOCKS[1])[1]
    assert torch.allclose(torch.tensor(eval(shown)), prediction.confidence, atol=0.06)


def test_the_loop_by_hand_goes_on_from_the_second_example(moons):
    for block in BLOCKS[2:]:
        assert torch.isfinite(run(block, **moons)["loss"].total)


def test_the_examples_have_about_twenty_lines():
    assert len(BLOCKS) == 3
    assert all(15 <= len(block.strip().splitlines()) <= 25 for block in BLOCKS[:2])

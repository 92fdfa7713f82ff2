"""The README's first example shows what its comments say."""

import re
from pathlib import Path

import pytest
import torch

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.fixture(scope="module")
def example():
    block = re.search(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.S | re.M)
    namespace: dict[str, object] = {}
    exec(compile(block[1], "README.md", "exec"), namespace)
    return block[1], namespace["prediction"]


def test_it_is_sure_on_the_moon_and_unsure_far_away(example):
    _, prediction = example
    on_moon, far = prediction.confidence.tolist()
    assert on_moon > 0.8
    assert far < 0.6
    assert prediction.epistemic[1] > 2 * prediction.epistemic[0]


def test_the_numbers_in_its_comments_are_the_ones_it_prints(example):
    block, prediction = example
    shown = re.search(r"confidence\)\s+# tensor\((\[.*?\])\)", block)[1]
    assert torch.allclose(torch.tensor(eval(shown)), prediction.confidence, atol=0.06)


def test_it_has_about_twenty_lines(example):
    assert 15 <= len(example[0].strip().splitlines()) <= 25

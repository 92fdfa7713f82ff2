"""Pages show what the examples print."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"[−-]?\d+(?:\.\d+)?")
SHOWN = [  # page, example
    ("how-to", "scikit_learn"),
    ("how-to", "pretrained_network"),
    ("how-to", "transformer_text"),
    ("how-to", "active_learning"),
    ("how-to", "continual_learning"),
    ("lightning", "lightning_trainer"),
]


def output_on_page(page, example):
    """Return the first block after the page has named the example that is not Python."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    return re.search(rf"{example}\.py.*?^```\n(.*?)^```", text, re.S | re.M)[1]


def printed(example, capsys):
    spec = importlib.util.spec_from_file_location(example, ROOT / "examples" / f"{example}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    capsys.readouterr()
    module.main()
    return capsys.readouterr().out


def numbers(text):
    return [float(number.replace("−", "-")) for number in NUMBER.findall(text)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(does not have many workers|LeafSpec).*")
@pytest.mark.parametrize(("page", "example"), SHOWN)
def test_pages_show_what_the_examples_print(page, example, capsys):
    shown = numbers(output_on_page(page, example))
    found = numbers(printed(example, capsys))[-len(shown) :]
    assert len(shown) >= 5
    # Another machine rounds otherwise, which training amplifies: one point, or one hundredth.
    for there, here in zip(shown, found, strict=True):
        assert here == pytest.approx(there, abs=1.0 if abs(there) > 2 else 0.011)


def test_the_block_after_the_name_of_an_example_is_found():
    assert output_on_page("how-to", "transformer_text").startswith("702 sentences")
    assert numbers("  -0.111  97.807 %") == [-0.111, 97.807]

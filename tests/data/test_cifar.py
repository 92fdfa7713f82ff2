import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from felbo.data import CorruptDataError
from felbo.data.cifar import parse_cifar_batch

from .stand_ins import cifar_bytes

DATA = np.random.default_rng(0).integers(0, 256, size=(4, 3072), dtype=np.uint8)


def parse(content, num_classes=10):
    return parse_cifar_batch(content, num_classes=num_classes, source="a/batch", remedy="Fetch it.")


@pytest.mark.parametrize("key", ["labels", "fine_labels"])
def test_rows_are_red_green_blue_planes(key):
    batch = parse(cifar_bytes(DATA, [3, 0, 9, 1], key))
    assert batch.labels.dtype == torch.int64
    assert batch.labels.tolist() == [3, 0, 9, 1]
    assert batch.images.dtype == torch.uint8
    # Plane c, row h, column w of the publisher's description
    for c, h, w in [(0, 0, 0), (0, 0, 31), (1, 2, 3), (2, 31, 31)]:
        assert batch.images[2, c, h, w] == DATA[2, 1024 * c + 32 * h + w]


class Runs:
    """Pickles to a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def test_a_pickle_that_would_run_a_command_is_refused_and_not_run(tmp_path: Path):
    marker = tmp_path / "was-run"
    evil = pickle.dumps({b"data": Runs(os.system, f"touch {marker}"), b"labels": [0]})
    pickle.loads(evil)
    assert marker.exists()  # so the pickle does run under the plain loader
    marker.unlink()
    with pytest.raises(CorruptDataError, match=r"a/batch: .*posix\.system.*Fetch it\.|nt\.system"):
        parse(evil)
    assert not marker.exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "content",
    [
        Runs(eval, "1"),
        Runs(exec, "1"),
        Runs(getattr, "", "join"),
        Runs(__import__, "os"),
        Runs(np.load, "x"),
        Runs(np.fromfile, "x"),
        Path("x"),
        os.path.join,
        np.float64(1.0),
    ],
)
def test_nothing_but_arrays_can_be_named(content, protocol):
    with pytest.raises(CorruptDataError, match="which no batch needs"):
        parse(pickle.dumps({b"data": content}, protocol=protocol))


def test_dotted_names_do_not_reach_through_an_allowed_one():
    # STACK_GLOBAL resolves "dtype.__class__" by attribute; the lookup must be of the whole name.
    dotted = b"\x80\x04\x8c\x05numpy\x8c\x0fdtype.__class__\x93."
    with pytest.raises(CorruptDataError, match=r"numpy\.dtype\.__class__"):
        parse(dotted)


@pytest.mark.parametrize("kept", [0, 1, 100, 6000, -1])
def test_a_truncated_file_is_refused(kept):
    with pytest.raises(CorruptDataError, match=r"a/batch: expected a pickled batch"):
        parse(cifar_bytes(DATA, [0, 1, 2, 3])[:kept])


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (pickle.dumps([1, 2]), "without an array"),
        (pickle.dumps({b"data": [1]}), "without an array"),
        (cifar_bytes(DATA.astype(np.int16), [0] * 4), "int16"),
        (cifar_bytes(DATA[:, :100], [0] * 4), r"shape \(4, 100\)"),
        (cifar_bytes(DATA, [0] * 3), "4 rows with 3 labels"),
        (cifar_bytes(DATA, [0, 1, 2, 10]), "label below 10, but got labels outside"),
        (cifar_bytes(DATA, [0, 1, 2, -1]), "labels outside"),
    ],
)
def test_other_content_is_refused(content, match):
    with pytest.raises(CorruptDataError, match=match):
        parse(content)

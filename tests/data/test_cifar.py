import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from felbo.data import CorruptDataError
from felbo.data.cifar import STAND_INS, parse_cifar_batch

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
        (cifar_bytes(DATA.astype(np.int16), [0] * 4), "array of 'i2' instead of bytes"),
        (cifar_bytes(DATA[:, :100], [0] * 4), r"shape \(4, 100\)"),
        (cifar_bytes(DATA, [0] * 3), "4 rows with 3 labels"),
        (cifar_bytes(DATA, [0, 1, 2, 10]), "label below 10, but got labels outside"),
        (cifar_bytes(DATA, [0, 1, 2, -1]), "labels outside"),
    ],
)
def test_other_content_is_refused(content, match):
    with pytest.raises(CorruptDataError, match=match):
        parse(content)


def build(*operations):
    """A pickle by hand: what each operation leaves on the stack becomes `data`."""
    return b"\x80\x04}(C\x04data" + b"".join(operations) + b"C\x06labels]K\x00au."


NDARRAY = b"cnumpy\nndarray\n"
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n(" + NDARRAY + b"K\x00\x85C\x01btR"
# A type of eight raw bytes, an array of it, and then the type turned into that of an object: the
# bytes are taken for an address, which numpy follows.
AT_AN_ADDRESS = (
    b"cnumpy\ndtype\n(\x8c\x02V8\x89\x88tRq\x000"
    + RECONSTRUCT
    + b"(K\x01K\x01\x85h\x00\x89C\x08AAAAAAAAtb"
    + b"h\x00(K\x03\x8c\x01|N\x8c\x01a\x85}\x8c\x01acnumpy\ndtype\n\x8c\x01O\x85RK\x00\x86s"
    + b"K\x08K\x01K?tb0"
)
# An array of one Python object.
OBJECTS = RECONSTRUCT + b"(K\x01K\x01\x85cnumpy\ndtype\n\x8c\x02O8\x85R\x89]K\x01atb"
# An array that nobody ever gave its content.
EMPTY = RECONSTRUCT


@pytest.mark.parametrize(
    "operations",
    [AT_AN_ADDRESS, OBJECTS, EMPTY, NDARRAY],
    ids=["address", "objects", "empty", "type"],
)
def test_arrays_of_anything_but_bytes_are_never_made(operations):
    # Were the first one made, this would crash the interpreter and not raise an error.
    with pytest.raises(CorruptDataError, match=r"a/batch: .*Fetch it\."):
        parse(build(operations))


def test_nothing_of_numpy_can_be_called():
    for (module, name), stand_in in STAND_INS.items():
        assert module.startswith("numpy"), name
        assert not getattr(stand_in, "__module__", "").startswith("numpy")


def test_columns_first_are_put_right():
    assert torch.equal(
        parse(cifar_bytes(np.asfortranarray(DATA), [0, 1, 2, 3])).images,
        parse(cifar_bytes(DATA, [0, 1, 2, 3])).images,
    )

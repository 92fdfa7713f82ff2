"""Pickles that would take much more memory or time than a batch, refused before they are loaded."""

import pickle
import random
import time
import tracemalloc

import numpy as np
import pytest

from felbo.data import CorruptDataError
from felbo.data.cifar import parse_cifar_batch
from felbo.data.opcodes import MOST_REFERENCES, check_opcodes

from .stand_ins import cifar_bytes

START = b"\x80\x02}q\x00"
HUNDRED = np.random.default_rng(0).integers(0, 256, size=(100, 3072), dtype=np.uint8)


def parse(content):
    return parse_cifar_batch(content, num_classes=10, source="a/batch")


def test_what_python_writes_is_let_through():
    content = {
        b"data": HUNDRED,
        b"labels": [7, 300, 70_000, -1, True, None],
        b"x": (),
        b"y": ("a",),
    }
    check_opcodes(pickle.dumps(content, protocol=4))


def published(rows):
    """A batch in the opcodes of the published files, protocol 2 of Python 2."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03"
        b"(K\x01M"
        + len(rows).to_bytes(2, "little")
        + b"M\x00\x0c\x86cnumpy\ndtype\nq\x04U\x02u1K\x00"
        b"K\x01\x87Rq\x05(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + rows.nbytes.to_bytes(4, "little")
        + rows.tobytes()
        + b"tb"
    )
    names = b"]q\x06(" + b"".join(
        b"U\x05%05dr" % i + (7 + i).to_bytes(4, "little") for i in range(len(rows))
    )
    labels = b"]q\x08(" + b"K\x03" * len(rows)
    fields = b"U\x09filenames" + names + b"eU\x04data" + array + b"U\x06labels" + labels + b"e"
    return START + b"(" + fields + b"u."


def test_a_batch_in_the_opcodes_of_the_published_files():
    batch = parse(published(HUNDRED))
    assert np.array_equal(batch.images.flatten(1).numpy(), HUNDRED)
    assert batch.labels.tolist() == [3] * 100


def chain():
    """Tuples of twice the one before, the last of them as a key, which takes 2 ** 60 hashes."""
    twice = b"".join(b"h%ch%c\x86q%c0" % (i, i, i + 1) for i in range(1, 61))
    return START + b")q\x010" + twice + b"h\x3dK\x01s."


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (START + b"r\xff\xff\xff\x7f.", "stores a value at 2,147,483,647 of its memo"),
        (START + b"p2147483647\n.", "the opcode b'p', which no batch needs"),
        (b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b".", "opcode b'.x96', which no"),
        (chain(), f"more than {MOST_REFERENCES} references"),
        (b"\x80\x02T\xff\xff\xff\x7fabc.", "ends before its end is marked"),
        (b"\x80\x02cnumpy", "ends before its end is marked"),
        (b"\x80\x02cnumpy\nndarray", "ends before its end is marked"),
        (b"\x80\x02}", "ends before its end is marked"),
        (b"", "opcode b''"),
    ],
    ids=["memo", "text memo", "bytearray", "hashes", "string", "module", "name", "stop", "empty"],
)
def test_what_would_fill_the_memory_or_never_end_is_refused(content, reason):
    tracemalloc.start()
    begin = time.process_time()
    with pytest.raises(CorruptDataError, match=reason):
        parse(content)
    assert time.process_time() - begin < 5.0
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def test_more_opcodes_than_any_batch_has_are_refused(monkeypatch):
    monkeypatch.setattr("felbo.data.opcodes.MOST_OPCODES", 1000)
    check_opcodes(b"\x80\x02" + b"]" * 998 + b".")
    with pytest.raises(pickle.UnpicklingError, match="more than 1,000 opcodes"):
        check_opcodes(b"\x80\x02" + b"]" * 999 + b".")


@pytest.mark.parametrize("make", [published, lambda rows: cifar_bytes(rows, [3] * len(rows))])
def test_a_thousand_damaged_files_are_read_or_refused_in_bounded_memory(make):
    source, content = random.Random(0), make(HUNDRED[:3])
    # Where the structure lies: between the bytes of the images hardly anything can break.
    places = [i for i in range(len(content)) if i < 300 or i > len(content) - 300]
    tracemalloc.start()
    begin, refused = time.process_time(), 0
    for _ in range(1000):
        damaged = bytearray(content)
        for _ in range(source.choice([1, 2, 8])):
            damaged[source.choice(places)] = source.randrange(256)
        try:
            parse(bytes(damaged))
        except CorruptDataError:
            refused += 1
    assert refused > 500
    assert time.process_time() - begin < 20.0
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()

import gzip
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from felbo.data import CorruptDataError
from felbo.data.idx import parse_idx

from .stand_ins import idx_bytes


@settings(deadline=None)  # a busy machine is no failure
@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6)))
def test_reads_back_any_array(array):
    parsed = parse_idx(idx_bytes(array), num_axes=array.ndim, source="made.gz")
    assert parsed.dtype == torch.uint8
    assert np.array_equal(parsed.numpy(), array)


def refused(content, match, num_axes=3):
    with pytest.raises(CorruptDataError, match=match) as caught:
        parse_idx(content, num_axes=num_axes, source="some/images.gz", remedy="Fetch it again.")
    assert str(caught.value).startswith("some/images.gz: expected ")
    assert str(caught.value).endswith("Fetch it again.")


IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(1, 20))
def test_a_truncated_file_is_refused(cut):
    refused(idx_bytes(IMAGES)[:-cut], "complete gzip file")


def test_a_flipped_bit_is_refused():
    content = bytearray(idx_bytes(IMAGES))
    content[-6] ^= 1  # in gzip's own checksum
    refused(bytes(content), "do not decompress")


def test_something_that_is_not_gzip_is_refused():
    refused(b"<html>404</html>", "16 bytes that do not decompress")


def test_labels_in_place_of_images_are_refused():
    refused(idx_bytes(np.arange(20)), r"magic number 2051 .*got 2049")


def test_another_element_type_is_refused():
    floats = gzip.compress(bytes([0, 0, 0x0D, 3]) + struct.pack(">3I", 1, 1, 1) + b"\0" * 4)
    refused(floats, "magic number 2051")


def test_a_header_that_ends_early_is_refused():
    refused(gzip.compress(bytes([0, 0, 8, 3, 0, 0])), "in a file of 6 bytes")


@pytest.mark.parametrize("extra", [b"", b"\0" * 25])
def test_a_length_other_than_announced_is_refused(extra):
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 4)
    refused(gzip.compress(header + extra), rf"24 bytes for the shape \(2, 3, 4\).*got {len(extra)}")

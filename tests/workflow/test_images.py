"""Images of a folder: as a viewer shows them, whatever their depth, turn or transparency."""

import struct

import numpy as np
import pytest
import torch
from PIL import Image

from felbo.workflow.errors import InputError
from felbo.workflow.images import FolderImages, image_chunks, read_image


def ramp(dtype, scale=1):
    return (np.arange(16).reshape(4, 4) * 17).astype(dtype) * scale


def expected():
    return torch.from_numpy(ramp(np.uint8))


def big_endian(path):
    pixels = ramp(np.uint16, 257).astype(">u2").tobytes()
    Image.frombytes("I;16B", (4, 4), pixels).save(path)


def portable(path):
    path.write_bytes(b"P5\n4 4\n65535\n" + ramp(np.uint16, 257).astype(">u2").tobytes())


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.png", lambda path: Image.fromarray(ramp(np.uint16, 257)).save(path)),
        ("a.tif", lambda path: Image.fromarray(ramp(np.uint16, 257)).save(path)),
        ("b.tif", big_endian),
        ("a.pgm", portable),
    ],
    ids=["png", "tiff", "big-endian tiff", "pgm"],
)
def test_sixteen_bits_are_scaled(name, write, tmp_path):
    (tmp_path / "grey").mkdir()
    write(tmp_path / "grey" / name)
    assert torch.equal(read_image(tmp_path / "grey" / name, 4, 1)[0], expected())
    assert torch.equal(read_image(tmp_path / "grey" / name, 4, 3)[1], expected())
    assert FolderImages(tmp_path, 4).read().images.shape[1] == 1


def tiff(pixels, bits, photometric=1, samples=1, more=()):
    """Bytes of an uncompressed TIFF of 4 x 4 pixels."""
    tags = [(256, 4), (257, 4), (258, *bits), (259, 1), (262, photometric), (273, 0)]
    tags += [(277, samples), (278, 4), (279, len(pixels)), *more]
    head = b"II*\0" + struct.pack("<IH", 8, len(tags))
    start = len(head) + 12 * len(tags) + 4
    for tag, *values in tags:
        values = (start,) if tag == 273 else (*values, 0)[:2]
        kind = "<HHII" if tag == 273 else "<HHIHH"
        count = samples if tag == 258 else 1
        head += struct.pack(kind, tag, 4 if tag == 273 else 3, count, *values)
    return head + bytes(4) + pixels


def twelve_bits(values):
    """Pairs of pixels in three bytes each."""
    digits = "".join(f"{value:012b}" for value in values.ravel())
    return bytes(int(digits[start : start + 8], 2) for start in range(0, len(digits), 8))


def test_twelve_bits_are_scaled(tmp_path):
    values = np.arange(16).reshape(4, 4) * 273  # up to 4095
    (tmp_path / "a.tif").write_bytes(tiff(twelve_bits(values), [12]))
    assert torch.equal(read_image(tmp_path / "a.tif", 4, 1)[0], expected())


@pytest.mark.parametrize("bits", [8, 16])
def test_zero_may_be_white(bits, tmp_path):
    pixels = ramp(np.uint8) if bits == 8 else ramp(np.uint16, 257).astype("<u2")
    (tmp_path / "a.tif").write_bytes(tiff(pixels.tobytes(), [bits], photometric=0))
    assert torch.equal(read_image(tmp_path / "a.tif", 4, 1)[0], 255 - expected())


def test_grey_that_is_multiplied_by_its_opacity(tmp_path):
    pixels = np.stack([np.zeros((4, 4)), np.repeat([[255, 255, 0, 0]], 4, 0)], -1)
    content = tiff(pixels.astype(np.uint8).tobytes(), [8, 8], samples=2, more=[(338, 1)])
    (tmp_path / "a.tif").write_bytes(content)
    assert read_image(tmp_path / "a.tif", 4, 1)[0, 0].tolist() == [0, 0, 255, 255]


@pytest.mark.parametrize(
    ("pixels", "words"),
    [(ramp(np.float32) / 255, "floating-point numbers"), (ramp(np.int32), "32-bit whole numbers")],
    ids=["floats", "32 bits"],
)
def test_values_without_a_white_are_refused(pixels, words, tmp_path):
    Image.fromarray(pixels).save(tmp_path / "a.tif")
    with pytest.raises(InputError, match=f"{words}.*Save it with 8 or 16 bits"):
        read_image(tmp_path / "a.tif", 4, 1)


def half_clear(mode):
    """Black, with a right half that is not to be seen."""
    image = Image.new(mode, (4, 4))
    image.putalpha(Image.fromarray(np.repeat([[255, 255, 0, 0]], 4, 0).astype(np.uint8)))
    return image


def palette():
    image = Image.fromarray(np.repeat([[0, 0, 1, 1]], 4, 0).astype(np.uint8), "L").convert("P")
    image.putpalette([0, 0, 0, 0, 0, 0])
    return image


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["LA", "RGBA", "P"])
def test_what_is_transparent_is_white(mode, channels, tmp_path):
    options = {"transparency": 1} if mode == "P" else {}
    image = palette() if mode == "P" else half_clear(mode)
    image.save(tmp_path / "a.png", **options)
    assert Image.open(tmp_path / "a.png").mode == mode
    white_at_the_right = torch.tensor([0, 0, 255, 255], dtype=torch.uint8).expand(channels, 4, 4)
    assert torch.equal(read_image(tmp_path / "a.png", 4, channels), white_at_the_right)


@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
def test_images_are_turned_as_their_exif_data_say(suffix, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned to the right
    lossless = {"lossless": True} if suffix == "webp" else {}
    Image.fromarray(ramp(np.uint8)).save(tmp_path / f"a.{suffix}", exif=exif, **lossless)
    found = read_image(tmp_path / f"a.{suffix}", 4, 1)[0]
    assert torch.equal(found, torch.rot90(expected(), -1))


def test_exif_data_that_cannot_be_read_turn_nothing(tmp_path):
    Image.fromarray(ramp(np.uint8)).save(tmp_path / "a.png", exif=b"Exif\x00\x00no TIFF")
    with pytest.raises(SyntaxError):
        Image.open(tmp_path / "a.png").getexif()
    assert torch.equal(read_image(tmp_path / "a.png", 4, 1)[0], expected())


def test_hidden_names_and_misplaced_images_are_left_out(tmp_path):
    for name in (
        *("a/1.png", "b/1.png", "b/.2.png", ".ipynb_checkpoints/1.png", "a/.old/1.png"),
        *("top.png", "a/deep/1.png", "c/deep/1.png"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4)).save(tmp_path / name)
    source = FolderImages(tmp_path, 4)
    assert source.classes() == ["a", "b"]
    assert source.read().names == ["a/1.png", "b/1.png"]
    assert "1 beside the folders of the classes and 2 in folders below" in source.notes()[0]
    names = [name for part, _ in image_chunks(tmp_path, 4, 1) for name in part]
    assert names == ["a/1.png", "a/deep/1.png", "b/1.png", "c/deep/1.png", "top.png"]


def test_a_folder_of_folders_of_classes_says_where_its_images_are(tmp_path):
    (tmp_path / "train" / "a").mkdir(parents=True)
    Image.new("L", (4, 4)).save(tmp_path / "train" / "a" / "1.png")
    with pytest.raises(InputError, match=r"found none.* 1 in folders below"):
        FolderImages(tmp_path, 4).classes()


def test_files_and_folders_that_are_not_used_are_mentioned(tmp_path):
    for name in ("a", "b", "empty", "photos", ".hidden"):
        (tmp_path / name).mkdir()
    for name in ("a/1.png", "b/1.png"):
        Image.new("L", (4, 4)).save(tmp_path / name)
    for name in ("photos/1.HEIC", "photos/2.heic", "a/notes.txt", "a/README", "a/.DS_Store"):
        (tmp_path / name).write_bytes(b"x")
    source = FolderImages(tmp_path, 4)
    assert source.classes() == ["a", "b"]
    folders, files = source.notes()
    assert folders == "Folders without images are no classes: empty, photos."
    assert files.endswith("were not used: 2 .heic, 1 .txt, 1 without a suffix.")

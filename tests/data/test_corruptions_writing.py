"""Corrupted test sets written to files, the commands, and the textures of frost."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from felbo.cli.data import app
from felbo.data import (
    CORRUPTIONS,
    CorruptDataError,
    MissingDataError,
    corrupted,
    load,
    source_info,
    verify,
    write_corrupted,
)
from felbo.data.corruptions import writing
from felbo.data.corruptions.frost import load_textures
from felbo.data.corruptions.generated import generate
from felbo.data.integrity import FileState

from .conftest import ROOTS


def run(*arguments):
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, list(map(str, arguments)))


# Written


def test_corrupt_writes_the_published_layout_which_is_then_read(tiny_cifar):
    out = tiny_cifar / "CIFAR-10-C"
    expected = {
        (c, s): corrupted("cifar10", c, s, root=tiny_cifar, limit=10).images
        for c in CORRUPTIONS
        for s in (1, 5)
    }
    result = run("corrupt", "cifar10", "--out", out, "--root", tiny_cifar, "--limit", 10)
    assert result.exit_code == 0, result.output
    assert "20 files" in result.output
    assert "20 of them written now" in result.output
    assert sorted(path.stem for path in out.glob("*.npy")) == sorted([*CORRUPTIONS, "labels"])
    assert np.load(out / "labels.npy").tolist() == 5 * list(range(10))
    for (corruption, severity), images in expected.items():
        stored = np.load(out / f"{corruption}.npy", allow_pickle=False)
        assert stored.shape == (50, 32, 32, 3)
        assert stored.dtype == np.uint8
        at = slice(10 * (severity - 1), 10 * severity)
        np.testing.assert_array_equal(stored[at], images.permute(0, 2, 3, 1).numpy())
        assert torch.equal(
            corrupted("cifar10", corruption, severity, root=tiny_cifar).images, images
        )


@pytest.fixture
def out(tiny_cifar, tmp_path):
    write_corrupted("cifar10", tmp_path / "C", root=tiny_cifar, corruptions=("fog", "contrast"))
    return tmp_path / "C"


def test_a_second_run_writes_only_what_is_missing(out, tiny_cifar):
    times = {path.name: path.stat().st_mtime_ns for path in out.glob("*.npy")}
    before = (out / "fog.npy").read_bytes()
    (out / "fog.npy").unlink()
    advanced = []
    written = write_corrupted(
        "cifar10",
        out,
        root=tiny_cifar,
        corruptions=("fog", "contrast", "brightness"),
        advance=lambda corruption, images: advanced.append(images),
    )
    assert [path.name for path in written] == ["fog.npy", "brightness.npy"]
    assert (out / "fog.npy").read_bytes() == before
    assert (out / "contrast.npy").stat().st_mtime_ns == times["contrast.npy"]
    assert sum(advanced) == 3 * 5 * 12  # a progress bar reaches its end in any case


def test_an_interrupted_run_leaves_whole_files_only_and_is_carried_on(
    tiny_cifar, tmp_path, monkeypatch
):
    def interrupted(images, corruption, severity, **options):
        if (corruption, severity) == ("contrast", 3):
            raise KeyboardInterrupt
        return generate(images, corruption, severity, **options)

    chosen = ("fog", "contrast", "brightness")
    with monkeypatch.context() as patch:
        patch.setattr(writing, "generate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_corrupted("cifar10", tmp_path, root=tiny_cifar, corruptions=chosen)
    assert {path.name for path in tmp_path.glob("*.npy*")} == {"labels.npy", "fog.npy"}
    written = write_corrupted("cifar10", tmp_path, root=tiny_cifar, corruptions=chosen)
    assert [path.name for path in written] == ["contrast.npy", "brightness.npy"]


def test_a_damaged_file_is_refused_with_the_way_out(out, tiny_cifar):
    path = out / "contrast.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    result = run("corrupt", "cifar10", "--out", out, "--root", tiny_cifar)
    assert result.exit_code == 1
    assert "contrast.npy: expected md5" in result.output
    assert "Delete it and run the same command again" in result.output
    assert path.read_bytes() == content


def test_files_that_somebody_else_wrote_are_not_touched(tiny_cifar, tmp_path):
    folder = tmp_path
    np.save(folder / "fog.npy", np.zeros((60, 32, 32, 3), dtype=np.uint8))
    before = (folder / "fog.npy").read_bytes()
    with pytest.raises(CorruptDataError, match="one that felbo wrote"):
        write_corrupted("cifar10", folder, root=tiny_cifar)
    assert (folder / "fog.npy").read_bytes() == before


@pytest.mark.parametrize("other", [{"seed": 1}, {"limit": 3}])
def test_another_seed_or_number_does_not_mix_with_what_is_there(out, tiny_cifar, other):
    with pytest.raises(CorruptDataError, match=r"felbo.json: expected .* but got 12 images"):
        write_corrupted("cifar10", out, root=tiny_cifar, **other)


def test_another_seed_is_not_read_silently(tiny_cifar):
    folder = tiny_cifar / "CIFAR-10-C"
    write_corrupted("cifar10", folder, root=tiny_cifar, seed=3, corruptions=("fog",))
    assert len(corrupted("cifar10", "fog", 1, root=tiny_cifar, seed=3).images) == 12
    with pytest.raises(CorruptDataError, match=r"with seed 0, but got .* seed 3"):
        corrupted("cifar10", "fog", 1, root=tiny_cifar)


def test_a_damaged_manifest_is_refused(out, tiny_cifar):
    (out / "felbo.json").write_text(json.dumps({"dataset": "cifar10"}))
    with pytest.raises(CorruptDataError, match="expected JSON with dataset"):
        write_corrupted("cifar10", out, root=tiny_cifar)


# The other commands


def test_corrupt_turns_down_other_data_sets_and_too_many_images(tiny_cifar, tmp_path):
    assert run("corrupt", "mnist", "--out", tmp_path / "x").exit_code == 2
    arguments = ("--out", tmp_path / "x", "--root", tiny_cifar, "--limit", 13)
    result = run("corrupt", "cifar10", *arguments)
    assert result.exit_code == 1
    assert "from 1 to 12 images" in result.output
    assert not (tmp_path / "x").exists()


def test_show_corruptions_draws_a_sheet_and_prints_every_change(tiny_cifar, tmp_path):
    out = tmp_path / "sheets" / "sheet.png"
    result = run("show-corruptions", "--root", tiny_cifar, "--images", 2, "--out", out)
    assert result.exit_code == 0, result.output
    rows = [
        line for line in result.output.splitlines() if line.strip("│ ").split(" ")[0] in CORRUPTIONS
    ]
    assert len(rows) == 19
    assert all(len(row.split("│")) == 8 for row in rows)
    pixels = np.asarray(Image.open(out).convert("RGB"))
    assert pixels.shape[0] > 19 * 32
    assert (pixels.reshape(-1, 3).std(0) > 20).all()  # not a blank page


def test_show_corruptions_offline_says_what_is_missing(tmp_path):
    result = run("show-corruptions", "--root", tmp_path, "--out", tmp_path / "sheet.png")
    assert result.exit_code == 1
    assert "felbo data fetch cifar10" in result.output


# The textures as a source


def test_frost_is_listed_fetched_and_verified_like_a_data_set(tiny_cifar):
    assert "6 of 6" in run("list", "--root", tiny_cifar).output
    assert run("fetch", "frost", "--root", tiny_cifar).exit_code == 0
    assert run("verify", "frost", "--root", tiny_cifar).output.count("good") == 6
    with pytest.raises(ValueError, match="Expected a data set out of mnist"):
        load("frost")


def test_a_damaged_or_missing_texture_is_refused(tiny_cifar):
    path = tiny_cifar / "frost" / "frost3.png"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptDataError, match=r"frost3.png: expected md5.*felbo data fetch frost"):
        load_textures(tiny_cifar)
    path.unlink()
    with pytest.raises(MissingDataError, match=r"expected frost3.png in .*felbo data fetch frost"):
        load_textures(tiny_cifar)


def test_the_published_textures_have_the_hashes_of_the_registry():
    info = source_info("frost")
    assert len({file.md5 for file in info.files}) == 6
    root = next((root for root in ROOTS if (root / info.folder).is_dir()), None)
    if root is None:
        pytest.skip("needs the textures of frost; run `felbo data fetch frost`")
    assert {report.state for report in verify("frost", root)} == {FileState.GOOD}
    assert sum((root / "frost" / f.name).stat().st_size for f in info.files) == info.download_bytes
    shapes = [tuple(texture.shape) for texture in load_textures(root)]
    assert shapes[0] == (3, 600, 900)
    assert all(shape[0] == 3 for shape in shapes)


def test_cifar100_can_be_corrupted(published):
    root = published("cifar100", "test")
    found = corrupted("cifar100", "brightness", 1, root=root, limit=300, published=False)
    assert found.images.shape == (300, 3, 32, 32)
    assert len(found.class_names) == 100

"""The lazy Dirichlet equals an eager fit, and the reductions lose nothing."""

import math
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from felbo import dirichlet
from felbo.errors import MissingFileError
from felbo.evaluation.prediction import Prediction
from felbo.evaluation.spread import Spread, summarise


def draws(noise, members=10, items=200, classes=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(items, classes, generator=generator)
    return (logits + noise * torch.randn(members, items, classes, generator=generator)).softmax(-1)


def lazily(probs, smoothing=1e-4, cap=1e6):
    mean, spread = summarise(probs, smoothing)
    return Prediction(mean, Spread(len(probs), spread, smoothing, cap))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", [1.0, 0.1, 0.01, 1e-6])
def test_the_lazy_fit_is_the_eager_one(noise, dtype):
    probs = draws(noise).to(dtype)
    eager = dirichlet.fit(dirichlet.smooth(probs.double()), max_precision=1e14)
    lazy = lazily(probs, cap=1e14)
    assert lazy.concentration.dtype == dtype
    torch.testing.assert_close(lazy.precision.double(), eager.precision, rtol=1e-4, atol=0)
    ratio = lazy.concentration / lazy.precision.unsqueeze(-1)
    torch.testing.assert_close(ratio.double(), eager.mean, rtol=1e-6, atol=0)


def test_blocks_change_nothing(monkeypatch):
    probs = draws(0.1)
    kept, (mean, spread) = probs.clone(), summarise(probs, 1e-4)
    monkeypatch.setattr("felbo.evaluation.spread._BLOCK", 700)
    again = summarise(probs, 1e-4)
    assert torch.equal(again[0], mean)
    torch.testing.assert_close(again[1], spread, rtol=1e-12, atol=0)
    assert torch.equal(probs, kept)


@pytest.mark.parametrize("smoothing", [0.0, 1e-4])
def test_corners_of_the_simplex(smoothing):
    agreeing = torch.eye(3).expand(4, 3, 3)
    assert lazily(agreeing, smoothing, cap=500.0).precision.tolist() == [500.0] * 3
    opposed = torch.stack([torch.eye(3), torch.eye(3).roll(1, 0)])
    assert lazily(opposed, smoothing, cap=500.0).precision.tolist() == [3.0] * 3


def test_a_cap_below_the_floor_gives_the_floor():
    assert (lazily(draws(0.1), cap=2.0).precision == 10.0).all()


def test_uncertainties_are_those_of_the_concentration():
    lazy = lazily(draws(1.0))
    expected = dirichlet.uncertainty(lazy.concentration)
    for name in ("total", "aleatoric", "epistemic"):
        torch.testing.assert_close(getattr(lazy, name), getattr(expected, name))


def test_a_single_draw_shows_no_epistemic_uncertainty():
    probs = draws(1.0, members=1)
    lazy = lazily(probs, cap=777.0)
    assert (lazy.precision == 777.0).all()
    with pytest.warns(UserWarning, match="One draw has no epistemic uncertainty"):
        assert lazy.epistemic.isnan().all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entropy = -(lazy.concentration / 777 * (lazy.concentration / 777).log()).sum(-1)
        torch.testing.assert_close(lazy.total, entropy)
        torch.testing.assert_close(lazy.aleatoric, entropy)
        assert lazily(probs.expand(2, -1, -1)).epistemic.isfinite().all()


def test_labels_confidence_and_length():
    prediction = Prediction(torch.tensor([[0.2, 0.8], [0.7, 0.3]]), torch.ones(2, 2))
    assert prediction.labels.tolist() == [1, 0]
    assert prediction.confidence.tolist() == pytest.approx([0.8, 0.7])
    assert len(prediction) == 2


def test_a_given_concentration_is_taken_as_it_is():
    """Dir(1, 1): total log 2, aleatoric ψ(3) − ψ(2) = 1/2."""
    prediction = Prediction(torch.tensor([[0.5, 0.5]]), torch.ones(1, 2))
    assert prediction.precision.tolist() == [2.0]
    assert prediction.aleatoric.item() == pytest.approx(0.5, rel=1e-6)
    assert prediction.epistemic.item() == pytest.approx(math.log(2) - 0.5, rel=1e-5)


def test_a_prediction_can_be_stored():
    lazy = lazily(draws(1.0))
    again = pickle.loads(pickle.dumps(lazy))
    assert torch.equal(again.concentration, lazy.concentration)


def all_equal(found, expected):
    first, second = found.numpy(), expected.numpy()
    return all(np.array_equal(first[name], second[name], equal_nan=True) for name in first)


INDICES = {
    "one": (7, [7]),
    "last": (-1, [199]),
    "slice": (slice(10, 40, 3), list(range(10, 40, 3))),
    "list": ([3, 1, -2, 3], [3, 1, 198, 3]),
    "tensor": (torch.tensor([5, 0]), [5, 0]),
    "array": (np.array([5, 0]), [5, 0]),
    "mask": (torch.arange(200) % 50 == 3, [3, 53, 103, 153]),
    "nothing": ([], []),
    "numpy number": (np.int64(4), [4]),
    "backwards": (slice(None, 196, -1), [199, 198, 197]),
    "most uncertain first": (np.argsort(np.arange(200))[::-1], list(range(199, -1, -1))),
    "column of a table": (pd.Series([5, 0], index=["a", "b"]), [5, 0]),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("fitted", [True, False])
def test_an_index_selects_inputs(name, fitted):
    index, rows = INDICES[name]
    probs = draws(1.0)
    whole = lazily(probs)
    if fitted:
        assert whole.precision.shape == (200,)
    part = whole[index]
    assert len(part) == len(rows)
    assert torch.equal(part.probs, whole.probs[rows])
    torch.testing.assert_close(part.concentration, whole.concentration[rows], rtol=1e-6, atol=0)
    torch.testing.assert_close(part.epistemic, whole.epistemic[rows], rtol=1e-5, atol=1e-7)


def test_indexing_by_what_is_no_input_is_refused():
    prediction = lazily(draws(1.0, items=5))
    with pytest.raises(IndexError, match="Input 5 of a prediction for 5 inputs"):
        prediction[5]
    with pytest.raises(IndexError, match="Input -6"):
        prediction[[0, -6]]
    with pytest.raises(IndexError, match=r"mask needs one value per input, \[5\], got \[4\]"):
        prediction[torch.ones(4, dtype=torch.bool)]
    for index in (1.5, [[1]], torch.tensor([0.5]), ..., None, "a", (slice(2), 0), [[1], [1, 2]]):
        with pytest.raises(IndexError, match="indexed by input numbers"):
            prediction[index]
    assert [len(one) for one in prediction] == [1] * 5


def test_a_device_is_that_of_every_part():
    prediction = lazily(draws(1.0))
    assert prediction.precision.device.type == "cpu"
    moved = prediction.to("meta")
    assert {part.device.type for part in (moved.probs, moved.source.value)} == {"meta"}
    assert moved.concentration.device.type == "meta"
    given = Prediction(torch.full((1, 2), 0.5), torch.ones(1, 2)).to("meta")
    assert given.source.device.type == "meta"
    assert all_equal(prediction.cpu(), prediction)


def test_arrays_are_those_of_the_tensors():
    prediction = lazily(draws(1.0))
    arrays = prediction.numpy()
    names = ["probs", "labels", "confidence", "concentration", "precision"]
    assert list(arrays) == [*names, "total", "aleatoric", "epistemic"]
    for name, array in arrays.items():
        assert np.array_equal(array, getattr(prediction, name).numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(lazily(draws(1.0, members=1)).numpy()["epistemic"]).all()


def test_a_frame_has_a_row_per_input():
    prediction = Prediction(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.ones(2, 2))
    frame = prediction.to_pandas(["cat", "dog"])
    uncertainties = ["precision", "total", "aleatoric", "epistemic"]
    assert list(frame) == ["label", "confidence", "prob_cat", "prob_dog", *uncertainties]
    assert frame["label"].tolist() == ["dog", "cat"]
    assert frame["prob_dog"].tolist() == [0.75, 0.5]
    assert frame["precision"].tolist() == [2.0, 2.0]
    assert frame["aleatoric"].tolist() == pytest.approx([0.5, 0.5])
    plain = prediction.to_pandas()
    assert plain["label"].tolist() == [1, 0]
    assert plain["prob_1"].tolist() == [0.75, 0.5]
    for names in (["cat"], ["cat", "cat"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="2 different names"):
            prediction.to_pandas(names)


def test_without_pandas_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        Prediction(torch.full((1, 2), 0.5), torch.ones(1, 2)).to_pandas()


@pytest.mark.parametrize(
    "make",
    [
        lambda: lazily(draws(1.0)),
        lambda: lazily(draws(1.0).double(), 0.0, 500.0),
        lambda: lazily(draws(1.0, members=1)),
        lambda: Prediction(torch.full((3, 2), 0.5), 3 * torch.rand(3, 2)),
        lambda: lazily(draws(1.0))[[]],
        lambda: lazily(draws(1.0).double(), 0, np.int32(500)),
        lambda: lazily(torch.eye(2).double()[None].repeat(2, 1, 1), 0.0),
    ],
)
def test_a_file_gives_back_what_was_saved(make, tmp_path):
    prediction, path = make(), tmp_path / "folder" / "result.npz"
    prediction.save(path)
    again = Prediction.load(str(path))
    assert again.probs.dtype == prediction.probs.dtype
    assert again.is_random == prediction.is_random
    assert all_equal(again, prediction)
    assert [each.name for each in path.parent.iterdir()] == ["result.npz"]
    with np.load(path, allow_pickle=False) as file:
        assert "probs" in file.files


def test_damaged_files_and_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "result.npz"
    lazily(draws(1.0)).save(path)
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    bad = [content[: len(content) // 2], content[:-9], bytes(flipped), b"", b"hello", content[9:]]
    for damaged in bad:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"result.npz is damaged or was not written by"):
            Prediction.load(path)
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(ValueError, match="damaged or was not written by"):
        Prediction.load(tmp_path / "one.npy")
    for arrays in ({}, {"probs": np.ones((3, 2))}, {"probs": np.ones(3), "spread": np.ones(3)}):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=r"was not written by .*: it holds"):
            Prediction.load(path)
    np.savez(path, version=np.asarray(2), probs=np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"version 2 .*update felbo"):
        Prediction.load(path)
    np.savez(path, probs=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="was not written by"):
        Prediction.load(path)
    with pytest.raises(MissingFileError, match="There is no saved prediction"):
        Prediction.load(tmp_path / "absent.npz")


def test_arrays_of_other_types_than_those_of_a_prediction_are_refused(tmp_path):
    path, whole = tmp_path / "result.npz", lazily(draws(1.0))
    whole.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    probs = arrays["probs"]
    changes = [{"probs": probs.astype(t)} for t in (str, complex, np.float16, np.int64, ">f4")]
    changes += [{"probs": np.where(probs > 0.5, np.nan, probs)}, {"draws": np.asarray("x")}]
    changes += [{"draws": np.asarray(2.5)}, {"spread": arrays["spread"].astype(bool)}]
    for change in changes:
        np.savez(path, **{**arrays, **change})
        with pytest.raises(ValueError, match=r"result.npz was not written by"):
            Prediction.load(path)
    np.savez(path, **arrays)
    assert all_equal(Prediction.load(path), whole)


def test_it_describes_itself():
    prediction = Prediction(torch.tensor([[0.25, 0.75]]).expand(9, 2), torch.ones(9, 2))
    lines = repr(prediction).splitlines()
    assert lines[0] == "Prediction for 9 inputs: 2 classes, a predicted Dirichlet"
    assert lines[1].split() == ["input", "label", "confidence", "total", "epistemic"]
    assert lines[2].split() == ["0", "1", "0.7500", "0.6931", "0.1931"]
    assert len(lines) == 2 + 5 + 1
    lazy = lazily(draws(1.0))
    assert repr(lazy).startswith("Prediction for 200 inputs: 10 classes, 10 draws")
    assert "_dirichlet" not in vars(lazy)  # only the inputs that are shown are fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "epistemic" not in repr(lazily(draws(1.0, members=1)))
    assert repr(lazy[[]]) == "Prediction for 0 inputs: 10 classes, 10 draws"

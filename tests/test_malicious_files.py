"""A malicious file for each reader: nothing in it runs, fills the memory or leaves its folder."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import struct
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import felbo
from felbo._arrays import read_npz
from felbo._container import SavedFileError, write
from felbo.cli import app
from felbo.data import CorruptDataError
from felbo.data.corruptions.layout import _open as open_npy
from felbo.data.corruptions.manifest import Manifest
from felbo.data.download import _require_tls
from felbo.data.idx import parse_idx
from felbo.data.registry import dataset_info
from felbo.errors import CheckpointError
from felbo.evaluation import Prediction
from felbo.networks.resnet_cifar import load_resnet_cifar
from felbo.workflow.errors import InputError
from felbo.workflow.folder import read_evaluation, read_run
from felbo.workflow.images import read_image
from felbo.workflow.tables import TableFile

NESTED = "[" * 100_000


class Payload:
    """Unpickled, it makes a file: the trace of code that ran."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture
def trace(tmp_path):
    """The path of a file that must not be there in the end."""
    path = tmp_path / "code-ran"
    yield path
    assert not path.exists()


def npy_header(shape, dtype="<f8"):
    """The header of an array, without its values."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def object_npz(path, trace, name="x"):
    with open(path, "wb") as file:
        np.savez(file, **{name: np.array([Payload(trace)], dtype=object)})
    return path


# Arrays


def test_npz_with_objects(tmp_path, trace):
    path = object_npz(tmp_path / "a.npz", trace)
    with pytest.raises(SavedFileError, match="does not unpickle"):
        Prediction.load(path)
    with pytest.raises(InputError, match="does not unpickle"):
        TableFile(path).columns()


def test_npz_that_claims_more_than_it_holds(tmp_path):
    path = npz(tmp_path / "a.npz", probs=npy_header((10**12, 2)))
    with pytest.raises(SavedFileError, match="size that its header says"):
        Prediction.load(path)
    with pytest.raises(InputError, match="size that its header says"):
        TableFile(path).read()


def test_npz_that_unpacks_to_too_much(tmp_path):
    path = npz(tmp_path / "a.npz", x=npy_header((1 << 20,), "|u1") + bytes(1 << 20))
    assert path.stat().st_size < 5000
    with pytest.raises(ValueError, match="more than 1,000"):
        read_npz(path, largest=1000)
    wide = TableFile(npz(tmp_path / "b.npz", x=npy_header((1, 1 << 20), "|u1") + bytes(1 << 20)))
    with pytest.raises(InputError, match="columns, and felbo reads"):
        wide.columns()


def test_npz_that_hides_an_array_in_a_comment(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(3), b=np.zeros(3))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    first = content.index(b"PK\x01\x02")  # in the directory at the end of the archive
    content[first + 32] = 200  # length of the comment
    (tmp_path / "a.npz").write_bytes(content)
    assert len(zipfile.ZipFile(tmp_path / "a.npz").infolist()) == 1
    with pytest.raises(ValueError, match="lists 1 arrays, and should list 2"):
        read_npz(tmp_path / "a.npz")
    with pytest.raises(InputError, match="lists 1 arrays, and should list 2"):
        TableFile(tmp_path / "a.npz").read()


@pytest.mark.parametrize("dtype", ["|V0", "|S0", "|V8", [("a", "<f8")]])
def test_npz_of_strange_types(dtype, tmp_path):
    path = npz(tmp_path / "a.npz", probs=npy_header((10**9, 2), dtype))
    with pytest.raises(SavedFileError):
        Prediction.load(path)


def test_npy_with_objects(tmp_path, trace):
    np.save(tmp_path / "fog.npy", np.array([Payload(trace)], dtype=object), allow_pickle=True)
    with pytest.raises(CorruptDataError):
        open_npy(tmp_path / "fog.npy", dataset_info("cifar10"))
    (tmp_path / "fog.npy").write_bytes(npy_header((10**12,)))
    with pytest.raises(CorruptDataError):
        open_npy(tmp_path / "fog.npy", dataset_info("cifar10"))


@pytest.mark.parametrize("change", [(b"}", b"("), (b"(", b"["), (b"'", b"\x00")])
def test_npy_with_a_header_that_is_no_python(change, tmp_path):
    content = npy_header((4,)).replace(*change) + bytes(32)
    (tmp_path / "fog.npy").write_bytes(content)
    with pytest.raises(CorruptDataError):
        open_npy(tmp_path / "fog.npy", dataset_info("cifar10"))


# Publishers' files


def test_idx_that_unpacks_to_too_much(monkeypatch):
    monkeypatch.setattr("felbo.data.idx.LARGEST", 1 << 20)
    bomb = gzip.compress(struct.pack(">II", 0x801, 2 << 20) + bytes(2 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(CorruptDataError, match="at most 1,048,576 bytes"):
        parse_idx(bomb, num_axes=1, source="labels.gz")


def test_downloads_that_leave_tls():
    import requests

    _require_tls("https://example.org/a.gz")
    for url in ("http://example.org/a.gz", "ftp://example.org/a", "file:///etc/passwd"):
        with pytest.raises(requests.RequestException, match="over TLS"):
            _require_tls(url)


def test_manifest_that_is_too_deep(tmp_path):
    (tmp_path / "manifest.json").write_text(NESTED)
    from felbo.data.corruptions.manifest import MANIFEST

    (tmp_path / MANIFEST).write_text(NESTED)
    with pytest.raises(CorruptDataError):
        Manifest.read(tmp_path)


# Weights and models


def test_weights_with_code(tmp_path, trace):
    torch.save({"state_dict": Payload(trace)}, tmp_path / "w.th")
    with pytest.raises(SavedFileError, match="nothing but tensors"):
        load_resnet_cifar(tmp_path / "w.th")
    (tmp_path / "w.th").write_bytes(pickle.dumps(Payload(trace)))
    with pytest.raises(SavedFileError):
        load_resnet_cifar(tmp_path / "w.th")


def test_weights_that_are_compressed(tmp_path):
    torch.save({"state_dict": {"a": torch.zeros(10)}}, tmp_path / "w.th")
    with (
        zipfile.ZipFile(tmp_path / "w.th") as source,
        zipfile.ZipFile(tmp_path / "bomb.th", "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(SavedFileError, match="is compressed"):
        load_resnet_cifar(tmp_path / "bomb.th")


def test_weights_with_a_flipped_bit(tmp_path):
    path = tmp_path / "w.th"
    torch.save({"state_dict": {"a": torch.full((10,), 1.5)}}, path)
    content = path.read_bytes()
    place = content.index(torch.full((10,), 1.5).numpy().tobytes())
    path.write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    with pytest.raises(SavedFileError, match="does not have its checksum"):
        load_resnet_cifar(path)


def test_a_saved_model_is_no_pickle(tmp_path, trace):
    (tmp_path / "m").write_bytes(pickle.dumps(Payload(trace)))
    torch.save(Payload(trace), tmp_path / "n")
    for name in ("m", "n"):
        with pytest.raises(SavedFileError):
            felbo.load(tmp_path / name)


def saved(folder, change, model=None):
    """Write a model whose description was changed; its checksum is right."""
    from felbo._container import read

    path = felbo.save(model or felbo.MAP(felbo.networks.mlp(2, (4,), 3)), folder / "m")
    content, tensors = read(path)
    change(content)
    write(path, {k: v for k, v in content.items() if k != "format"}, tensors)
    return path


def linear(content):
    return content["model"]["networks"][0]["parts"][1][1]


HOSTILE = {
    "a huge layer": lambda c: linear(c)["arguments"].update(in_features=10**9, out_features=10**6),
    "beyond all": lambda c: linear(c)["arguments"].update(in_features=10**18),
    "a device": lambda c: linear(c)["arguments"].update(in_features="meta"),
    "code by its name": lambda c: linear(c).update(layer="os.system"),
    "another kind": lambda c: c["model"].update(kind="__import__"),
    "draws without end": lambda c: c["model"].update(evaluation_samples=10**12),
    "no draws": lambda c: c["model"].update(evaluation_samples="many"),
    "nothing": lambda c: c.update(model=None),
    "something else": lambda c: c.update(what="classifier", classifier={"parameters": []}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_descriptions_of_saved_models(what, tmp_path):
    with pytest.raises(SavedFileError):
        felbo.load(saved(tmp_path, HOSTILE[what]))


@pytest.mark.parametrize("make", [felbo.Ensemble, felbo.Rank1])
def test_members_without_end(make, tmp_path):
    def network():
        return felbo.networks.mlp(2, (4,), 3)

    model = make(network if make is felbo.Ensemble else network(), 2)
    with pytest.raises(SavedFileError, match="larger than"):
        felbo.load(saved(tmp_path, lambda c: c["model"].update(members=90_000), model))


def test_an_argument_of_a_layer_that_is_not_known_is_not_passed_on(tmp_path):
    path = saved(tmp_path, lambda c: linear(c)["arguments"].update(device="meta"))
    assert felbo.load(path).network[1].weight.device.type == "cpu"


def test_checkpoints(tmp_path, trace):
    def fit():
        model = felbo.MAP(felbo.networks.mlp(2, (4,), 2))
        x, y = torch.zeros(8, 2), torch.zeros(8).long()
        loss = felbo.NegativeLogLikelihood()
        felbo.fit(model, loss, (x, y), epochs=1, checkpoint=tmp_path / "c", progress=False)

    fit()
    files = list((tmp_path / "c").glob("checkpoint-*"))
    for path in files:
        path.write_bytes(pickle.dumps(Payload(trace)))
    with (
        pytest.warns(felbo.errors.DamagedCheckpointWarning),
        pytest.raises(CheckpointError, match="damaged"),
    ):
        fit()
    for path in files:
        write(path, {"what": "training", "settings": {}, "state": NESTED}, {})
    with pytest.raises(CheckpointError, match="another training"):
        fit()
    for path in files:
        save_file({"a": torch.zeros(1)}, path)
    with pytest.warns(felbo.errors.DamagedCheckpointWarning), pytest.raises(CheckpointError):
        fit()


# Tables


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_tables_that_unpack_to_too_much(suffix, pack, tmp_path, monkeypatch):
    monkeypatch.setattr("felbo.workflow.compressed.SMALL", 1 << 20)
    path = tmp_path / f"a.csv.{suffix}"
    path.write_bytes(pack.compress(b"a,b\n" + b"0,0\n" * (1 << 20)))
    with pytest.raises(InputError, match="unpacks to more than"):
        TableFile(path).read()


def test_a_zipped_table_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("felbo.workflow.compressed.SMALL", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../a.csv", b"a,b\n" + b"0,0\n" * (1 << 20))
    with pytest.raises(InputError, match="unpacks to more than"):
        TableFile(tmp_path / "a.csv.zip").read()


def test_tables_that_are_pickles(tmp_path, trace):
    for name in ("a.csv", "a.parquet", "a.npz", "a.csv.gz", "a.csv.bz2", "a.csv.xz", "a.csv.zip"):
        (tmp_path / name).write_bytes(pickle.dumps(Payload(trace)))
        with pytest.raises(InputError):
            TableFile(tmp_path / name).read()


def test_a_parquet_file_with_too_many_values(tmp_path, monkeypatch):
    monkeypatch.setattr("felbo.workflow.parquet.MOST_VALUES", 1000)
    pd.DataFrame({"a": np.zeros(2000)}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="2,000 values"):
        TableFile(tmp_path / "a.parquet").read()


def test_a_parquet_file_with_a_flipped_bit(tmp_path):
    import pyarrow
    import pyarrow.parquet

    path, values = tmp_path / "a.parquet", np.arange(1000.0)
    table = pyarrow.table({"a": values})
    settings = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pyarrow.parquet.write_table(table, path, **settings)
    assert TableFile(path).read()["a"].tolist() == values.tolist()
    content = bytearray(path.read_bytes())
    content[content.index(values.tobytes()) + 4000] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        TableFile(path).read()


# Images


def test_images_that_other_programs_would_draw(tmp_path):
    image = Image.new("RGB", (4, 4))
    image.save(tmp_path / "a.eps")
    (tmp_path / "a.eps").rename(tmp_path / "a.png")
    with pytest.raises(InputError, match="is no image"):
        read_image(tmp_path / "a.png", 4, 3)


def test_images_of_too_many_pixels(tmp_path, monkeypatch):
    monkeypatch.setattr("felbo.workflow.images.MOST_PIXELS", 1000)
    Image.new("1", (100, 100)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match="100 x 100 pixels"):
        read_image(tmp_path / "a.png", 4, 3)


def test_images_that_are_pickles_or_cut(tmp_path, trace):
    (tmp_path / "a.png").write_bytes(pickle.dumps(Payload(trace)))
    with pytest.raises(InputError):
        read_image(tmp_path / "a.png", 4, 3)
    Image.effect_noise((64, 64), 50).save(tmp_path / "b.png")
    content = (tmp_path / "b.png").read_bytes()
    (tmp_path / "b.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError):
        read_image(tmp_path / "b.png", 4, 1)


# Runs and settings

RUN = {
    "format": 1,
    "kind": "images",
    "source": "x",
    "classes": ["a", "b"],
    "num_data": 3,
    "settings": {"seed": 0},
    "preparation": {"size": 8, "mean": [0.5], "std": [0.5]},
}
OFF = {
    "too deep": NESTED,
    "not text": "\udcff",
    "a list": [],
    "size": RUN | {"preparation": {"size": 10**9, "mean": [0.5], "std": [0.5]}},
    "classes": RUN | {"classes": [{}]},
    "num_data": RUN | {"num_data": "many"},
    "kind": RUN | {"kind": "../../model"},
    "more": RUN | {"__class__": 1},
    "seed": RUN | {"settings": {}},
}


@pytest.mark.parametrize("what", OFF)
def test_descriptions_of_runs(what, tmp_path):
    content = OFF[what] if isinstance(OFF[what], str) else json.dumps(OFF[what])
    (tmp_path / "run.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match="damaged"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    assert read_run(tmp_path).classes == ["a", "b"]


def test_evaluations_of_runs(tmp_path, trace):
    (tmp_path / "evaluations").mkdir()
    stem = tmp_path / "evaluations" / "one"
    stem.with_suffix(".json").write_text(NESTED)
    object_npz(stem.with_suffix(".npz"), trace, "labels")
    with pytest.raises(InputError, match="damaged"):
        read_evaluation(tmp_path, "one")
    stem.with_suffix(".json").write_text('{"scores": {}, "examples": {}}')
    with pytest.raises(InputError, match="does not unpickle"):
        read_evaluation(tmp_path, "one")
    for name in ("../one", "/etc/passwd"):
        with pytest.raises(InputError, match="has no evaluation"):
            read_evaluation(tmp_path, name)


@pytest.mark.parametrize("content", ["a = " + "[" * 5000, "\x00", "[train"])
def test_settings_in_toml(content, tmp_path):
    (tmp_path / "a.toml").write_text(content)
    result = CliRunner().invoke(app, ["train", "x", "--config", str(tmp_path / "a.toml")])
    assert result.exit_code == 2
    assert "TOML" in result.output
    assert "Traceback" not in result.output


def test_cells_of_a_study(tmp_path):
    from felbo.paper.cells import Cell, DamagedCellError, read_cell

    class Here(Cell):
        path = tmp_path / "cell.json"

    for content in (NESTED, '{"model": 1', "[]"):
        Here.path.write_text(content)
        with pytest.raises(DamagedCellError):
            read_cell(object.__new__(Here))

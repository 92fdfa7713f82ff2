"""The same task in felbo and in other libraries: `python -m benchmarks.alternatives`.

Takes a perceptron that was trained on scikit-learn's digits, gets probabilities and a score of how
unknown an input is, and writes `results/alternatives.csv` and the table in `docs/alternatives.md`.
Packages that are not installed are named, and their rows stay as they were.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import felbo
from benchmarks.__main__ import processor
from benchmarks.rivals import METHODS, Method
from benchmarks.rivals.task import BATCH_SIZE, Answer, Predictor, Task, task
from benchmarks.tables import ROOT, auroc, entropy
from felbo.report.page import replace_part

COMMAND = "python -m benchmarks.alternatives"
CSV = ROOT / "results" / "alternatives.csv"
PAGE = ROOT / "docs" / "alternatives.md"
SEEDS = (0, 1, 2)
MODULES = {"laplace-torch": "laplace", "bayesian-torch": "bayesian_torch"}
SCORES = ("entropy", "epistemic")
UNLIKE = ("negative", "turned", "blended")


def answers(predict: Predictor, x: Tensor) -> Answer:
    """Predict in batches, as a data loader does."""
    with torch.no_grad():
        parts = [predict(batch) for batch in x.split(BATCH_SIZE)]
    epistemic = [part.epistemic for part in parts if part.epistemic is not None]
    return Answer(
        torch.cat([part.probs for part in parts]), torch.cat(epistemic) if epistemic else None
    )


def measure(method: Method, start: Task) -> dict[str, Any]:
    """Return the scores of a method and the seconds of processor time that it takes."""
    digits = start.digits
    torch.manual_seed(start.seed)
    begin = time.process_time()
    predict = method.fit(start)
    fitted = time.process_time()
    inputs = {"test": digits.test[0], **digits.unlike}
    found = {name: answers(predict, x) for name, x in inputs.items()}
    end = time.process_time()
    result = felbo.score(found["test"].probs, digits.test[1])
    row: dict[str, Any] = {
        "package": method.package,
        "version": version_of(method.package),
        "method": method.name,
        "seed": start.seed,
        "log-likelihood": result.log_likelihood,
        "ece": result.ece,
        "accuracy": result.accuracy,
    }
    for score in SCORES:
        values = {name: _uncertainty(answer, score) for name, answer in found.items()}
        for name in UNLIKE:
            inside, outside = values["test"], values[name]
            known = inside is not None and outside is not None
            row[f"{name} {score}"] = auroc(inside, outside) if known else None
    return {**row, "fit": fitted - begin, "predict": end - fitted}


def _uncertainty(answer: Answer, score: str) -> Any:
    if score == "entropy":
        return entropy(answer.probs.double().numpy())
    return None if answer.epistemic is None else answer.epistemic.numpy()


def version_of(package: str) -> str:
    """Return the version of a package, without what torch says of its build."""
    return felbo.__version__ if package == "felbo" else version(package).partition("+")[0]


def run(methods: Sequence[Method], seeds: Sequence[int]) -> tuple[pd.DataFrame, list[str]]:
    """Return a row per method and seed, and the packages that cannot be used here."""
    rows: list[dict[str, Any]] = []
    missing: dict[str, None] = {}
    for seed in seeds:
        start = task(seed)
        for method in methods:
            if method.package in missing:
                continue
            try:
                import_module(MODULES.get(method.package, method.package))  # takes no part in time
                rows.append(measure(method, start))
            except ImportError as error:
                missing[method.package] = None
                print(f"{method.package} is skipped: {error}", flush=True)
                continue
            print(f"seed {seed}: {method.package}, {method.name}", flush=True)
    return pd.DataFrame(rows), list(missing)


def joined(new: pd.DataFrame, old: pd.DataFrame, missing: Sequence[str]) -> pd.DataFrame:
    """Return new rows, and old ones of the packages that are missing, in the order of METHODS."""
    kept = [old[old["package"].isin(missing)]] if len(old) else []
    both = pd.concat([new, *kept])
    places = {(method.package, method.name): place for place, method in enumerate(METHODS)}
    keys = zip(both["package"], both["method"], strict=True)
    both = both.assign(place=[places.get(key, len(places)) for key in keys])
    return both.sort_values(["place", "seed"]).drop(columns="place").reset_index(drop=True)


def body(frame: pd.DataFrame) -> str:
    """Return the table of the page, means over seeds, and how much seeds differ."""
    lines = [
        f"| library | method | log-likelihood | ECE | accuracy (%) | {' | '.join(UNLIKE)} "
        "| seconds to fit | to predict |",
        f"|---|---|---|---|---|{'---|' * len(UNLIKE)}---|---|",
    ]
    groups = frame.groupby(["package", "version", "method"], sort=False)
    for (package, release, method), mean in groups.mean(numeric_only=True).iterrows():
        cells = [
            f"{package} {release}",
            method,
            f"{mean['log-likelihood']:.3f}".replace("-", "−"),
            f"{mean['ece']:.3f}",
            f"{mean['accuracy']:.1f}",
            *(" / ".join(_shown(mean[f"{name} {score}"]) for score in SCORES) for name in UNLIKE),
            f"{mean['fit']:.1f}",
            f"{mean['predict']:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    spread = groups.std(numeric_only=True).max()
    areas = spread[[f"{name} {score}" for name in UNLIKE for score in SCORES]]
    lines += [
        "",
        f"Means of {frame['seed'].nunique()} seeds; one core, {processor()}. The standard "
        f"deviation over seeds is at most {spread['log-likelihood']:.3f} (log-likelihood), "
        f"{spread['ece']:.3f} (ECE), {spread['accuracy']:.1f} (accuracy) and {areas.max():.2f} "
        "(AUROC): [every seed](../results/alternatives.csv).",
        "",
        places(frame),
    ]
    return "\n".join(lines)


def places(frame: pd.DataFrame) -> str:
    """Say which places felbo's rows take in each column, in the order of the rows."""
    means = frame.groupby(["package", "method"], sort=False).mean(numeric_only=True)
    ours = means.index.get_level_values("package") == "felbo"
    columns = [("log-likelihood", "log-likelihood", 3), ("ECE", "ece", 3)]
    columns += [("accuracy", "accuracy", 1)]
    columns += [(f"{name} by entropy", f"{name} entropy", 2) for name in UNLIKE]
    found = []
    for title, column, decimals in columns:
        # Values that look the same in the table share a place.
        rank = means[column].round(decimals).rank(ascending=column == "ece", method="min")
        found.append(f"{title} {', '.join(f'{place:.0f}' for place in rank[ours])}")
    return f"Places of felbo's rows among the {len(means)}: {'; '.join(found)}."


def _shown(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--page", action="store_true", help="run nothing, only write the page")
    if not parser.parse_args().page:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        new, missing = run(METHODS, SEEDS)
        frame = joined(new, _results() if CSV.exists() else pd.DataFrame(), missing)
        frame.round(5).to_csv(CSV, index=False)
        if missing:
            print(f"Not run, rows as they were: {', '.join(missing)}")
    text = body(_results())
    PAGE.write_text(replace_part(PAGE.read_text("utf-8"), COMMAND, text), encoding="utf-8")
    print(text)


def _results() -> pd.DataFrame:
    return pd.read_csv(CSV, dtype={"version": str})


if __name__ == "__main__":
    main()

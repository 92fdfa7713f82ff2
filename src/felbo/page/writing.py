"""One self-contained HTML page about a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from felbo._files import write_atomically
from felbo.page.charts import charts, curves
from felbo.page.sections import about, detection, examples, more_scores, tiles
from felbo.workflow.errors import InputError
from felbo.workflow.folder import Run, StoredEvaluation, evaluation_names, read_evaluation, read_run

# Nothing is loaded from anywhere, whatever a label says.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
CAPTIONS = {
    "reliability": (
        "Reliability",
        "Accuracy of predictions by their confidence. On the dashed line, confidence means what "
        "it says; below it, the model is too sure.",
    ),
    "confidence": (
        "Confidence",
        "Probability of the predicted class, on the data and elsewhere.",
    ),
    "epistemic": (
        "What it does not know",
        "Uncertainty of the predictions. Elsewhere it should lie further to the right.",
    ),
    "risk": (
        "Risk and coverage",
        "Errors that remain when only the most certain predictions are accepted. A good score "
        "rises late.",
    ),
    "confusion": (
        "Confusion",
        "True classes in rows, predicted ones in columns; colours are shares of a row.",
    ),
    "training": (
        "Training",
        "Loss by epoch, and the score of held-out items where some were kept apart.",
    ),
}


def write_report(folder: Path, target: Path, evaluation: str | None = None) -> None:
    """Write the report of a run.

    Args:
        folder: of the run.
        target: file to write.
        evaluation: which one to show; ``None`` takes that on held-out data.
    """
    run = read_run(folder)
    names = evaluation_names(folder)
    if not names:
        raise InputError(
            f"The run {folder} has no evaluation to report: nothing was held out in training. "
            "`felbo evaluate` makes one."
        )
    found = read_evaluation(folder, evaluation or names[0])
    write_atomically(target, page(run, found))


def page(run: Run, found: StoredEvaluation) -> str:
    """Return the page as text."""
    from plotly.offline import get_plotlyjs

    made = charts(run, found)
    content = {"charts": made, "curves": curves(found)}
    title = f"{Path(run.source).name}: {found.name}"
    size = found.scores["test"]["size"]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{_asset("page.css")}</style>
</head>
<body>
<header>
<div><h1>{escape(title)}</h1>
<p class="soft">{escape(_summary(run))} {size} items were evaluated; intervals are at a level of
95 %, from 1000 bootstrap resamples.</p></div>
<button id="theme" type="button" aria-label="switch between light and dark">◐</button>
</header>
<main>
{tiles(found.scores["test"])}
{more_scores(found.scores["test"])}
<h2>Which predictions can be trusted?</h2>
{_control(found)}
<div class="grid">{_figures(made, ("risk", "reliability", "confidence", "epistemic"))}</div>
{detection(found.scores["ood"])}
<h2>Classes and training</h2>
<div class="grid">{_figures(made, ("confusion", "training"))}</div>
{examples(found, run.classes)}
{about(run)}
</main>
<script type="application/json" id="data">{_json(content)}</script>
<script>{get_plotlyjs()}</script>
<script>{_asset("page.js")}</script>
</body>
</html>
"""


def _summary(run: Run) -> str:
    model = run.settings.get("model", "model")
    target = f" to predict the column {run.target}" if run.target else ""
    return f"Model: {model}, trained on {run.num_data} items of {run.source}{target}."


def _control(found: StoredEvaluation) -> str:
    options = "".join(f"<option>{escape(name)}</option>" for name in _scores(found))
    return f"""<div class="card">
<div class="control"><label>Accept the most certain by <select id="score">{options}</select></label>
<input id="share" type="range" min="1" max="100" value="90" aria-label="share of predictions"></div>
<output id="answer" for="score share"></output></div>"""


def _scores(found: StoredEvaluation) -> list[str]:
    """Return the scores, total uncertainty first."""
    names = list(found.scores["test"]["selective"])
    return sorted(names, key=lambda name: name != "total")


def _figures(made: dict[str, Any], names: Sequence[str]) -> str:
    return "".join(_figure(name, made[name].get("height")) for name in names if name in made)


def _figure(name: str, height: str | None) -> str:
    """Return a place for a chart; one with a height of its own takes the whole width."""
    title, caption = CAPTIONS[name]
    opening = "<figure>" if height is None else '<figure class="full">'
    style = "" if height is None else f' style="height:{height}"'
    return (
        f'{opening}<h3>{title}</h3><div class="chart" id="chart-{name}"{style}></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _json(content: Any) -> str:
    # A label with </script> must not end the script.
    text = json.dumps(content, allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (files("felbo.page") / "assets" / name).read_text(encoding="utf-8")

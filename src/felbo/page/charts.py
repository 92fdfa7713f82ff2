"""The charts of a report, as data and layouts of plotly."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import torch

from felbo.evaluation.selective import RiskCoverage, risk_coverage
from felbo.workflow.columns import Columns, score_of
from felbo.workflow.folder import Run, StoredEvaluation

Chart = dict[str, Any]

# Okabe and Ito (2008), "Color Universal Design": distinguishable with every kind of colour vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#F0E442")
# Points of a curve, and bins of a histogram, that a page holds.
POINTS, BINS = 200, 30
# A larger confusion matrix has no numbers in its cells, and takes the whole width of the page.
NUMBERED = 15
LARGE = "34rem"
# Classes that an axis names, and characters of each name, that leave room for the matrix.
NAMED, SHORT = 25, 14


def charts(run: Run, found: StoredEvaluation) -> dict[str, Chart]:
    """Return all charts by name."""
    made = {
        "reliability": _reliability(found.scores["test"]["reliability"]),
        "confidence": _histogram(found, "confidence", "confidence", (0.0, 1.0)),
        "epistemic": _epistemic(found),
        "risk": _risk(found),
        "confusion": _confusion(found, [str(label) for label in run.classes]),
    }
    return made | ({"training": _training(run.history)} if run.history.get("loss") else {})


def curves(found: StoredEvaluation) -> dict[str, dict[str, Any]]:
    """Return coverage, risk and threshold of every score, for the control of the page."""
    made = {}
    for name, curve in _curves(found).items():
        # Only where a threshold can lie: after the last of equal scores.
        last = torch.ones(1, dtype=torch.bool)
        ends = torch.cat([curve.uncertainty[1:] > curve.uncertainty[:-1], last]).numpy()
        places = _few(np.flatnonzero(ends))
        made[name] = {
            "coverage": _rounded(curve.coverage.numpy()[places]),
            "risk": _rounded(curve.risk.numpy()[places]),
            "threshold": _rounded(curve.uncertainty.numpy()[places]),
            "negated": name in ("confidence", "precision"),
        }
    return made


def _reliability(bins: dict[str, Any]) -> Chart:
    widths = [high - low for low, high in zip(bins["low"], bins["high"], strict=True)]
    middle = [low + width / 2 for low, width in zip(bins["low"], widths, strict=True)]
    bars = {
        "type": "bar",
        "name": "accuracy",
        "x": _rounded(middle),
        "y": _rounded(bins["accuracy"]),
        "width": _rounded(widths),
        "customdata": list(zip(bins["count"], _rounded(bins["confidence"]), strict=True)),
        "hovertemplate": "accuracy %{y:.3f}<br>mean confidence %{customdata[1]:.3f}"
        "<br>%{customdata[0]} items<extra></extra>",
        "marker": {"color": PALETTE[0], "opacity": 0.8},
    }
    line = _line([0, 1], [0, 1], "perfect", PALETTE[1], dash="dash")
    return _chart([bars, line], "confidence", "accuracy", x=(0, 1), y=(0, 1))


def _epistemic(found: StoredEvaluation) -> Chart:
    name = "total" if np.isnan(found.test["epistemic"]).any() else "epistemic"
    return _histogram(found, name, f"{name} uncertainty, nats", None)


def _histogram(
    found: StoredEvaluation, score: str, title: str, span: tuple[float, float] | None
) -> Chart:
    sets = {found.name: found.test, **found.ood}
    values = {name: _values(columns, score) for name, columns in sets.items()}
    if span is None:
        span = (0.0, float(max(part.max() for part in values.values())) or 1.0)
    edges = np.linspace(*span, BINS + 1)
    traces = []
    for place, (name, part) in enumerate(values.items()):
        counts = np.histogram(np.clip(part, *span), edges)[0] / len(part)
        traces.append(
            {
                "type": "bar",
                "name": escape(name),
                "x": _rounded((edges[:-1] + edges[1:]) / 2),
                "y": _rounded(counts),
                "marker": {"color": PALETTE[place % len(PALETTE)], "opacity": 0.6},
                "hovertemplate": "%{y:.1%} near %{x:.3g}<extra>%{fullData.name}</extra>",
            }
        )
    chart = _chart(traces, title, "share", x=span)
    chart["layout"] |= {"barmode": "overlay", "bargap": 0}
    return chart


def _risk(found: StoredEvaluation) -> Chart:
    traces = []
    for place, (name, curve) in enumerate(_curves(found).items()):
        places = _few(np.arange(len(curve.errors)))
        x, y = curve.coverage.numpy()[places], curve.risk.numpy()[places]
        traces.append(_line(_rounded(x), _rounded(y), name, PALETTE[place % len(PALETTE)]))
    chart = _chart(traces, "coverage", "errors among the accepted", x=(0, 1))
    chart["layout"]["yaxis"] |= {"tickformat": ".1~%", "rangemode": "tozero"}
    return chart


def _confusion(found: StoredEvaluation, classes: Sequence[str]) -> Chart:
    size, predicted = len(classes), found.test["probs"].argmax(-1)
    counts = np.bincount(found.labels * size + predicted, minlength=size * size)
    matrix = counts.reshape(size, size)
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    trace = {
        "type": "heatmap",
        "z": [_rounded(row) for row in shares],
        "x": list(range(size)),
        "y": list(range(size)),
        "text": matrix.tolist(),
        "texttemplate": "%{text}" if size <= NUMBERED else "",
        "hovertemplate": "true: %{customdata[0]}<br>predicted: %{customdata[1]}"
        "<br>%{text} items (%{z:.1%})<extra></extra>",
        "customdata": [[(escape(true), escape(other)) for other in classes] for true in classes],
        # Half transparent at most, so that the counts can be read on light and on dark pages.
        "colorscale": [[0, "rgba(0,114,178,0.04)"], [1, "rgba(0,114,178,0.55)"]],
        "showscale": False,
    }
    chart = _chart([trace], "predicted", "true")
    places = list(range(0, size, -(-size // NAMED)))
    ticks = {
        "tickvals": places,
        "ticktext": [escape(_short(classes[place])) for place in places],
        "showgrid": False,
        "zeroline": False,
    }
    if size > NUMBERED:
        ticks["tickfont"] = {"size": 10}
        chart["height"] = LARGE
    chart["layout"]["xaxis"] |= ticks
    title = {"text": "true", "standoff": 10}  # beside the names, however long they are
    chart["layout"]["yaxis"] |= {**ticks, "title": title, "autorange": "reversed"}
    return chart


def _short(name: str) -> str:
    """Return a name of at most 14 characters: where it is longer, its beginning and end."""
    half = SHORT // 2
    return name if len(name) <= SHORT else f"{name[:half]}…{name[1 - half :]}"


def _training(history: dict[str, list[float]]) -> Chart:
    titles = {"loss": "training loss", "validation": "bound on rows held out"}
    traces = [
        _line(list(range(1, len(values) + 1)), _rounded(values), titles.get(name, name), PALETTE[i])
        for i, (name, values) in enumerate(history.items())
    ]
    return _chart(traces, "epoch", "nats per item")


def _curves(found: StoredEvaluation) -> dict[str, RiskCoverage]:
    correct = found.test["probs"].argmax(-1) == found.labels
    scores = {name: score_of(found.test, name) for name in found.scores["test"]["selective"]}
    return {name: risk_coverage(values, correct) for name, values in scores.items()}


def _values(columns: Columns, score: str) -> Any:
    return columns["probs"].max(-1) if score == "confidence" else columns[score]


def _line(x: Any, y: Any, name: str, colour: str, dash: str = "solid") -> dict[str, Any]:
    line = {"color": colour, "dash": dash}
    return {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": line}


def _chart(traces: list[Any], across: str, up: str, x: Any = None, y: Any = None) -> Chart:
    axes = {}
    for name, title, span in (("xaxis", across, x), ("yaxis", up, y)):
        axes[name] = {"title": {"text": title}} | ({} if span is None else {"range": list(span)})
    return {"data": traces, "layout": axes}


def _few(places: Any) -> Any:
    """Return at most 200 places, evenly spaced, the first and last among them."""
    if len(places) <= POINTS:
        return places
    return places[np.linspace(0, len(places) - 1, POINTS).round().astype(int)]


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.5g}") for value in np.asarray(values, dtype=float)]

"""Tables of a study in Markdown, with the published numbers beside, and its claims."""

from __future__ import annotations

from collections.abc import Sequence

from felbo.paper.published import published
from felbo.paper.results import Summary
from felbo.paper.study import Study

TITLES = {
    "accuracy": ("Accuracy (%)", 1),
    "log_likelihood": ("Log-likelihood (nats)", 2),
    "ece": ("Calibration error", 2),
}


def report(study: Study, summaries: Sequence[Summary]) -> str:
    """Return one table per metric, measured / published, and the claims that were seen or not."""
    if not summaries:
        return "No cell is finished yet."
    measured = [name for name in study.models if any(s.model == name for s in summaries)]
    missing = [name for name in study.models if name not in measured]
    blocks = [table(study, summaries, metric, measured) for metric in TITLES]
    if missing:
        blocks.append(f"Not run yet: {', '.join(missing)}.")
    claims = study.claims(summaries)
    if claims:
        rows = [f"| {c.text} | {'seen' if c.holds else '**not seen**'} |" for c in claims]
        blocks.append("\n".join(["| the paper's conclusions | here |", "|---|---|", *rows]))
    return "\n\n".join(blocks)


def table(study: Study, summaries: Sequence[Summary], metric: str, models: Sequence[str]) -> str:
    """Return the table of a metric: a row per model, a column per shift."""
    title, digits = TITLES[metric]
    cells = {(s.model, s.shift): s for s in summaries if s.metric == metric}
    reference = {
        (p.model, p.shift): p.mean
        for p in published(study.compared_with or study.key)
        if p.metric == metric
    }
    shifts = sorted({shift for _, shift in cells})
    lines = [
        f"{title}, measured / published:",
        "",
        f"| model | seeds | {' | '.join(f'{shift:g}' for shift in shifts)} |",
        f"|---|---|{'---|' * len(shifts)}",
    ]
    for model in models:
        found = [
            _pair(cells.get((model, shift)), reference.get((model, shift)), digits)
            for shift in shifts
        ]
        seeds = max(cells[key].seeds for key in cells if key[0] == model)
        lines.append(f"| {model} | {seeds} | {' | '.join(found)} |")
    return "\n".join(lines)


def _pair(measured: Summary | None, reference: float | None, digits: int) -> str:
    values = [None if measured is None else measured.mean, reference]
    texts = ["–" if v is None else f"{v:.{digits}f}".replace("-", "−") for v in values]
    return " / ".join(texts)

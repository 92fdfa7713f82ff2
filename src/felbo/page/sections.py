"""The parts of a report in HTML; whatever comes from data is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from felbo.workflow.folder import Run, StoredEvaluation

SCORES = {
    "accuracy": ("Accuracy", "%"),
    "log_likelihood": ("Log-likelihood", "nats"),
    "brier": ("Brier score", "0 is best"),
    "ece": ("Calibration error", "0 is best"),
}
OTHERS = {
    "ece_mass": "Calibration error, bins of equal mass",
    "ece_class": "Calibration error, mean over classes",
    "rms_calibration": "Calibration error, root mean square",
    "max_calibration": "Largest calibration gap",
}
SMOOTHED = "The log-likelihood is that of probabilities mixed with 0.0001 of the uniform ones."
KINDS = {
    "uncertain": ("The most uncertain", "Where the model knows least: look here first for labels."),
    "wrong": ("The most confidently wrong", "Mistakes, or labels that are."),
}


def tiles(test: dict[str, Any]) -> str:
    """Return the main scores with their intervals."""
    made = []
    for key, (title, unit) in SCORES.items():
        value = test[key]
        made.append(
            f'<div class="tile"><span class="soft">{title}, {unit}</span>'
            f"<b>{value['value']:.4g}</b>"
            f'<span class="soft">{value["low"]:.4g} to {value["high"]:.4g}</span></div>'
        )
    return f'<div class="tiles">{"".join(made)}</div>'


def more_scores(test: dict[str, Any]) -> str:
    """Return the other scores, and selective prediction, as tables to unfold."""
    rows = [
        [title, f"{test[key]['value']:.4g}", f"{test[key]['low']:.4g} to {test[key]['high']:.4g}"]
        for key, title in OTHERS.items()
    ]
    first = next(iter(test["selective"].values()))
    head = ["score", "AURC", "AUGRC"]
    head += [f"accuracy at coverage {share}" for share in first["accuracy_at"]]
    head += [f"coverage at {float(wanted):g} % accuracy" for wanted in first["coverage_at"]]
    selective = [
        [name, f"{part['aurc']:.4g}", f"{part['augrc']:.4g}"]
        + [f"{value:.2f} %" for value in part["accuracy_at"].values()]
        + [f"{value:.1%}" for value in part["coverage_at"].values()]
        for name, part in test["selective"].items()
    ]
    return (
        "<details><summary>More scores</summary>"
        + f'<p class="soft">{SMOOTHED}</p>'
        + table(["", "value", "95 % interval"], rows)
        + table(head, selective)
        + "</details>"
    )


def detection(ood: dict[str, Any]) -> str:
    """Return how well each score tells data from elsewhere."""
    if not ood:
        return ""
    rows = [
        [name, score, *(f"{found[key]:.4f}" for key in ("auroc", "aupr_in", "aupr_out", "fpr95"))]
        for name, scores in ood.items()
        for score, found in scores.items()
    ]
    head = ["elsewhere", "score", "AUROC", "AUPR in", "AUPR out", "FPR at 95 %"]
    return "<h2>Telling data from elsewhere</h2>" + table(head, rows)


def examples(found: StoredEvaluation, classes: Sequence[Any]) -> str:
    """Return the examples that are worth looking at, as cards."""
    made = []
    for kind, (title, meaning) in KINDS.items():
        cards = "".join(_card(example, classes) for example in found.examples.get(kind, []))
        shown = f'<div class="examples">{cards}</div>' if cards else "<p>There are none.</p>"
        made.append(f'<h2>{title}</h2><p class="soft">{meaning}</p>{shown}')
    return "".join(made)


def about(run: Run) -> str:
    """Return where the model comes from."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in run.notes)
    rows = [[name, str(value)] for name, value in run.settings.items()]
    return (
        (f"<h2>About the data</h2><ul>{notes}</ul>" if notes else "")
        + "<h2>Settings</h2><details><summary>How it was trained</summary>"
        + table(["setting", "value"], rows)
        + "</details>"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of text, which scrolls where it is too wide."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _card(example: dict[str, Any], classes: Sequence[Any]) -> str:
    label, predicted = (escape(str(classes[example[key]])) for key in ("label", "predicted"))
    right = example["label"] == example["predicted"]
    picture = example.get("picture")
    image = f'<img alt="{label}" src="data:image/png;base64,{escape(picture)}">' if picture else ""
    epistemic = example["epistemic"]
    uncertainty = f"total {example['total']:.3f}"
    if epistemic is not None:
        uncertainty += f", epistemic {epistemic:.3f}"
    name = example.get("file") or f"row {example.get('row')}"
    values = example.get("values")
    return (
        f'<div class="card">{image}<h3>{escape(str(name))}</h3>'
        f'<div><span class="{"right" if right else "wrong"}">{predicted}</span> '
        f"{example['confidence']:.1%}, true: {label}</div>"
        f'<div class="soft">{uncertainty}</div>{_values(values) if values else ""}</div>'
    )


def _values(values: dict[str, Any]) -> str:
    rows = [[name, _shown(value)] for name, value in values.items()]
    return f"<details><summary>values</summary>{table(['column', 'value'], rows)}</details>"


def _shown(value: Any) -> str:
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)

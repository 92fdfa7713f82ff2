"""Tables for pages: measured beside published, and pages that agree with the tables of studies."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from felbo.cli import app
from felbo.cli.pages import filled
from felbo.paper.corrupted_cifar import ABLATION_CIFAR10, BASELINES_CIFAR10, CIFAR10
from felbo.paper.markdown import report
from felbo.paper.published import published
from felbo.paper.results import Summary, write_csv
from felbo.report.page import parts, replace_part

ROOT = Path(__file__).resolve().parents[2]


def summary(metric, model, shift, value, seeds=2):
    return Summary(
        "corrupted_cifar10", metric, model, shift, value, 0.1, seeds, value, value, value
    )


def test_measured_and_published_stand_side_by_side():
    rows = [
        summary(metric, "MAP", shift, value)
        for metric, value in (("accuracy", 50.04), ("log_likelihood", -1.5), ("ece", 0.123))
        for shift in (0.0, 5.0)
    ]
    text = report(CIFAR10, rows)
    paper = {
        (p.metric, p.shift): p.mean for p in published("corrupted_cifar10") if p.model == "MAP"
    }
    assert f"| MAP | 2 | 50.0 / {paper['accuracy', 0.0]:.1f} |" in text
    assert f"| −1.50 / −{-paper['log_likelihood', 5.0]:.2f} |" in text
    assert f"| 0.12 / {paper['ece', 5.0]:.2f} |" in text
    assert "Not run yet: MAP fVI, MC Dropout" in text


def test_numbers_that_are_missing_on_either_side_are_dashes():
    rows = [
        summary(metric, model, shift, 1.0)
        for metric in ("accuracy", "log_likelihood", "ece")
        for model, shift in (("Evidential", 0.0), ("MAP", 0.0), ("MAP", 1.0))
    ]
    text = report(BASELINES_CIFAR10, rows)
    assert "| Evidential | 2 | 1.0 / – | – / – |" in text
    assert report(CIFAR10, []) == "No cell is finished yet."


def test_claims_are_seen_or_not():
    value = {"accuracy": (80, 70), "log_likelihood": (-1.0, -0.9), "ece": (0.2, 0.1)}
    rows = [
        summary(metric, model, shift, values[i])
        for metric, values in value.items()
        for i, model in enumerate(("MAP", "MAP fVI"))
        for shift in (3.0, 4.0, 5.0)
    ]
    lines = [line for line in report(CIFAR10, rows).splitlines() if line.endswith("seen |")]
    assert len(lines) == 2
    assert "**not seen**" in report(CIFAR10, rows)


def as_published(study, flip=()):
    """The published log-likelihoods as if measured, with two models exchanged."""
    names = {**{name: name for name in study.models}, **dict(flip), **{b: a for a, b in flip}}
    return [
        summary("log_likelihood", names[p.model], p.shift, p.mean)
        for p in published(study.compared_with)
        if p.metric == "log_likelihood" and p.model in names
    ]


def test_the_order_of_the_baselines_is_checked_where_it_was_published():
    found = BASELINES_CIFAR10.claims(
        [
            *as_published(BASELINES_CIFAR10),
            *(
                summary(m, model, s, 0.5)
                for m in ("accuracy", "ece")
                for model in ("MAP", "MAP fVI")
                for s in (3.0, 4.0, 5.0)
            ),
        ]
    )
    ordered = {claim.text: claim.holds for claim in found if " than " in claim.text}
    assert ordered["MAP fVI has a better log-likelihood than Belief Matching at 3, 4, 5"]
    # Subnetwork Laplace is behind at first and ahead at the end.
    assert ordered["MAP fVI has a better log-likelihood than Subnetwork at 3, 4"]
    assert ordered["Subnetwork has a better log-likelihood than MAP fVI at 5"]
    assert all(ordered.values())
    assert not any("Evidential" in text for text in ordered)


def test_the_effect_of_draws_in_training_is_checked():
    found = ABLATION_CIFAR10.claims(as_published(ABLATION_CIFAR10))
    assert len(found) == 2
    assert all(claim.holds for claim in found)
    exchanged = [("MC Dropout (1 sample)", "MC Dropout (5 samples)")]
    found = ABLATION_CIFAR10.claims(as_published(ABLATION_CIFAR10, exchanged))
    assert [claim.holds for claim in found] == [False, True]


def test_only_the_part_of_the_command_is_replaced():
    page = "a\n<!-- begin: x -->\n1\n<!-- end -->\nb\n<!-- begin: y -->\n2\n<!-- end -->\nc"
    assert parts(page) == {"x": "1\n", "y": "2\n"}
    assert parts(replace_part(page, "y", "3\n4")) == {"x": "1\n", "y": "3\n4\n"}
    assert replace_part(page, "x", "1") == page
    with pytest.raises(ValueError, match=r"no part '<!-- begin: z -->'.*\['x', 'y'\]"):
        replace_part(page, "z", "")


def test_a_page_is_filled_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = "felbo compare corrupted-cifar10 --results small"
    Path("page.md").write_text(f"Text\n<!-- begin: {command} -->\n<!-- end -->\nMore\n")
    assert CliRunner().invoke(app, ["page", "page.md"]).exit_code == 0
    assert "No cell is finished yet." in Path("page.md").read_text()
    rows = [summary(m, "MAP", 0.0, 1.0) for m in ("accuracy", "log_likelihood", "ece")]
    write_csv(Path("small/corrupted_cifar10.csv"), rows, Summary._fields)
    assert CliRunner().invoke(app, ["page", "page.md"]).exit_code == 0
    text = Path("page.md").read_text()
    assert text.startswith("Text\n")
    assert text.endswith("<!-- end -->\nMore\n")
    assert "| MAP | 2 | 1.0 / " in text


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_pages_have_the_numbers_of_the_tables(path):
    text = path.read_text(encoding="utf-8")
    assert filled(text, ROOT) == text, f"run `felbo page docs/{path.name}`"

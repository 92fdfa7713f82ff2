"""The page is complete, needs nothing from elsewhere, and no label breaks out of it."""

import json
import re
from html.parser import HTMLParser

import pytest

from felbo.page import page, write_report
from felbo.workflow.errors import InputError
from felbo.workflow.folder import Run

from .stored import NASTY, stored

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


class Tags(HTMLParser):
    """Collects the tags, the scripts and the text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.inside, self.scripts, self.text = [], None, [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        else:
            self.text.append(data)


def parsed(text):
    tags = Tags()
    tags.feed(text)
    return tags


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return parsed(page(*stored(tmp_path_factory.mktemp("run"))))


def test_labels_and_names_stay_text(made):
    assert len(made.scripts) == 3
    assert not any("alert('x')" in script for script in made.scripts[1:])
    shown = "".join(made.text)
    # Title, source, target, class of examples, file, columns, notes and settings.
    assert shown.count(NASTY) >= 8
    content = json.loads(made.scripts[0])
    ticks = content["charts"]["confusion"]["layout"]["xaxis"]["ticktext"]
    assert ticks[:2] == ["a", "b"]
    assert "<" not in ticks[2]
    assert "<" not in content["charts"]["confidence"]["data"][1]["name"]


def test_nothing_is_loaded_from_anywhere(made):
    for tag, attributes in made.tags:
        assert tag not in ("link", "iframe", "object", "base")
        assert "src" not in attributes or attributes["src"].startswith("data:")
        assert not any(name.startswith("on") for name in attributes)
    policy = next(a["content"] for t, a in made.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_every_part_is_there(made):
    shown = " ".join(made.text)
    for title in (
        *("Accuracy", "Log-likelihood", "Brier score", "Calibration error", "More scores"),
        *("Risk and coverage", "Reliability", "Confidence", "Confusion", "Training"),
        *("Telling data from elsewhere", "The most uncertain", "The most confidently wrong"),
    ):
        assert title in shown
    places = {attributes.get("id") for _, attributes in made.tags}
    assert {f"chart-{name}" for name in json.loads(made.scripts[0])["charts"]} <= places


def test_images_are_shown_as_pictures(tmp_path):
    tags = parsed(page(*stored(tmp_path, name="cat.png", picture=PIXEL))).tags
    images = [attributes for tag, attributes in tags if tag == "img"]
    assert len(images) == 24
    assert images[0]["src"] == f"data:image/png;base64,{PIXEL}"


def test_scores_have_their_intervals(tmp_path):
    run, found = stored(tmp_path, name="c")
    accuracy = found.scores["test"]["accuracy"]
    text = page(run, found)
    assert f"<b>{accuracy['value']:.4g}</b>" in text
    assert f"{accuracy['low']:.4g} to {accuracy['high']:.4g}" in text


def test_the_report_of_a_folder(tmp_path):
    stored(tmp_path, name="c")
    write_report(tmp_path, tmp_path / "report.html")
    assert re.search("<title>c.csv: held-out</title>", (tmp_path / "report.html").read_text())
    with pytest.raises(InputError, match="no evaluation 'other'; it has held-out"):
        write_report(tmp_path, tmp_path / "report.html", "other")


def test_nothing_to_report(tmp_path):
    Run("table", "data.csv", ["a", "b"], 10, {"seed": 0}, target="kind").write(tmp_path)
    with pytest.raises(InputError, match="no evaluation to report"):
        write_report(tmp_path, tmp_path / "report.html")


def test_a_damaged_evaluation_is_named(tmp_path):
    stored(tmp_path, name="c")
    (tmp_path / "evaluations" / "held-out.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"held-out is damaged.*Evaluate again"):
        write_report(tmp_path, tmp_path / "report.html")

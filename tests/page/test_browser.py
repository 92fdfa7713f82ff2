"""The page in a real browser: no errors, charts are drawn, controls work, it fits a phone."""

import os
import shutil

import pytest

from felbo.page import write_report

from .stored import stored

BROWSER = os.environ.get("FELBO_CHROMIUM") or shutil.which("chromium")
ABSENT = "no browser: install chromium, or set FELBO_CHROMIUM to its path"

pytestmark = pytest.mark.skipif(BROWSER is None, reason=ABSENT)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    stored(folder)
    write_report(folder, folder / "report.html")
    return (folder / "report.html").as_uri()


WIDTHS = [390, 820, 1280]


@pytest.fixture(params=WIDTHS)
def opened(request, browser, address):
    """The page at one width, with everything that went wrong."""
    context = browser.new_context(viewport={"width": request.param, "height": 900}, offline=True)
    tab = context.new_page()
    wrong, asked = [], []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("dialog", lambda dialog: wrong.append(dialog.message))
    tab.on("request", lambda sent: asked.append(sent.url))
    tab.goto(address)
    tab.wait_for_selector("#chart-risk .main-svg", timeout=120_000)
    yield tab, request.param, wrong, asked
    context.close()


def test_the_page(opened):
    tab, width, wrong, asked = opened
    assert wrong == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("risk", "reliability", "confidence", "epistemic", "confusion", "training"):
        box = tab.locator(f"#chart-{name} .main-svg").first.bounding_box()
        assert box["width"] > 200
        assert box["x"] + box["width"] <= width

    before = tab.text_content("#answer")
    assert "Accepting" in before
    tab.locator("#share").fill("20")
    assert tab.text_content("#answer") != before
    tab.locator("#score").select_option("precision")
    assert "precision ≥" in tab.text_content("#answer")

    colour = "getComputedStyle(document.body).backgroundColor"
    ink = "document.querySelector('#chart-risk .xtick text').style.fill"
    light = tab.evaluate(colour), tab.evaluate(ink)
    tab.click("#theme")
    dark = tab.evaluate(colour), tab.evaluate(ink)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert wrong == []


@pytest.mark.parametrize("width", WIDTHS)
def test_long_names_leave_room_for_the_charts(width, browser, tmp_path):
    names = [f"the class of all things number {place}" for place in range(20)]
    stored(tmp_path, name="a set of rows from a place far away", classes=names)
    write_report(tmp_path, tmp_path / "report.html")
    tab = browser.new_page(viewport={"width": width, "height": 900})
    tab.goto((tmp_path / "report.html").as_uri())
    tab.wait_for_selector("#chart-training .main-svg", timeout=120_000)

    def box(selector):
        return tab.locator(selector).first.bounding_box()

    for name in ("risk", "confidence", "epistemic", "training"):
        legend, area = box(f"#chart-{name} .legend"), box(f"#chart-{name} .nsewdrag")
        assert legend["y"] + legend["height"] <= area["y"] + 1, name
    matrix = box("#chart-confusion .nsewdrag")
    assert min(matrix["width"], matrix["height"]) > 200
    named = box("#chart-confusion .yaxislayer-above")
    assert box("#chart-confusion .ytitle")["x"] < named["x"]
    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    table = "document.querySelectorAll('.card .wide')"
    hidden = f"[...{table}].map(each => each.scrollWidth - each.clientWidth)"
    assert max(tab.evaluate(hidden)) <= 1
    tab.close()

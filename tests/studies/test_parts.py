"""The price of parts of the points elsewhere: the mixtures compared, and what a cell holds."""

from felbo.measurement import Elsewhere
from felbo.studies import parts

SETTINGS = parts.STUDY.presets["smoke"].settings


def kinds(measurement_sets):
    return [type(part) for part in measurement_sets]


def test_the_recommended_mixtures_are_the_defaults_of_elsewhere():
    defaults = Elsewhere()
    assert kinds(parts.image_mixtures()["recommended"]) == kinds(defaults._of_images)
    assert kinds(parts.table_mixtures()["recommended"]) == kinds(defaults._of_tables)


def test_each_part_of_the_images_is_left_out_once():
    mixtures = parts.image_mixtures()
    whole = set(kinds(mixtures["recommended"]))
    left_out = [whole - set(kinds(m)) for n, m in mixtures.items() if n.startswith("without")]
    assert sorted(part.__name__ for (part,) in left_out) == sorted(p.__name__ for p in whole)


def test_a_cell_has_the_price_of_one_mixture():
    found = {o.metric: o.value for o in parts.run("iris, recommended", 0, SETTINGS)}
    assert set(found) == {"nats", "points", "ece", "auroc"}
    assert 0.0 <= found["auroc"] <= 1.0


def test_the_figure_is_drawn(tmp_path):
    from felbo.paper.results import Raw, summarise

    rows = [
        Raw("parts_elsewhere", "nats", f"iris, {name}", 0.0, 0, value)
        for name, value in (("recommended", 0.01), ("without Box", 0.03))
    ]
    parts.draw(summarise(rows), str(tmp_path / "parts"))
    assert (tmp_path / "parts.png").stat().st_size > 5000

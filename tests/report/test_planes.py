import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from felbo.report.planes import CLASS_COLOURS, COLOUR_MAP, draw_planes


def draw(tmp_path, planes, rows):
    return draw_planes(
        planes,
        str(tmp_path / "picture"),
        bounds=[(0.0, 2.0), (0.0, 1.0)],
        points=np.array([[0.5, 0.5], [1.5, 0.5]]),
        labels=np.array([0, 1]),
        columns=["left", "right"],
        rows=rows,
    )


def share_of(image, colour, tolerance=6):
    near = np.abs(image.astype(float) - 255 * np.array(to_rgb(colour))).max(-1) <= tolerance
    return near.mean()


def test_half_is_white_and_the_ends_are_the_colours_of_the_classes():
    assert COLOUR_MAP(0.5)[:3] == pytest.approx((1.0, 1.0, 1.0))
    assert COLOUR_MAP(0.0)[:3] == pytest.approx(to_rgb(CLASS_COLOURS[0]))
    assert COLOUR_MAP(1.0)[:3] == pytest.approx(to_rgb(CLASS_COLOURS[1]))


def test_the_first_coordinate_runs_to_the_right(tmp_path):
    sure = np.zeros((21, 11))
    sure[10:] = 1.0
    path = draw(tmp_path, [[sure, np.full((21, 11), 0.5)]], rows=["a model"])
    image = np.asarray(Image.open(path).convert("RGB"))
    # The left panel spans less than the left half; its own left half is of class 0.
    columns = image.shape[1]
    assert share_of(image[:, : columns // 5], CLASS_COLOURS[0]) > 0.4
    assert share_of(image[:, : columns // 5], CLASS_COLOURS[1]) < 0.01
    assert share_of(image[:, columns // 4 : 2 * columns // 5], CLASS_COLOURS[1]) > 0.4


def test_labels_are_in_the_svg_and_files_are_small(tmp_path):
    planes = [[np.random.default_rng(0).random((21, 11))] * 2] * 3
    path = draw(tmp_path, planes, rows=["MAP", "MC Dropout", "Ensemble"])
    assert path.stat().st_size < 400_000
    assert path.with_suffix(".svg").read_text().count("<image") >= 6


def test_a_panel_too_few_is_refused(tmp_path):
    with pytest.raises(ValueError, match="argument 2"):
        draw(tmp_path, [[np.zeros((21, 11))]], rows=["MAP"])

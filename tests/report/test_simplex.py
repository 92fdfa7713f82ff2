import numpy as np
import pytest
from scipy.stats import dirichlet

from felbo.report.simplex import CORNERS, SHARES, Triangle, _levels, _mesh, draw_simplex


def test_corners_are_a_triangle_with_equal_sides():
    sides = [np.linalg.norm(CORNERS[i] - CORNERS[i - 1]) for i in range(3)]
    assert sides == pytest.approx([1.0, 1.0, 1.0])


def test_the_mesh_gives_back_where_its_nodes_are():
    mesh, probs = _mesh()
    assert probs.sum(1) == pytest.approx(1.0)
    assert probs @ CORNERS == pytest.approx(np.stack([mesh.x, mesh.y], 1), abs=1e-3)


@pytest.mark.parametrize("alpha", [(40.0, 30.0, 30.0), (2.0, 1.5, 1.5), (24.0, 2.5, 2.5)])
def test_levels_enclose_their_share_of_draws(alpha):
    _, probs = _mesh()
    levels = _levels(dirichlet.pdf(probs.T, alpha))
    draws = np.random.default_rng(0).dirichlet(alpha, 20_000)
    inside = [float((dirichlet.pdf(draws.T, alpha) >= level).mean()) for level in levels]
    assert inside == pytest.approx(SHARES, abs=0.03)


def test_both_files_are_written_with_every_panel(tmp_path):
    rng = np.random.default_rng(0)
    triangles = [
        Triangle(f"panel {i}", rng.dirichlet((3, 2, 1), 10), np.array([3.0, 2.0, 1.5]))
        for i in range(3)
    ]
    path = draw_simplex(triangles, str(tmp_path / "simplex"))
    assert path == tmp_path / "simplex.png"
    assert 10_000 < path.stat().st_size < 400_000
    assert path.with_suffix(".svg").exists()

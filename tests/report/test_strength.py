"""The picture of a sweep names every strength."""

from felbo.report import draw_strength
from felbo.training.strength import StrengthChoice, Trial


def test_every_strength_is_named_and_the_choice_is_the_title(tmp_path):
    trials = tuple(Trial(s, 97.0, -0.1, 0.01, 0.9 + s, 0.4, s / 10, s) for s in (0.0, 0.03, 0.07))
    draw_strength(StrengthChoice(0.03, trials, 0.02, 0.3), str(tmp_path / "sweep"))
    text = (tmp_path / "sweep.svg").read_text()
    assert "Chosen strength: 0.03" in text
    assert text.count(">0.07<") == 2
    assert (tmp_path / "sweep.png").stat().st_size > 5_000

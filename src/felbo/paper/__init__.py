"""The paper's experiments, written with felbo's public API, and the published numbers."""

from felbo.paper.compare import Comparison, compare
from felbo.paper.published import Published, published
from felbo.paper.runner import reproduce
from felbo.paper.study import Claim, Preset, Study

__all__ = [
    "Claim",
    "Comparison",
    "Preset",
    "Published",
    "Study",
    "compare",
    "published",
    "reproduce",
]

"""The order of models in the paper's tables and figures, checked on measured numbers."""

from __future__ import annotations

from collections.abc import Sequence

from felbo.paper.published import published
from felbo.paper.results import Summary
from felbo.paper.study import Claim

SEVERITIES = (3, 4, 5)


def ordered_as_published(
    summaries: Sequence[Summary],
    pairs: Sequence[tuple[str, str]],
    experiment: str,
) -> list[Claim]:
    """Check for pairs of models that the one with the better published log-likelihood has it too.

    Severities 3, 4 and 5 are compared.

    Args:
        summaries: the measured numbers.
        pairs: names of two models; a pair that was not measured or not published is left out.
        experiment: of the paper.
    """
    metric = "log_likelihood"
    paper = {(p.model, p.shift): p.mean for p in published(experiment) if p.metric == metric}
    value = {(s.model, s.shift): s.mean for s in summaries if s.metric == metric}
    found = []
    for pair in pairs:
        at = [s for s in SEVERITIES if all((m, s) in paper and (m, s) in value for m in pair)]
        for better, worse in (pair, pair[::-1]):
            where = [s for s in at if paper[better, s] > paper[worse, s]]
            if where:
                holds = all(value[better, s] > value[worse, s] for s in where)
                text = f"{better} has a better log-likelihood than {worse}"
                found.append(Claim(f"{text} at {', '.join(f'{s:g}' for s in where)}", holds))
    return found

"""Terms of the recommended bound: a weak prior on the data, a strong one elsewhere."""

from __future__ import annotations

from felbo.errors import SettingError
from felbo.measurement import Batch, Elsewhere, MeasurementLike, MeasurementSet, as_measurement_set
from felbo.objectives.checks import check_weight

# Weights of the KL at points elsewhere and on the batch; docs/elsewhere.md says what they cost.
STRENGTH = 0.03
DATA_STRENGTH = 0.001


def everywhere_sets(
    strength: float,
    data_strength: float,
    measurement: MeasurementLike | None = None,
) -> list[tuple[MeasurementSet, float]]:
    """Return the measurement sets of :meth:`FunctionSpaceELBO.everywhere` with their weights.

    Sets of weight zero are omitted, so that their points are not computed.

    Example:
        >>> [(type(place).__name__, weight) for place, weight in everywhere_sets(0.1, 0.001)]
        [('Batch', 0.001), ('Elsewhere', 0.1)]
    """
    check_weight("strength", strength)
    check_weight("data_strength", data_strength)
    if not strength and not data_strength:
        raise SettingError(
            "strength and data_strength are both 0, which leaves no prior at all; for "
            "cross-entropy alone use felbo.NegativeLogLikelihood()."
        )
    elsewhere = Elsewhere() if measurement is None else as_measurement_set(measurement)
    if elsewhere.includes_batch:
        raise SettingError(
            "measurement must have points other than the batch, whose weight is data_strength, "
            "but this set includes the batch. Remove Batch() from it."
        )
    return [
        (place, weight)
        for place, weight in ((Batch(), data_strength), (elsewhere, strength))
        if weight
    ]

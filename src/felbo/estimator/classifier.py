"""A scikit-learn classifier that knows what it does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from sklearn.base import BaseEstimator

from felbo.estimator.building import MakeNetwork
from felbo.estimator.fitting import FittingMixin
from felbo.estimator.predicting import PredictingMixin
from felbo.measurement import MeasurementSet


class FunctionSpaceClassifier(FittingMixin, PredictingMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier for tables whose predictions are unsure where there are no data.

    It minimises the function-space bound on standardised features,

    ``mean −log f_y + data_strength · KL on the rows + strength · KL around them``

    where each KL compares the predictions with a prior over predictions (see
    :class:`felbo.FunctionSpaceELBO`). Of the points around the rows, half lie in a box of eight
    standard deviations to either side, outside of four (:class:`felbo.measurement.Box`), and half
    on lines through two rows, two to three times the range of the rows beyond them
    (:class:`felbo.measurement.Beyond`). The weights are the mean over the last third of the epochs.

    Args:
        model: ``"ensemble"``, ``"map"``, ``"mc-dropout"``, ``"mean-field"``, ``"radial"`` or
            ``"rank1"``. A map model is one network, and has no epistemic uncertainty.
        prior: ``"uniform"``; a function from points ``[S, D]`` in the units of the table to a
            Dirichlet, such as ``felbo.DirichletPrior([1, 2])``; or a fitted classifier with
            ``predict_proba``, as ``sklearn.frozen.FrozenEstimator(it)`` where this one is cloned.
        hidden: widths of the hidden layers of a perceptron.
        network: another network, as a function ``(inputs, classes) -> nn.Module`` that builds one.
        members: networks of an ensemble, members of a rank-1 model, or draws per training step.
        epochs: passes over the rows, at most.
        batch_size: rows per step at most; ``None`` takes all in each step.
        learning_rate: of Adam.
        weight_decay: L2 penalty of the weights in Adam.
        strength: weight of the prior at the points of ``measurement``.
        data_strength: weight of the prior at the rows themselves.
        measurement: ``"elsewhere"``, in a box around the rows and beyond them, as above; ``"box"``
            alone, of six deviations, which does not see rows that move as correlated columns do;
            ``"batch"``, the rows; or a measurement set or function from the features of a batch to
            points, which are standardised and one-hot.
        preprocessing: ``"auto"`` standardises numbers, fills in missing ones with the median of
            the column and encodes the categories of a DataFrame; ``None`` takes numbers as is.
        early_stopping: find out with some rows held out after how many epochs the bound on them is
            highest, then train anew on all rows for as many. Where fewer than 200 are held out,
            by the mean over several splits, as in cross-validation; where fewer than ten, train for
            all ``epochs``.
        calibrate: where several splits can hold out 1000 rows in all, take as many of them for
            early stopping, and divide the logits by the temperature that fits these rows. Tables of
            1000 to 5000 rows then take two to five times as long. Without early stopping there is
            no temperature.
        validation_fraction: share of the rows to hold out in a split.
        patience: epochs without a rise of that bound before the search ends.
        random_state: seed, or a source of one, of all that is random.
        device: that Lightning Fabric knows: ``"cpu"``, ``"cuda"``, ``"mps"`` or ``"auto"``.
        verbose: whether to show a progress bar.

    Attributes:
        classes_: labels, in the order of the columns of ``predict_proba``.
        n_features_in_: D.
        feature_names_in_: names of the columns of a DataFrame.
        n_iter_: epochs of the model so far.
        loss_curve_: mean loss of each epoch.
        validation_scores_: with early stopping, the bound on the rows held out, by epoch of the
            search, as a mean over the splits.
        temperature_: that the logits are divided by; 1 without calibration.
        learner_: ``learner_.model`` is the trained model, with the temperature, and
            ``learner_.table`` the preprocessing.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> classifier = FunctionSpaceClassifier(epochs=30, random_state=0).fit(X, y)
        >>> classifier.predict_dirichlet(X[:2]).shape
        (2, 3)
        >>> far = X + 5 * X.std(0)
        >>> near, far = (classifier.uncertainty(rows, "epistemic").mean() for rows in (X, far))
        >>> bool(far > 2 * near)
        True
    """

    def __init__(
        self,
        model: str = "ensemble",
        prior: Any = "uniform",
        *,
        hidden: Sequence[int] = (50, 50),
        network: MakeNetwork | None = None,
        members: int = 5,
        epochs: int = 100,
        batch_size: int | None = 32,
        learning_rate: float = 0.003,
        weight_decay: float = 0.0,
        strength: float = 0.06,
        data_strength: float = 0.0,
        measurement: str | MeasurementSet | Callable[..., Any] = "elsewhere",
        preprocessing: Literal["auto"] | None = "auto",
        early_stopping: bool = True,
        calibrate: bool = True,
        validation_fraction: float = 0.2,
        patience: int = 20,
        random_state: Any = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.prior = prior
        self.hidden = hidden
        self.network = network
        self.members = members
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.strength = strength
        self.data_strength = data_strength
        self.measurement = measurement
        self.preprocessing = preprocessing
        self.early_stopping = early_stopping
        self.calibrate = calibrate
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @property
    def temperature_(self) -> float:
        """Temperature that the logits of the trained model are divided by."""
        return self.learner_.temperature

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.preprocessing == "auto"
        return tags

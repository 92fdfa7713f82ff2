"""A classifier that is soon trained."""

from felbo.estimator import FunctionSpaceClassifier


def quick(**settings):
    """Without the search for the number of epochs, which takes five further trainings."""
    short = {"epochs": 10, "members": 3, "hidden": (20,), "learning_rate": 0.02}
    short |= {"early_stopping": False, "random_state": 0}
    return FunctionSpaceClassifier(**short | settings)

"""A classifier that is soon trained."""

from felbo.estimator import FunctionSpaceClassifier


def quick(**settings):
    """Without the search for the number of epochs, which takes five further trainings."""
    short = {"epochs": 10, "members": 3, "hidden": (20,), "learning_rate": 0.02}
    short |= {"early_stopping": False, "random_state": 0}
    return FunctionSpaceClassifier(**short | settings)


class Killed(BaseException):
    """Stands for the end of the process."""


def killing_points():
    """Return points of a prior that end the process, and a list with the number of calls left."""
    left = [0]

    def points(x):
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        return 3 * x

    return points, left

"""scikit-learn: a function-space classifier in a Pipeline, tuned by GridSearchCV.

    python examples/scikit_learn.py

Chooses the strength of the prior by cross-validated log-likelihood on the breast cancer data, then
prints the accuracy on test rows, and on those that are left if the model abstains from the fifth
that it is least sure of.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import felbo


def main(epochs: int = 30, strengths: tuple[float, ...] = (0.003, 0.03, 0.3)) -> dict[str, float]:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
    # Fixed epochs: otherwise every fit would look for their number on splits of its own.
    classifier = felbo.FunctionSpaceClassifier(epochs=epochs, early_stopping=False, random_state=0)
    pipeline = Pipeline(
        [
            ("scale", StandardScaler()),
            ("components", PCA(10)),
            ("classify", classifier),
        ]
    )
    grid = {"classify__strength": list(strengths)}
    search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=3).fit(X_train, y_train)
    best = search.best_estimator_

    right = best.predict(X_test) == y_test
    doubt = best[-1].uncertainty(best[:-1].transform(X_test), "total")
    sure = doubt <= np.quantile(doubt, 0.8)
    found = {
        "strength": search.best_params_["classify__strength"],
        "cross-validated log-likelihood": search.best_score_,
        "accuracy on all test rows, %": 100 * right.mean(),
        "accuracy on the surest 80 %": 100 * right[sure].mean(),
    }
    for name, value in found.items():
        print(f"{name:32} {value:7.3f}")
    return found


if __name__ == "__main__":
    main()

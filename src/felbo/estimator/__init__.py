"""A scikit-learn classifier with a prior over its predictions."""

from felbo.estimator.classifier import FunctionSpaceClassifier

__all__ = ["FunctionSpaceClassifier"]

"""A fitted :class:`felbo.FunctionSpaceClassifier` as JSON and tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.optim import Optimizer

from felbo.estimator import FunctionSpaceClassifier
from felbo.estimator.building import make_optimizer
from felbo.estimator.learner import Learner
from felbo.saving.models import Networks, build_model, describe_model
from felbo.saving.tables import build_table, describe_table
from felbo.saving.values import pack, pack_array, unpack, unpack_array

_MODEL, _OPTIMIZER = "model.", "optimizer."


class NotSaved:
    """Stands for a parameter of the constructor that no file can hold, such as a function.

    Predictions do not need it. Training on does: ``classifier.set_params(name=...)`` sets it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name} was not saved; set it with set_params({self.name}=...)>"


def describe_classifier(
    classifier: FunctionSpaceClassifier,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return JSON and tensors of a fitted classifier."""
    check_is_fitted(classifier)
    learner = classifier.learner_
    steps, groups = _describe_optimizer(learner.optimizer)
    found = {
        "parameters": {k: _pack_parameter(v) for k, v in classifier.get_params(False).items()},
        "classes": pack_array(classifier.classes_),
        "features": classifier.n_features_in_,
        "names": _names(classifier),
        "validation_scores": [float(score) for score in _scores(classifier)],
        "losses": learner.losses,
        "seed": learner.seed,
        "num_data": learner.num_data,
        "table": describe_table(learner.table),
        "model": describe_model(learner.model),
        "optimizer": groups,
    }
    weights = {f"{_MODEL}{name}": part for name, part in learner.model.state_dict().items()}
    return found, weights | steps


def build_classifier(
    found: dict[str, Any], tensors: dict[str, Tensor], networks: Networks | None
) -> FunctionSpaceClassifier:
    """Return the classifier that was described."""
    parameters = {k: _unpack_parameter(k, v) for k, v in found["parameters"].items()}
    classifier = FunctionSpaceClassifier(**parameters)
    model = build_model(found["model"], _within(tensors, _MODEL), networks)
    # Trained in float32, of which the moments are, and saved in float64, in which it predicts.
    optimizer = make_optimizer(model.float(), 1.0, 0.0)
    _load_optimizer(optimizer, _within(tensors, _OPTIMIZER), found["optimizer"])
    model.double()
    classifier.learner_ = Learner(
        table=build_table(found["table"]),
        model=model,
        optimizer=optimizer,
        seed=found["seed"],
        num_data=found["num_data"],
        losses=found["losses"],
    )
    classifier.classes_ = unpack_array(found["classes"])
    classifier.n_features_in_ = found["features"]
    if found["names"] is not None:
        classifier.feature_names_in_ = np.array(found["names"], dtype=object)
    classifier.n_iter_, classifier.loss_curve_ = len(found["losses"]), found["losses"]
    if found["validation_scores"]:
        classifier.validation_scores_ = found["validation_scores"]
    return classifier


def _names(classifier: FunctionSpaceClassifier) -> list[str] | None:
    names = vars(classifier).get("feature_names_in_")
    return None if names is None else [str(name) for name in names]


def _scores(classifier: FunctionSpaceClassifier) -> list[float]:
    return list(vars(classifier).get("validation_scores_", []))


def _pack_parameter(value: Any) -> dict[str, Any]:
    try:
        if isinstance(value, list | tuple):
            return {"list": [pack(part) for part in value]}
        return {"value": pack(value)}
    except TypeError:
        return {}


def _unpack_parameter(name: str, packed: dict[str, Any]) -> Any:
    if "list" in packed:
        return tuple(unpack(part) for part in packed["list"])
    return unpack(packed["value"]) if "value" in packed else NotSaved(name)


def _within(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): part for n, part in tensors.items() if n.startswith(prefix)}


def _describe_optimizer(optimizer: Optimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Return the moments of Adam by parameter, and its settings."""
    state = optimizer.state_dict()
    moments = {
        f"{_OPTIMIZER}{index}.{name}": torch.as_tensor(value)
        for index, parts in state["state"].items()
        for name, value in parts.items()
    }
    groups = [{k: _pack_parameter(v) for k, v in g.items()} for g in state["param_groups"]]
    return moments, groups


def _load_optimizer(
    optimizer: Optimizer, moments: dict[str, Tensor], groups: list[dict[str, Any]]
) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in moments.items():
        index, _, part = name.partition(".")
        state.setdefault(int(index), {})[part] = value
    settings = [{k: _unpack_parameter(k, v) for k, v in group.items()} for group in groups]
    for group in settings:
        group["params"] = list(group["params"])
    optimizer.load_state_dict({"state": state, "param_groups": settings})

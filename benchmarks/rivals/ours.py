"""felbo: fine-tuning of the trained network, and training from scratch with a prior elsewhere."""

from __future__ import annotations

import felbo
from benchmarks.rivals.plain import MEMBERS
from benchmarks.rivals.task import (
    BATCH_SIZE,
    CLASSES,
    EPOCHS,
    LEARNING_RATE,
    Predictor,
    Task,
    answer,
    perceptron,
)


def finetune(task: Task) -> Predictor:
    """Fine-tune the network, as in the README."""
    data = task.digits.train
    return _draws_of(felbo.finetune(task.network, data, seed=task.seed, progress=False))


def everywhere(task: Task) -> Predictor:
    """Train one network from scratch."""
    return _train(felbo.MAP(perceptron()), task)


def ensemble(task: Task) -> Predictor:
    """Train an ensemble from scratch."""
    return _train(felbo.Ensemble(perceptron, members=MEMBERS), task)


def _train(model: felbo.StochasticClassifier, task: Task) -> Predictor:
    data = task.digits.train
    prior = felbo.UniformPrior(CLASSES)
    felbo.fit(
        model,
        felbo.FunctionSpaceELBO.everywhere(prior, num_data=len(data[0])),
        data,
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        seed=task.seed,
        progress=False,
    )
    return _draws_of(model.eval())


def _draws_of(model: felbo.StochasticClassifier) -> Predictor:
    return lambda x: answer(model(x, model.evaluation_samples).softmax(-1))

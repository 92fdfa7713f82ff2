"""The Lightning Trainer: validation, the best checkpoint, and predictions that know their limits.

    python examples/lightning_trainer.py

Trains an ensemble on digits with `felbo.lightning.FunctionSpaceModule`, reloads the epoch with the
best validation likelihood, and prints the scores on test images and how unsure the model is about
their negatives, which it has never seen.
"""

from __future__ import annotations

import tempfile

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import felbo


def data() -> list[tuple[Tensor, Tensor]]:
    """Return images and labels for training, validation and test."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 8 - 1, dtype=torch.float32), torch.tensor(labels)
    rest, x_test, y_rest, y_test = train_test_split(x, y, test_size=0.3, random_state=0)
    x, x_held_out, y, y_held_out = train_test_split(rest, y_rest, test_size=0.2, random_state=0)
    return [(x, y), (x_held_out, y_held_out), (x_test, y_test)]


def make_model() -> felbo.Ensemble:
    return felbo.Ensemble(lambda: felbo.networks.mlp(64, (50,), 10), members=5)


def main(epochs: int = 20, folder: str | None = None) -> dict[str, float]:
    pl.seed_everything(0, verbose=False)
    train, held_out, (x_test, y_test) = data()
    objective = felbo.FunctionSpaceELBO.everywhere(felbo.UniformPrior(10), num_data=len(train[0]))
    module = felbo.lightning.FunctionSpaceModule(make_model(), objective, learning_rate=3e-3)

    best = ModelCheckpoint(folder or tempfile.mkdtemp(), monitor="val_nll")
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[best],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    trainer.fit(module, loader, DataLoader(TensorDataset(*held_out), batch_size=256))

    module = felbo.lightning.FunctionSpaceModule.load_from_checkpoint(
        best.best_model_path, model=make_model(), objective=objective
    )
    batches = trainer.predict(module, DataLoader(TensorDataset(x_test), batch_size=256))
    prediction = felbo.Prediction.concatenate(batches)
    negatives = felbo.predict(module.model, -x_test)
    scores = felbo.score(prediction, y_test)
    found = {
        "validation nll": best.best_model_score.item(),
        "accuracy": scores.accuracy,
        "log-likelihood": scores.log_likelihood,
        "epistemic, test images": prediction.epistemic.mean().item(),
        "epistemic, negatives": negatives.epistemic.mean().item(),
    }
    for name, value in found.items():
        print(f"{name:24} {value:7.3f}")
    return found


if __name__ == "__main__":
    main()

"""A training loop of one's own around `felbo.train`: log, average, save and stop in plain Python.

python examples/plain_loop.py
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import felbo


def main(epochs: int = 30, path: str | None = None) -> tuple[felbo.History, felbo.Prediction]:
    felbo.seed_everything(0)
    images, labels = load_digits(return_X_y=True)
    images = images.astype("float32") / 8 - 1
    rest, x_test, rest_labels, y_test = train_test_split(images, labels, random_state=0)
    x, x_held_out, y, y_held_out = train_test_split(rest, rest_labels, random_state=0)

    model = felbo.MCDropout(felbo.networks.mlp(64, (50,), 10), rate=0.2)
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=len(x))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    history = felbo.History()
    trained = felbo.train(
        model,
        objective,
        (x, y),
        epochs=epochs,
        learning_rate=3e-3,
        clip_norm=5.0,
        validation=(x_held_out, y_held_out),
        seed=0,
    )
    for epoch in trained:
        history.append(epoch)
        average.update_parameters(model)
        print(f"epoch {epoch.number}: {epoch}")
        if epoch.validation.accuracy > 97:
            break

    prediction = felbo.predict(average, x_test, num_data=len(x), seed=0)
    scores = felbo.score(prediction, y_test)
    print(f"average: accuracy {scores.accuracy:.1f} %, log-likelihood {scores.log_likelihood:.3f}")
    print(prediction)
    if path is not None:
        prediction.save(path)
    return history, prediction


if __name__ == "__main__":
    main()

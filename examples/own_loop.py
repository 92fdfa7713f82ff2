"""felbo in a custom training loop: only the loss changes.

python examples/own_loop.py
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

import felbo


def main(epochs: int = 20) -> felbo.Scores:
    felbo.seed_everything(0)
    digits = load_digits()
    x = torch.tensor(digits.data / 8 - 1, dtype=torch.float32)
    y = torch.tensor(digits.target)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.3, random_state=0)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=64, shuffle=True)

    network = torch.nn.Sequential(torch.nn.Linear(64, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
    model = felbo.MCDropout(network, rate=0.2)
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=len(x_train))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    model.train()
    for epoch in range(epochs):
        for inputs, labels in loader:
            loss = objective(model, inputs, labels)
            optimizer.zero_grad()
            loss.total.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: nll {loss.nll:.3f}, kl {loss.kl:.2f}")

    scores = felbo.score(felbo.predict(model, x_test, seed=0).probs, y_test)
    print(f"accuracy {scores.accuracy:.1f} %, log-likelihood {scores.log_likelihood:.3f}")
    return scores


if __name__ == "__main__":
    main()

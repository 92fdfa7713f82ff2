"""Draw the points that each measurement set makes from eight images of CIFAR-10.

python examples/points_elsewhere.py
"""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

import felbo
from felbo import dirichlet
from felbo.measurement import Comparison, MeasurementSet, Mosaic, WorstCase, image_parts


def comparison_for(images: Tensor, labels: Tensor, epochs: int) -> Comparison:
    """Train a small network; return it with its divergence from the uniform prior."""
    classes, num_data = 10, len(images)
    model = felbo.MAP(felbo.networks.mlp(images[0].numel(), (100,), classes))
    felbo.fit(model, felbo.NegativeLogLikelihood(), (images, labels), epochs=epochs)

    def divergence(points: Tensor) -> Tensor:
        probs = dirichlet.smooth(model(points, 1).softmax(-1), 1e-4)
        posterior = num_data * probs.detach()[0]
        prior = torch.ones_like(posterior)
        return (dirichlet.log_prob(probs, posterior) - dirichlet.log_prob(probs, prior))[0]

    return Comparison(model, divergence)


def draw(rows: dict[str, Tensor], path: str) -> None:
    """Draw one row of images for each set; pixels are clipped to the valid range."""
    count, margin = len(next(iter(rows.values()))), 1.7
    width, height = margin + 0.8 * count, 0.8 * len(rows)
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(margin / width, 0.0, 1.0, 1.0, wspace=0.04, hspace=0.04)
    axes = figure.subplots(len(rows), count, squeeze=False)
    for line, (name, points) in zip(axes, rows.items(), strict=True):
        for axis, image in zip(line, points, strict=True):
            pixels = (0.5 + 0.5 * image).clamp(0, 1).movedim(0, -1)
            axis.imshow(pixels.numpy(), interpolation="nearest")
            axis.set_axis_off()
        line[0].text(-0.1, 0.5, name, transform=line[0].transAxes, ha="right", va="center")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def main(
    path: str = "docs/assets/points_elsewhere.png",
    data: tuple[Tensor, Tensor] | None = None,
    epochs: int = 3,
) -> dict[str, Tensor]:
    felbo.seed_everything(0)
    if data is None:
        train = felbo.data.load("cifar10", "train")
        data = train.images[:10_000], train.labels[:10_000]
    images, labels = felbo.data.scale(data[0]), data[1]
    batch = images[:8]
    comparison = comparison_for(images, labels, epochs)
    sets: list[MeasurementSet] = [*image_parts(), Mosaic(), WorstCase()]
    found = {type(part).__name__: part(batch, comparison) for part in sets}
    rows = {"the batch": batch, **found}
    draw(rows, path)
    return rows


if __name__ == "__main__":
    main()

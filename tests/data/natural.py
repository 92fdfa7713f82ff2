"""Images to corrupt, and how to compare the results with those of another computation."""

import numpy as np
import torch

from felbo.data import corrupt


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def natural_images(count, size=32):
    """Images whose spectrum falls like 1 / frequency, channels alike, as photographs have it."""
    random = np.random.default_rng(1)
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(size), np.fft.fftfreq(size)))
    frequency[0, 0] = 1.0
    shared = random.normal(size=(count, 1, size, size))
    own = random.normal(size=(count, 3, size, size))
    field = np.fft.ifft2(np.fft.fft2(shared + 0.3 * own) / frequency).real
    field -= field.mean((2, 3), keepdims=True)
    field /= field.std((1, 2, 3), keepdims=True)
    level = random.uniform(0.35, 0.65, size=(count, 3, 1, 1))
    return torch.from_numpy((np.clip(level + 0.2 * field, 0, 1) * 255).astype(np.uint8))


IMAGES = natural_images(6)
UNIT = IMAGES.numpy().astype(np.float64) / 255.0


def found(corruption, severity, images=IMAGES):
    return corrupt(images, corruption, severity, generator=seeded()).numpy()


def in_bytes(unit):
    """Cut off as the benchmark does; a little is added lest a whole byte comes out too small."""
    return (np.clip(unit, 0.0, 1.0) * 255.0 + 2**-12).astype(np.uint8)


def assert_same(actual, expected, share=0.999):
    """Equal, up to single bytes where float32 and float64 fall on two sides of a whole number."""
    difference = np.abs(actual.astype(int) - expected.astype(int))
    assert difference.max() <= 1
    assert (difference == 0).mean() >= share


def images_last(array):
    return array.transpose(0, 2, 3, 1)

"""Names of the corruptions, as in the published files, and their severities.

Source: D. Hendrycks and T. Dietterich, "Benchmarking Neural Network Robustness to Common
Corruptions and Perturbations", ICLR 2019, https://arxiv.org/abs/1903.12261. All severity constants
in this package are those of the 32 × 32 version of the benchmark, from
`ImageNet-C/create_c/make_cifar_c.py` in https://github.com/hendrycks/robustness.
"""

from difflib import get_close_matches

from felbo.errors import SettingError

__all__ = [
    "BENCHMARK_CORRUPTIONS",
    "CORRUPTIONS",
    "EXTRA_CORRUPTIONS",
    "SEVERITIES",
    "check_names",
]

BENCHMARK_CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
# Published along with the benchmark, for choosing hyperparameters without using its fifteen.
EXTRA_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
CORRUPTIONS = BENCHMARK_CORRUPTIONS + EXTRA_CORRUPTIONS
SEVERITIES = (1, 2, 3, 4, 5)


def check_names(corruption: str, severity: int) -> None:
    """Raise SettingError for a corruption or a severity that the benchmark does not have."""
    if corruption not in CORRUPTIONS:
        near = get_close_matches(str(corruption).lower(), CORRUPTIONS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else f" There are {', '.join(CORRUPTIONS)}."
        raise SettingError(
            f"Expected a corruption out of felbo.data.CORRUPTIONS, but got {corruption!r}.{hint}"
        )
    if not isinstance(severity, int) or severity not in SEVERITIES:
        raise SettingError(f"Expected a severity from 1 to 5 as an int, but got {severity!r}.")

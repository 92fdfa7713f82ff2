import torch

import felbo
from felbo.studies.rivals import NormalisedLogits, energy, smoothed_labels


def test_normalised_logits_have_one_length():
    network = NormalisedLogits(felbo.networks.mlp(3, (8,), 4), temperature=0.04)
    lengths = network(100 * torch.randn(6, 3)).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.full((6,), 25.0))


def test_smoothed_labels_are_a_mixture_with_the_uniform_one():
    model = felbo.MAP(felbo.networks.mlp(3, (8,), 4))
    x, y = torch.randn(6, 3), torch.arange(6) % 4
    logs = model(x)[0].log_softmax(-1)
    expected = -(0.9 * logs[torch.arange(6), y] + 0.1 * logs.mean(-1)).mean()
    torch.testing.assert_close(smoothed_labels(model, x, y).total, expected)


def test_energy_is_minus_the_log_of_the_summed_exponentials():
    model = felbo.MAP(felbo.networks.mlp(3, (8,), 4))
    x = torch.randn(7, 3)
    expected = -model(x)[0].exp().sum(-1).log()
    torch.testing.assert_close(energy(model, x, batch_size=3), expected)

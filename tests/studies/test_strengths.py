"""The sweep of strengths: standardised data, and a price against strength 0."""

import pytest
import torch

from felbo.studies import strengths

SETTINGS = strengths.STUDY.presets["smoke"].settings


@pytest.mark.parametrize(("name", "shape"), [("wine", (178, 13)), ("digits", (1797, 1, 8, 8))])
def test_tables_are_standardised_and_images_lie_in_their_range(name, shape):
    x, y = strengths.data_of(name, 0)
    assert x.shape == shape
    assert len(y) == len(x)
    if name == "wine":
        torch.testing.assert_close(x.mean(0), torch.zeros(13), atol=1e-5, rtol=0)
        torch.testing.assert_close(x.std(0), torch.ones(13))
    else:
        assert (x.min(), x.max()) == (-1.0, 1.0)


def test_a_cell_has_every_strength_and_its_price():
    found = strengths.run("iris", 0, SETTINGS)
    value = {(o.metric, o.shift): o.value for o in found}
    assert {shift for _, shift in value} == {0.0, 0.03}
    assert value["nats", 0.0] == value["points", 0.0] == 0.0
    lost = value["log_likelihood", 0.0] - value["log_likelihood", 0.03]
    assert value["nats", 0.03] == pytest.approx(lost)


def test_coloured_images_have_a_convolutional_network():
    model = strengths.model_of("CIFAR-10", torch.zeros(1), 10)
    assert model(torch.zeros(2, 3, 32, 32)).shape == (1, 2, 10)

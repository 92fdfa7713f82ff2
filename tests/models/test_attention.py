"""Attention, transformers and recurrent layers, whose parts torch does not always call."""

from typing import ClassVar

import pytest
import torch
from torch import nn

from felbo.layers import Rank1Layer
from felbo.models import MAP, Ensemble, MCDropout, MeanField, Radial, Rank1

from .kinds import KINDS, TRAINED, Transformer, X

SEQUENCES = torch.randn(6, 5, 8)


class Attending(nn.Module):
    """Attention, called by position or by keyword, with or without its weights."""

    def __init__(self, dropout=0.0, keywords=False, batch_first=True):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout, batch_first=batch_first)
        self.head = nn.Linear(8, 3)
        self.keywords = keywords
        self.weights = None

    def forward(self, x):
        inputs = {"query": x, "key": x, "value": x} if self.keywords else {}
        y, self.weights = self.attention(*(() if inputs else (x, x, x)), **inputs)
        return self.head(y.mean(1))


class Recurrent(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.lstm = nn.LSTM(8, 6, num_layers=2, dropout=dropout, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


@torch.no_grad()
def draws_of(model, x=SEQUENCES, samples=3):
    return model.eval()(x, samples)


def test_dropout_inside_attention_acts_in_draws_with_its_rate():
    model = MCDropout(Attending(dropout=0.4))
    assert model.is_random
    dropped = []
    for _ in range(50):
        draws_of(model, samples=1)
        dropped.append((model.network.weights == 0).float())
    # Weights are averaged over two heads, and are zero where both are dropped.
    share = torch.stack(dropped).mean().item()
    assert share == pytest.approx(0.4**2, abs=4 * (0.16 * 0.84 / (50 * 6 * 25)) ** 0.5)


@pytest.mark.parametrize("make", [lambda: Attending(dropout=0.4), lambda: Recurrent(0.4)])
def test_dropout_inside_modules_takes_the_rate_that_is_given(make):
    first, second = draws_of(MCDropout(make()), samples=2)
    assert not torch.equal(first, second)
    none = MCDropout(make(), rate=0.0)
    assert not none.is_random
    torch.testing.assert_close(*draws_of(none, samples=2), rtol=0, atol=0)


def test_draws_of_a_transformer_are_distributed_as_in_its_training():
    """Mean and spread of draws in evaluation are those of the plain network in training mode."""
    torch.manual_seed(0)
    network, x = Transformer(dropout=0.3), X[:2]
    with torch.no_grad():
        plain = torch.stack([network.train()(x) for _ in range(600)])
    draws = draws_of(MCDropout(network), x, 600)
    error = (plain.var(0) / 600 + draws.var(0) / 600).sqrt()
    assert ((plain.mean(0) - draws.mean(0)).abs() < 4.5 * error).all()
    torch.testing.assert_close(draws.std(0), plain.std(0), rtol=0.2, atol=0)


@pytest.mark.parametrize("keywords", [True, False])
def test_inserted_dropout_reaches_the_inputs_of_attention_once(keywords):
    model = MCDropout(Attending(keywords=keywords), rate=0.25)
    assert model.without_dropout == ("attention.out_proj",)
    seen = []
    model.network.attention.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(args or tuple(kwargs.values())), with_kwargs=True
    )
    draws_of(model, SEQUENCES.repeat(40, 1, 1), 1)
    ((query, key, value),) = seen
    assert query is key is value
    share = (query == 0).float().mean().item()
    assert share == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / query.numel()) ** 0.5)


def test_inserted_dropout_takes_a_layer_called_by_keyword():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(input=x)

    first, second = draws_of(MCDropout(Named()), torch.randn(6, 8), 2)
    assert not torch.equal(first, second)


def test_a_mask_per_draw_leaves_out_what_cannot_share_it():
    model = MCDropout(Transformer(), mask="draw")
    assert model.without_dropout == ("encoder.layers.0.self_attn",)
    draws = draws_of(model, X[:1].expand(5, 1, 8, 8))
    torch.testing.assert_close(draws, draws[:, :1].expand_as(draws))
    assert not torch.allclose(draws[0], draws[1])


@pytest.mark.parametrize("rate", [None, 0.3])
@pytest.mark.parametrize("make", [lambda: Attending(dropout=0.4), lambda: Recurrent(0.4)])
def test_a_mask_per_draw_is_refused_where_nothing_could_share_it(make, rate):
    with pytest.raises(ValueError, match=r"All dropout .* lies inside .* mask='item'"):
        MCDropout(make(), rate, mask="draw")
    assert not MCDropout(make(), rate=0.0, mask="draw").is_random


@pytest.mark.parametrize("wrap", [Rank1, lambda net: MCDropout(net, 0.1, mask="draw")])
def test_where_the_batch_must_come_first_attention_that_has_it_second_is_refused(wrap):
    with pytest.raises(ValueError, match=r"'attention' has batch_first=False: build it with"):
        wrap(Attending(batch_first=False))


def test_dropout_that_is_switched_off_everywhere_is_refused_unless_a_rate_is_given():
    with pytest.raises(ValueError, match=r"has rate 0.*give the rate"):
        MCDropout(Transformer(dropout=0.0))
    assert MCDropout(Transformer(dropout=0.0), rate=0.1).is_random


@pytest.mark.parametrize("kind", [MeanField, Radial])
def test_projections_of_attention_are_random(kind):
    model = kind(Transformer(), rho=0.0)
    assert "encoder.layers.0.self_attn" in model.converted
    assert "encoder.layers.0.self_attn.out_proj" in model.converted
    weights = model.draw_weights()
    name = "encoder.layers.0.self_attn.in_proj_weight"
    assert not torch.equal(weights[name], model.network.get_parameter(name))
    other = kind(nn.MultiheadAttention(4, 2, kdim=3, vdim=5))
    assert {"q_proj_weight", "k_proj_weight", "v_proj_weight"} <= set(other.draw_weights())


def test_rank1_shares_the_projections_of_attention():
    model = Rank1(Transformer())
    attention = "encoder.layers.0.self_attn"
    assert {attention, f"{attention}.out_proj"} <= set(model.not_converted)
    assert model.converted == ("encoder.layers.0.linear1", "encoder.layers.0.linear2", "head")
    assert isinstance(model.network.encoder.layers[0].linear1, Rank1Layer)


@pytest.mark.filterwarnings("ignore:All .* draws", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_matter_with_or_without_the_fast_path(kind):
    torch.manual_seed(1)
    model = KINDS[kind].limit(Transformer(dropout=0.0)).eval()
    padding = torch.arange(8) >= torch.randint(1, 9, (32, 1))
    tokens = X.squeeze(1)
    slow = model((tokens, padding))
    with torch.no_grad():
        quick = model({"x": tokens + 100.0 * padding.unsqueeze(-1), "padding": padding})
    torch.testing.assert_close(quick, slow, rtol=1e-4, atol=1e-4)


class Merging(nn.Module):
    """Runs a layer on each token by itself, with tokens and batch in one axis."""

    def __init__(self, order):
        super().__init__()
        self.layer, self.head, self.order = nn.Linear(8, 8), nn.Linear(8, 3), order

    def forward(self, x):
        batch, tokens, width = x.shape
        if self.order == "merged":
            y = self.layer(x.reshape(batch * tokens, width)).reshape(batch, tokens, width)
        else:
            y = self.layer(x.transpose(0, 1)).transpose(0, 1)
        return self.head(y.mean(1))


@pytest.mark.parametrize(("order", "rows"), [("merged", (30, 60)), ("sequence first", (5, 5))])
def test_rank1_refuses_networks_that_merge_or_move_the_batch(order, rows):
    model = Rank1(Merging(order), members=2)
    for mode, count, batch in zip((True, False), rows, (6, 12), strict=True):
        with pytest.raises(ValueError, match=rf"received {count} rows .* batch of {batch} items"):
            model.train(mode)(SEQUENCES)
    skipped = Rank1(Merging(order), members=2, skip=("layer",))
    assert skipped(SEQUENCES).shape == (1, 6, 3)


@pytest.mark.parametrize("mode", [True, False])
def test_rank1_refuses_a_moved_batch_that_is_as_long_as_the_sequences(mode):
    square = SEQUENCES[:5] if mode else torch.randn(5, 10, 8)  # 10 rows: 5 items, 2 members
    model = Rank1(Merging("sequence first"), members=2).train(mode)
    with pytest.raises(ValueError, match=r"the network merges another axis .* or moves it"):
        model(square)


class Counting(nn.Flatten):
    """Records the number of items of each call."""

    seen: ClassVar[list[int]] = []

    def forward(self, input):
        self.seen.append(len(input))
        return super().forward(input)


def test_rank1_tries_a_smaller_batch_once_and_leaves_no_trace():
    Counting.seen.clear()
    network = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(5), Counting(), nn.Linear(40, 3))
    model, other = (Rank1(network, members=2) for _ in range(2))
    other._tried = True
    for batch in (SEQUENCES, SEQUENCES[:5], SEQUENCES[:5]):
        found, expected = ((torch.manual_seed(3), m(batch), torch.rand(1)) for m in (model, other))
        assert all(torch.equal(*pair) for pair in zip(found[1:], expected[1:], strict=True))
    assert all(torch.equal(*pair) for pair in zip(model.buffers(), other.buffers(), strict=True))
    assert model.network[1].training
    assert Counting.seen == [6, 6, 5, 4, 5, 5, 5]


@pytest.mark.parametrize("kind", TRAINED)
def test_recurrent_networks_run_in_every_kind(kind):
    model = KINDS[kind].make(lambda: Recurrent(0.1))
    assert draws_of(model, samples=None).shape[1:] == (6, 3)
    model.train()(SEQUENCES).sum().backward()


def test_the_fast_path_stays_where_nothing_is_random():
    network = Transformer()
    for model in (MAP(network), Ensemble.from_networks([network, network])):
        layers = [m for m in model.eval().modules() if isinstance(m, nn.TransformerEncoderLayer)]
        assert not any(layer.training for layer in layers)
    kept = MCDropout(network).eval().network.encoder.layers[0]
    assert kept.training
    assert kept.self_attn.training
    assert not kept.linear1.training

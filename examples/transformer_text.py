"""A Transformer on text: inputs that are dicts of tensors, and a prior at random words.

    python examples/transformer_text.py

Tells from which chapter of Python's own documentation a sentence comes (import system, string
methods, data model, debugger), with and without a prior at sentences of random words. Prints the
accuracy on test sentences, and the confidence on these and on sentences of random words.
"""

from __future__ import annotations

import re
from collections import Counter
from pydoc_data.topics import topics

import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import felbo

CHAPTERS = ("import", "string-methods", "specialnames", "debugger")
LENGTH, VOCABULARY, PADDING, UNKNOWN = 12, 600, 0, 1
Text = dict[str, Tensor]


def sentences(chapter: str) -> list[list[str]]:
    """Return the words of every sentence of a chapter with at least five of them."""
    parts = re.split(r"[.!?:]\s|\n\n", topics[chapter])
    words = [re.findall(r"[a-z]{2,}", part.lower()) for part in parts]
    return [sentence[:LENGTH] for sentence in words if len(sentence) >= 5]


def encode(texts: list[list[str]], numbers: dict[str, int]) -> Text:
    """Return tokens ``[B, L]`` and a mask ``[B, L]`` that is True at words."""
    tokens = torch.full((len(texts), LENGTH), PADDING)
    for row, words in zip(tokens, texts, strict=True):
        row[: len(words)] = torch.tensor([numbers.get(word, UNKNOWN) for word in words])
    return {"tokens": tokens, "mask": tokens != PADDING}


def data(limit: int) -> tuple[Text, Tensor, Text, Tensor]:
    texts = [(text, label) for label, c in enumerate(CHAPTERS) for text in sentences(c)[:limit]]
    train, test = train_test_split(texts, test_size=0.25, random_state=0)
    common = Counter(word for text, _ in train for word in text).most_common(VOCABULARY - 2)
    numbers = {word: index + 2 for index, (word, _) in enumerate(common)}
    x, x_test = (encode([text for text, _ in part], numbers) for part in (train, test))
    y, y_test = (torch.tensor([label for _, label in part]) for part in (train, test))
    return x, y, x_test, y_test


class Transformer(nn.Module):
    """Logits of a sentence, from the mean over its words."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width, padding_idx=PADDING)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(CHAPTERS))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Map tokens and mask ``[B, L]`` to logits ``[B, K]``."""
        hidden = self.encoder(self.words(tokens) + self.places, src_key_padding_mask=~mask)
        weight = mask.unsqueeze(-1) / mask.sum(1)[:, None, None]
        return self.head((weight * hidden).sum(1))


def random_words(x: Text) -> Text:
    """Replace every word by a random one."""
    words = torch.randint_like(x["tokens"], UNKNOWN + 1, VOCABULARY)
    return {"tokens": torch.where(x["mask"], words, PADDING), "mask": x["mask"]}


def main(epochs: int = 15, limit: int = 500) -> dict[str, list[float]]:
    x, y, x_test, y_test = data(limit)
    classes, num_data = len(CHAPTERS), len(y)
    objectives = {
        "no prior": felbo.NegativeLogLikelihood(),
        "prior at random words": felbo.FunctionSpaceELBO.everywhere(
            felbo.UniformPrior(classes), num_data, measurement=random_words
        ),
    }
    print(f"{num_data} sentences\n{'':24}accuracy   confidence: sentences   random words")
    found = {}
    for name, objective in objectives.items():
        felbo.seed_everything(0)
        model = felbo.MCDropout(Transformer())
        felbo.fit(
            model, objective, (x, y), epochs=epochs, learning_rate=3e-3, seed=0, progress=False
        )
        prediction = felbo.predict(model, x_test, seed=0)
        felbo.seed_everything(1)
        elsewhere = felbo.predict(model, random_words(x_test), seed=0)
        accuracy = felbo.score(prediction, y_test).accuracy
        sure, away = prediction.confidence.mean().item(), elsewhere.confidence.mean().item()
        print(f"{name:24}{accuracy:6.1f} % {sure:24.3f} {away:14.3f}")
        found[name] = [accuracy, sure, away]
    return found


if __name__ == "__main__":
    main()

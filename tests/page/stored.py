"""A run and its evaluation, made by hand."""

import numpy as np
import torch

import felbo
from felbo.workflow.evaluating import evaluated
from felbo.workflow.folder import MODEL, Run

NASTY = "<script>alert('x')</script>&\"\u2028"


def columns(size, sure, seed=0, classes=3):
    generator = torch.Generator().manual_seed(seed)
    draws = (sure * torch.randn(5, size, classes, generator=generator)).softmax(-1)
    return felbo.predict(draws, num_data=100)


def stored(folder, name=NASTY, picture=None, random=True, classes=("a", "b", None)):
    """Write a run of sixty items with labels that would break a careless page.

    The class ``None`` gets the name.
    """
    size = len(classes)
    labels = np.arange(60) % size
    show = {"file": name, "picture": picture} if picture else {"row": 1, "values": {name: name}}
    draws = columns(60, 2.0, classes=size)
    if not random:
        draws = felbo.predict(draws.probs[None])
    elsewhere = {"far " + name: [columns(40, 0.3, 1, size) if random else draws]}
    found = evaluated("held-out", [draws], labels, elsewhere, lambda row: show, seed=0)
    found.write(folder)
    run = Run(
        kind="table",
        source=f"data/{name}.csv",
        target=name,
        classes=[label or name for label in classes],
        num_data=100,
        settings={"seed": 0, "model": "ensemble", "drop": [name]},
        history={"loss": [1.0, 0.5], "validation": [-1.0, -0.6]},
        notes=[name],
    )
    run.write(folder)
    (folder / MODEL).touch()
    return run, found

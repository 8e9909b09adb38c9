"""How to train: the paper's settings, and what keeps the network from learning patients by heart."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dynamask_mlflow._settings import Positive, Settings

Dropped = Annotated[float, Field(ge=0, lt=1)]


class TrainConfig(Settings):
    """Settings of `fit`. The network, the optimiser and its step size are the paper's.

    >>> TrainConfig(units=64).to_dict()["units"]
    64
    """

    units: Positive = 200
    """GRU cells in the one layer."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Of Adam."""
    epochs: Positive = 80
    """At most so many."""
    patience: Positive = 5
    """Stop after so many epochs without a better validation loss, and go back to the best."""
    batch_size: Positive = 64
    """Stays a step."""
    dropout: Dropped = 0.3
    """Share of the last hidden state that is dropped in training."""
    channel_dropout: Dropped = 0.2
    """Share of the channels replaced by their mean in training, drawn for each stay."""
    weight_decay: float = 0.0
    """Of Adam."""
    seed: int = 0
    """Of the weights, the order of the stays and the dropouts."""
    threads: int | None = 1
    """Of torch; None leaves them as they are. One is enough for steps as small as a GRU's, and the only number that
    does not crawl where cores are shared."""

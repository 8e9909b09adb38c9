"""How to train: the paper's settings, and what keeps the network from learning patients by heart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from dynamask_mlflow.masks.config import reject_unknown_keys


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of `fit`. The network, the optimiser and its step size are the paper's.

    Attributes:
        units: GRU cells in the one layer.
        learning_rate: of Adam.
        epochs: at most so many.
        patience: stop after so many epochs without a better validation loss, and go back to the best.
        batch_size: stays a step.
        dropout: share of the last hidden state that is dropped in training.
        channel_dropout: share of the channels replaced by their mean in training, drawn for each stay.
        weight_decay: of Adam.
        seed: of the weights, the order of the stays and the dropouts.
        threads: of torch; None leaves them as they are. One is enough for steps as small as a GRU's, and the only
            number that does not crawl where cores are shared.
    """

    units: int = 200
    learning_rate: float = 1e-3
    epochs: int = 80
    patience: int = 5
    batch_size: int = 64
    dropout: float = 0.3
    channel_dropout: float = 0.2
    weight_decay: float = 0.0
    seed: int = 0
    threads: int | None = 1

    def __post_init__(self) -> None:
        for name in ("units", "epochs", "patience", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"Expected {name} of at least 1, but got {getattr(self, name)}.")
        for name in ("dropout", "channel_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"Expected {name} in [0, 1), but got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise ValueError(f"Expected learning_rate > 0, but got {self.learning_rate}.")

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> Self:
        reject_unknown_keys(cls, options)
        return cls(**options)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

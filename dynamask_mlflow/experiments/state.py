"""The state experiment (section 3.2): a hidden Markov chain decides which of two features the label obeys."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dynamask_mlflow.experiments.cache import cached_model
from dynamask_mlflow.experiments.models import build_model
from dynamask_mlflow.experiments.training import Training, accuracy, seeded, train_classifier

MEANS = np.array([[0.1, 1.6, 0.5], [-0.1, -0.4, -1.5]])
COVARIANCES = np.array(
    [
        [[0.8, 0.0, 0.0], [0.0, 0.8, 0.01], [0.0, 0.01, 0.8]],
        [[0.8, 0.01, 0.0], [0.01, 0.8, 0.0], [0.0, 0.0, 0.8]],
    ]
)


@dataclass(frozen=True, kw_only=True)
class StateSetting:
    """The appendix's setting, and where its text cannot be meant.

    Attributes:
        stay: probability of keeping the state from one step to the next. None takes the appendix's
            transition matrix [[.1, .9], [.1, .9]] to the letter; both its rows are equal, so the state
            would have no memory at all and no model could infer it from the past: a misprint. .95 is what
            the released code draws from.
        label_scale: s in P(y_t = 1) = sigmoid(s x_t,1+s_t); the text has 1, the released code 2.
    """

    series: int = 1000
    train: int = 800
    steps: int = 200
    stay: float | None = 0.95
    label_scale: float = 1.0
    hidden: int = 200
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if not 0 < self.train < self.series:
            raise ValueError(f"Expected 0 < train < series, but got {self.train} and {self.series}.")

    @property
    def transition(self) -> NDArray[np.float64]:
        if self.stay is None:
            return np.array([[0.1, 0.9], [0.1, 0.9]])
        return np.array([[self.stay, 1 - self.stay], [1 - self.stay, self.stay]])


@dataclass(frozen=True, eq=False)
class StateData:
    """Series x (N, T, 3), labels y (N, T), hidden states (N, T), salient cells truth (N, T, 3)."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    states: NDArray[np.int64]
    truth: NDArray[np.bool_]

    def rows(self, part: slice) -> StateData:
        return StateData(self.x[part], self.y[part], self.states[part], self.truth[part])


def make_state(setting: StateSetting | None = None, *, seed: int) -> StateData:
    """Draw the chain from (.5, .5), then x_t ~ N(mu_s, Sigma_s) and y_t ~ Ber(sigmoid(x_t of the salient
    feature)).
    """
    setting = setting or StateSetting()
    rng = np.random.default_rng([seed, 2])
    n, steps = setting.series, setting.steps
    to_one = setting.transition[:, 1]
    states = np.empty((n, steps), dtype=np.int64)
    states[:, 0] = rng.random(n) < 0.5
    for t in range(1, steps):
        states[:, t] = rng.random(n) < to_one[states[:, t - 1]]
    roots = np.linalg.cholesky(COVARIANCES)
    x = MEANS[states] + np.einsum("ntij,ntj->nti", roots[states], rng.standard_normal((n, steps, 3)))
    truth = np.arange(3) == (1 + states)[..., None]
    p = 1 / (1 + np.exp(-setting.label_scale * x[truth].reshape(n, steps)))
    y = (rng.random((n, steps)) < p).astype(np.int64)
    return StateData(x=x.astype(np.float32), y=y, states=states, truth=truth)


def train_state_model(data: StateData, setting: StateSetting, *, seed: int) -> nn.Module:
    """The GRU of the appendix on the first `setting.train` series; logits (B, T, 2). Cached."""
    fitted = data.rows(slice(setting.train))
    settings = asdict(setting) | {"seed": seed}

    def build() -> nn.Module:
        with seeded(seed):
            return build_model("gru", 3, 2, setting.hidden, per_step=True)

    def train(model: nn.Module) -> None:
        x, y = torch.from_numpy(fitted.x), torch.from_numpy(fitted.y)
        train_classifier(model, x, y, setting.training, seed)

    return cached_model("state", settings, build, train)


def held_out_accuracy(model: nn.Module, data: StateData, setting: StateSetting) -> float:
    """Share of right labels on the series that were not trained on."""
    rest = data.rows(slice(setting.train, None))
    return accuracy(model, torch.from_numpy(rest.x), torch.from_numpy(rest.y))

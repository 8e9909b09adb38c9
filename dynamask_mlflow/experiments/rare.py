"""The rare feature and the rare time experiment (section 3.1): a white box that reads a few known cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Kind = Literal["feature", "time"]


class WhiteBox(nn.Module):
    """f(X)_t = sum over A_X of x_ti^2 for t in A_T, else 0. Output (B, T)."""

    salient: Tensor

    def __init__(self, salient: NDArray[np.bool_]) -> None:
        super().__init__()
        self.register_buffer("salient", torch.from_numpy(salient.astype(np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        return (x.square() * self.salient).sum(-1)


@dataclass(frozen=True, kw_only=True)
class RareSetting:
    """What the appendix states, and where its text leaves a choice.

    A_T (or A_X) = [13:38] is read as the 25 positions 13 ... 37 counted from 0, as in the released code:
    the appendix itself counts 25 x 5 salient cells. The AR coefficients have the text's signs; the released
    code has them negative.
    """

    kind: Kind = "feature"
    steps: int = 50
    channels: int = 50
    salient: int = 5
    window: tuple[int, int] = (13, 38)
    coefficients: tuple[float, ...] = (0.25, 0.1, 0.05)

    def __post_init__(self) -> None:
        if self.kind not in ("feature", "time"):
            raise ValueError(f"Expected kind 'feature' or 'time', but got {self.kind!r}.")


@dataclass(frozen=True, eq=False)
class RareData:
    """Series x (N, T, d), the salient cells truth (T, d), and the white box that reads those cells alone."""

    x: NDArray[np.float32]
    truth: NDArray[np.bool_]
    model: WhiteBox


def arma_series(
    rng: np.random.Generator, n: int, steps: int, channels: int, coefficients: tuple[float, ...]
) -> NDArray[np.float32]:
    """(n, steps, channels) of x_t = sum_k phi_k x_{t-k} + e_t with e_t ~ N(0, 1), by statsmodels'
    ArmaProcess.
    """
    from statsmodels.tsa.arima_process import ArmaProcess

    process = ArmaProcess(np.r_[1.0, -np.asarray(coefficients)], np.ones(1))

    def noise(size: Any) -> NDArray[np.float64]:
        return np.asarray(rng.standard_normal(size))

    sample = process.generate_sample((steps, n * channels), distrvs=noise, axis=0)
    return np.ascontiguousarray(sample.reshape(steps, n, channels).transpose(1, 0, 2), dtype=np.float32)


def salient_cells(rng: np.random.Generator, setting: RareSetting) -> NDArray[np.bool_]:
    """A = A_T x A_X: five random features in a window of times, or five consecutive times of a window of
    features.
    """
    window = np.arange(*setting.window)
    if setting.kind == "feature":
        times, channels = window, rng.choice(setting.channels, setting.salient, replace=False)
    else:
        start = rng.integers(0, setting.steps - setting.salient + 1)
        times, channels = np.arange(start, start + setting.salient), window
    truth = np.zeros((setting.steps, setting.channels), dtype=np.bool_)
    truth[np.ix_(times, channels)] = True
    return truth


def make_rare(setting: RareSetting | None = None, *, seed: int, instances: int = 1) -> RareData:
    """Draw the salient cells and `instances` series that share them."""
    setting = setting or RareSetting()
    rng = np.random.default_rng([seed, 1])
    truth = salient_cells(rng, setting)
    x = arma_series(rng, instances, setting.steps, setting.channels, setting.coefficients)
    return RareData(x=x, truth=truth, model=WhiteBox(truth))

"""Perturbation operators (section 2.2 of the paper).

An operator replaces cell (t, i) by pi(X, m; t, i), where m is that cell's own mask coefficient and m = 1 leaves the
cell as it is. Because pi depends on the mask through one number a cell, its derivative d pi / d m comes out of the
forward pass, and the backward pass is one multiplication.

Cells that do not exist (padding, missing values) are left as they are and feed nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from dynamask_mlflow.masks.channel_statistics import background_spread, robust_spread, windowed_mean
from dynamask_mlflow.masks.draws import Draws

# Zero is no baseline for a channel whose median is further from it than this many robust standard deviations.
_FAR_FROM_ZERO = 1.5

MISSING = "missing"

Perturbation = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Takes a mask (B, T, d), returns the perturbed input and its derivative by the mask, both (B, T, d)."""


@dataclass(frozen=True)
class Batch:
    """What an operator may see: the inputs (B, T, d), which cells exist, where the instances stand in the whole.

    `reference` (K, T, d) are the reference sequences, where there are any. `pinned` (d,) are the baselines of channels
    that no operator can give, NaN for the others: static features, of one cell each.
    """

    x: Tensor
    exists: Tensor | None
    rows: Tensor
    draws: Draws
    reference: Tensor | None = None
    pinned: Tensor | None = None

    def take(self, index: Tensor) -> Batch:
        """Some of the instances."""
        exists = None if self.exists is None else self.exists[index]
        return Batch(self.x[index], exists, self.rows[index], self.draws, self.reference, self.pinned)

    def settled(self, mask: Tensor, moved: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """A perturbation with cells that do not exist left as they are, and pinned channels faded to their baseline."""
        if self.pinned is not None:
            known = ~torch.isnan(self.pinned)
            way = self.x - torch.nan_to_num(self.pinned)
            moved = torch.where(known, self.x - (1 - mask) * way, moved)
            slope = torch.where(known, way, slope)
        if self.exists is None:
            return moved, slope
        return torch.where(self.exists, moved, self.x), slope * self.exists

    def number_of_cells(self) -> Tensor:
        """(B,): how many cells exist, at least 1."""
        return self.weights().flatten(1).sum(1).clamp(min=1)

    def weights(self) -> Tensor:
        """(B, T, d): 1 where a cell exists, 0 elsewhere."""
        return torch.ones_like(self.x) if self.exists is None else self.exists.to(self.x.dtype)


@runtime_checkable
class Operator(Protocol):
    """Anything with a name and a way to prepare itself for a batch; users may pass their own."""

    @property
    def spec(self) -> str:
        """How the operator is written in a configuration."""

    @property
    def random(self) -> bool:
        """Whether every step needs a new perturbation; the others are prepared once."""

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        """The perturbation of this batch, at this step of the fit."""


@dataclass(frozen=True)
class Fade:
    """pi(X, m; t, i) = m x_{t,i} + (1 - m) baseline_{t,i}; slope = x - baseline."""

    baseline: Tensor
    slope: Tensor

    def __call__(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        return torch.addcmul(self.baseline, mask, self.slope), self.slope


def fade_to(x: Tensor, baseline: Tensor) -> Fade:
    return Fade(baseline, x - baseline)


@dataclass(frozen=True)
class MovingAverage:
    """Fade to the moving average over [t - W, t + W] (the paper's pi^m)."""

    window: int
    random = False

    @property
    def spec(self) -> str:
        return f"moving_average:{self.window}"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        return fade_to(batch.x, windowed_mean(batch.x, batch.weights(), self.window, self.window))


@dataclass(frozen=True)
class PastAverage:
    """Fade to the average over [t - W, t] (the paper's pi^p): no future value leaks in."""

    window: int
    random = False

    @property
    def spec(self) -> str:
        return f"past_average:{self.window}"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        return fade_to(batch.x, windowed_mean(batch.x, batch.weights(), self.window, 0))


@dataclass(frozen=True)
class TimeMean:
    """Fade to the mean of the channel over the whole series."""

    random = False
    spec = "time_mean"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        steps = batch.x.shape[1]
        return fade_to(batch.x, windowed_mean(batch.x, batch.weights(), steps, steps))


@dataclass(frozen=True)
class Zero:
    """Fade to zero: the Hadamard product M * X, a static perturbation."""

    random = False
    spec = "zero"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        return fade_to(batch.x, torch.zeros_like(batch.x))


@dataclass(frozen=True)
class Missing:
    """The cell was never measured: it is gone from the model's mask, and what it held is filled in (`side_inputs`).

    The engine's x then is the share of each cell that is there, 1 for all of them, and fades to 0.
    """

    random = False
    spec = MISSING

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        return fade_to(batch.x, torch.zeros_like(batch.x))


@dataclass(frozen=True)
class Neutral:
    """Fade to zero where zero lies within the channel's own range, else to the channel's median.

    The mean over time cannot remove what stays the same for the whole series, zero can. But zero is a baseline only
    where the channel is near it: |median| <= 1.5 robust standard deviations (1.48 times the median absolute deviation).
    """

    random = False
    spec = "neutral"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        median, deviation = robust_spread(batch.x, batch.exists)
        baseline = torch.where(median.abs() > _FAR_FROM_ZERO * deviation, median, torch.zeros_like(median))
        return fade_to(batch.x, baseline.expand_as(batch.x))


@dataclass(frozen=True, eq=False)
class ReferenceSequence:
    """Fade to another sequence of the same shape, (T, d): one of a reference set, or its mean."""

    values: Any
    name: str
    random = False

    @property
    def spec(self) -> str:
        return f"reference:{self.name}"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        return fade_to(
            batch.x, torch.as_tensor(self.values, dtype=batch.x.dtype, device=batch.x.device).expand_as(batch.x)
        )


@dataclass(frozen=True, eq=False)
class FadeToReference:
    """Fade to values given by the user: (d,), (T, d), or (N, T, d) in the order of the explained instances."""

    reference: Any
    random = False
    spec = "reference"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        values = torch.as_tensor(self.reference, dtype=batch.x.dtype, device=batch.x.device)
        if values.ndim == 3 and len(values) != 1:
            values = values[batch.rows]
        if values.ndim and values.shape[-1] < batch.x.shape[-1]:  # the model is given more than x
            rest = batch.x[..., values.shape[-1] :]
            values = torch.cat([values.expand(*rest.shape[:-1], -1), rest], -1)
        try:
            values = values.expand_as(batch.x)
        except RuntimeError as error:
            raise ValueError(
                f"Expected a reference that fits inputs of shape {tuple(batch.x.shape[1:])}, "
                f"but got {tuple(torch.as_tensor(self.reference).shape)}."
            ) from error
        return fade_to(batch.x, values)


@dataclass(frozen=True)
class GaussianBlur:
    """Temporal Gaussian blur (the paper's pi^g): sigma = sigma_max (1 - m), normalised by the cells that exist.

    The window ends where the weights fall below float32's epsilon, at 5.7 sigma_max.
    """

    sigma_max: float
    random = False

    @property
    def spec(self) -> str:
        return f"blur:{self.sigma_max:g}"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        x, weights = batch.x, batch.weights()
        steps = x.shape[1]
        reach = min(steps - 1, math.ceil(5.7 * self.sigma_max))
        # Sums over both neighbours at distance k of existing values and of their number, ready once and for all.
        pairs = []
        for k in range(1, reach + 1):
            value, count = torch.zeros_like(x), torch.zeros_like(x)
            present = x * weights
            value[:, k:] += present[:, :-k]
            value[:, :-k] += present[:, k:]
            count[:, k:] += weights[:, :-k]
            count[:, :-k] += weights[:, k:]
            pairs.append((float(k * k), value - count * x, count))

        def perturb(mask: Tensor) -> tuple[Tensor, Tensor]:
            sigma = (self.sigma_max * (1 - mask)).clamp(min=1e-3)
            precision = sigma.square().reciprocal()
            total, moved = torch.ones_like(x), torch.zeros_like(x)
            total_slope, moved_slope = torch.zeros_like(x), torch.zeros_like(x)
            for square, shift, count in pairs:
                # Denormals are slow: exp is cut where float32 would no longer feel it.
                weight = torch.exp((-0.5 * square * precision).clamp(min=-80))
                total.addcmul_(weight, count)
                moved.addcmul_(weight, shift)
                steep = weight * square
                total_slope.addcmul_(steep, count)
                moved_slope.addcmul_(steep, shift)
            average = moved / total
            slope = (moved_slope - average * total_slope) / total * precision / sigma
            return x + average, slope * -self.sigma_max

        return perturb


@dataclass(frozen=True)
class RandomFade:
    """Fade to the same channel at another time near by, drawn anew at each step.

    The reach is log-uniform in 1 .. T and the time uniform within it, among the cells that exist. Features cannot
    learn to compensate for each other's fixed replacements.
    """

    random = True
    spec = "random_fade"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        x = batch.x
        steps = x.shape[1]
        share = math.modf(0.5 + step * 0.6180339887498949)[0]
        reach = max(1, round(math.exp(share * math.log(max(steps, 1)))))
        time = torch.arange(steps, device=x.device)
        low, high = (time - reach).clamp(min=0), (time + reach + 1).clamp(max=steps)
        uniform = batch.draws.uniform(step)
        if batch.exists is None:
            source = low[:, None] + (uniform * (high - low)[:, None]).long()
            return fade_to(x, x.gather(1, source.expand_as(x)))
        exists = batch.exists
        counts = torch.cat([torch.zeros_like(x[:, :1]), exists.to(x.dtype).cumsum(1)], 1)
        before = counts[:, low]
        nth = (before + uniform * (counts[:, high] - before)).floor().long().clamp(max=steps - 1)
        # Position of the n-th existing cell of each channel.
        order = torch.argsort((~exists).to(torch.int8), dim=1, stable=True)
        return fade_to(x, torch.where(exists, x.gather(1, order.gather(1, nth)), x))


@dataclass(frozen=True)
class NoiseFade:
    """Fade to the channel's own mean plus its own standard deviation times fresh noise."""

    random = True
    spec = "noise"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        x, weights = batch.x, batch.weights()
        number = weights.sum(1, keepdim=True).clamp(min=1)
        mean = (x * weights).sum(1, keepdim=True) / number
        deviation = (((x - mean) * weights).square().sum(1, keepdim=True) / number).sqrt()
        return fade_to(x, mean + deviation * batch.draws.normal(step))


@dataclass(frozen=True)
class BackgroundNoise:
    """Fade to noise of the channel's background: its median plus its standard deviation times fresh noise.

    Short events do not widen the background, so that its noise holds no events of its own.
    """

    random = True
    spec = "background_noise"

    def prepare(self, batch: Batch, step: int) -> Perturbation:
        median, deviation = background_spread(batch.x, batch.exists)
        return fade_to(batch.x, median + deviation * batch.draws.normal(step))


_PARSERS: dict[str, tuple[Callable[[str], Operator], str]] = {
    "blur": (lambda text: GaussianBlur(_positive(float(text))), "blur:SIGMA_MAX"),
    "moving_average": (lambda text: MovingAverage(_window(text)), "moving_average:W"),
    "past_average": (lambda text: PastAverage(_window(text)), "past_average:W"),
    "time_mean": (lambda text: TimeMean(), "time_mean"),
    "zero": (lambda text: Zero(), "zero"),
    "missing": (lambda text: Missing(), MISSING),
    "neutral": (lambda text: Neutral(), "neutral"),
    "random_fade": (lambda text: RandomFade(), "random_fade"),
    "noise": (lambda text: NoiseFade(), "noise"),
    "background_noise": (lambda text: BackgroundNoise(), "background_noise"),
}


def _positive(value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(value)
    return value


def _window(text: str) -> int:
    return int(_positive(int(text)))


def parse_operator(spec: str | Operator) -> Operator:
    """Turn a spec such as "blur:1" into an operator; operators pass through."""
    if not isinstance(spec, str):
        if isinstance(spec, Operator):
            return spec
        raise TypeError(f"Expected an operator or a spec such as 'blur:1', but got {type(spec).__name__}.")
    name, _, argument = spec.partition(":")
    known = ", ".join(form for _, form in _PARSERS.values())
    if name not in _PARSERS:
        raise ValueError(f"Unknown operator {spec!r}. Known operators: {known}.")
    parser, form = _PARSERS[name]
    try:
        return parser(argument)
    except ValueError as error:
        raise ValueError(f"Expected an operator of the form {form}, but got {spec!r}.") from error


def parse_operators(specs: Sequence[str | Operator]) -> tuple[Operator, ...]:
    if not specs:
        raise ValueError("Expected at least one perturbation operator, but got none.")
    return tuple(parse_operator(spec) for spec in specs)


def among(operators: Sequence[Operator], specs: Sequence[str]) -> list[int]:
    """Positions of the operators with those specs; of all operators when there are none."""
    chosen = [i for i, operator in enumerate(operators) if operator.spec in specs]
    return chosen or list(range(len(operators)))

"""What the data carry beside x: lengths, which cells were measured, and further inputs by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

DERIVED = ("padding_mask", "attention_mask", "valid", "gaps")
"""Made from lengths and observed where a model takes them and the data do not hold them."""


@dataclass(frozen=True, eq=False)
class SideInputs:
    """Inputs of N instances beside x (N, T, d).

    Attributes:
        lengths: (N,) steps that exist; None: all of them.
        observed: (N, T, d) which cells were measured; None: all of them.
        extras: name -> (N, ...). Floats (N,) and (N, s) are static features, which get attributions of their own; whole
            numbers are codes, passed as they are.
        nan: (N, T, d) True where the model is given NaN instead of what x holds; None: nowhere.
    """

    lengths: NDArray[Any] | None = None
    observed: NDArray[Any] | None = None
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    nan: NDArray[np.bool_] | None = None

    def names(self) -> set[str]:
        """The inputs that the data hold, or that can be made from them."""
        found = {"x", *self.extras}
        if self.lengths is not None:
            found |= {"lengths", "padding_mask", "attention_mask", "valid"}
        if self.observed is not None:
            found |= {"observed", "gaps"}
        return found

    def given(self) -> list[str]:
        """The inputs that the user gave, for messages."""
        held = [name for name in ("lengths", "observed") if getattr(self, name) is not None]
        return [*held, *self.extras]

    def static_names(self) -> list[str]:
        """The further inputs that are static features."""
        return [name for name, values in self.extras.items() if _is_static(values)]

    def width(self, name: str) -> int:
        """How many static features an input holds."""
        values = self.extras[name]
        return 1 if values.ndim == 1 else int(values.shape[1])

    def take(self, name: str, rows: Tensor, shape: tuple[int, int]) -> Tensor:
        """One input of some rows, on the host; `shape` is (T, d).

        Lengths and observed are complete where the data hold none. Masks of steps are (B, T) booleans: `padding_mask`
        is True in the padding, `valid` and `attention_mask` (0 and 1) are the opposite.
        """
        steps, channels = shape
        if name in self.extras:
            return _rows(self.extras[name], rows)
        if name == "observed":
            if self.observed is None:
                return torch.ones(len(rows), steps, channels, dtype=torch.bool)
            return _rows(self.observed, rows).bool()
        if name == "nan" and self.nan is not None:
            return _rows(self.nan, rows)
        if name == "gaps":
            return gaps_between(self.take("observed", rows, shape).float())
        ends = torch.full((len(rows),), steps) if self.lengths is None else _rows(self.lengths, rows).long()
        if name == "lengths":
            return ends
        valid = torch.arange(steps)[None] < ends[:, None]
        if name == "attention_mask":
            return valid.long()
        return ~valid if name == "padding_mask" else valid


def without_nan(x: NDArray[Any], side: SideInputs) -> tuple[NDArray[Any], SideInputs]:
    """x with NaN filled, and `side` that knows where it was; both as they are where there is none.

    NaN in the padding is 0 and means nothing. Another cell is filled by the value before it, at the start of a
    sequence by the first one measured, in a channel that was never measured by 0. What fills it is never given to the
    model.

    Example:
        >>> x, side = without_nan(np.array([[[np.nan], [2.0], [np.nan], [4.0]]]), SideInputs())
        >>> x.ravel().tolist(), side.nan.ravel().tolist(), side.observed.ravel().tolist()
        ([2.0, 2.0, 2.0, 4.0], [True, False, True, False], [False, True, False, True])
    """
    if side.lengths is not None:
        padding = np.arange(x.shape[1]) >= np.resize(np.asarray(side.lengths), len(x))[:, None]
        x = np.where(padding[:, :, None] & np.isnan(x), np.zeros_like(x[:1]), x)
    absent = np.isnan(x)
    if not absent.any():
        return x, side
    steps = np.arange(x.shape[1])[None, :, None]
    last = np.maximum.accumulate(np.where(absent, -1, steps), axis=1)
    filled = np.take_along_axis(x, np.where(last < 0, (~absent).argmax(1)[:, None], last), axis=1)
    observed = ~absent
    if side.observed is not None:
        given = np.asarray(side.observed).astype(np.bool_)
        observed &= given[np.arange(len(x)) % len(given)]
    return np.nan_to_num(filled, copy=False), replace(side, observed=observed, nan=absent)


def _rows(values: NDArray[Any], rows: Tensor) -> Tensor:
    """Those rows; whoever asks about the same instances over and over counts on."""
    held = np.asarray(values)
    return torch.as_tensor(np.ascontiguousarray(held[rows.numpy() % len(held)]))


def _is_static(values: NDArray[Any]) -> bool:
    return values.ndim in (1, 2) and np.issubdtype(values.dtype, np.floating)


def check_extras(extras: Mapping[str, Any] | None, total: int) -> dict[str, NDArray[Any]]:
    """Name -> (N, ...) numbers, finite; the arrays themselves, not copies."""
    checked: dict[str, NDArray[Any]] = {}
    for name, values in (extras or {}).items():
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        if not isinstance(name, str) or name in ("x", "lengths", "observed"):
            raise ValueError(f"Expected names of further inputs other than x, lengths and observed, but got {name!r}.")
        number = np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_
        if not number or np.iscomplexobj(array) or array.ndim < 1 or len(array) != total:
            raise ValueError(
                f"Expected the further input {name!r} as numbers for {total} instances, but got {array.dtype} of shape "
                f"{array.shape}."
            )
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            raise ValueError(f"Expected a finite further input {name!r}, but some values are NaN or infinite.")
        checked[name] = array
    return checked


def gaps_between(observed: Tensor, durations: Tensor | None = None) -> Tensor:
    """(B, T, d): the time since a channel was last measured, as GRU-D has it.

    delta_0 = 0 and delta_t = s_t + (1 - o_{t-1}) delta_{t-1}, with o the share of a cell that is there and s the time
    between two steps, 1 unless `durations` (B, T, d) are given. Differentiable by o.
    """
    found = [torch.zeros_like(observed[:, 0])]
    for t in range(1, observed.shape[1]):
        step = 1.0 if durations is None else durations[:, t]
        found.append(step + (1 - observed[:, t - 1]) * found[-1])
    return torch.stack(found, 1)


def durations_of(gaps: Tensor, observed: Tensor) -> Tensor:
    """The time between steps s_t = delta_t - (1 - o_{t-1}) delta_{t-1} that given gaps (B, T, d) were made with."""
    before = torch.cat([torch.zeros_like(gaps[:, :1]), (1 - observed[:, :-1]) * gaps[:, :-1]], 1)
    return gaps - before


def left_after_removal(x: Tensor, presence: Tensor, observed: Tensor) -> Tensor:
    """(B, T, d): the values when cells are there by a share `presence` only.

    What is gone is filled as the instance's own unmeasured cells are: by zero where these are all zero, else by the
    value before it. Cells that carry a removed value forward lose it as well. Presence 1 gives x itself.
    """
    zero = ((x == 0) | (observed > 0)).flatten(1).all(1) & (observed == 0).flatten(1).any(1)
    zero = zero[:, None]
    found: list[Tensor] = []
    for t in range(x.shape[1]):
        before = found[-1] if found else torch.zeros_like(x[:, 0])
        fill = torch.where(zero, torch.zeros_like(before), before)
        value = presence[:, t] * x[:, t] + (1 - presence[:, t]) * fill
        if found:
            carried = (observed[:, t] == 0) & (x[:, t] == x[:, t - 1]) & ~zero
            value = torch.where(carried, before, value)
        found.append(value)
    return torch.stack(found, 1)

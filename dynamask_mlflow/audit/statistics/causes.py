"""Why it moved when the version changed, too: two models x two windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamask_mlflow.audit.statistics.marginals import Floats


@dataclass(frozen=True, eq=False)
class CauseSplit:
    """(k,) shifts of the mean shares, which add up exactly: total = data + model + interaction.

    Attributes:
        data: the old model on the new window minus on the old one.
        model: the new model minus the old one, on the old window.
        interaction: what the new model does on the new window beyond both.
    """

    data: Floats
    model: Floats
    interaction: Floats

    @property
    def total(self) -> Floats:
        return self.data + self.model + self.interaction

    def sizes(self) -> dict[str, float]:
        """Each part as a share of attention moved (half the sum of its absolute values)."""
        parts = {"data": self.data, "model": self.model, "interaction": self.interaction}
        return {name: float(0.5 * np.abs(part).sum()) for name, part in parts.items()}


def split_causes(old_before: ArrayLike, old_now: ArrayLike, new_before: ArrayLike, new_now: ArrayLike) -> CauseSplit:
    """Mean shares of {old, new} model on {before, now}: each of shape (k,)."""
    a, b, c, d = (np.asarray(v, dtype=np.float64) for v in (old_before, old_now, new_before, new_now))
    if not a.shape == b.shape == c.shape == d.shape:
        raise ValueError(f"Expected four profiles of one shape, but got {a.shape}, {b.shape}, {c.shape}, {d.shape}.")
    return CauseSplit(data=b - a, model=c - a, interaction=d - c - b + a)

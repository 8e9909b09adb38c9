"""Random draws that depend on the seed and the step alone, so that no instance feels its neighbours."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


class Draws:
    """Two streams of uniform numbers for each cell, the same for every instance.

    At step k cell (t, i) draws frac(u + k v) with u and v uniform and fixed by the seed. For almost every v such a
    sequence fills [0, 1) more evenly than independent draws do, it needs two small tensors however many steps are
    taken, and it is computed where the data are.
    """

    def __init__(self, seed: int, steps: int, channels: int, device: torch.device) -> None:
        shape = (2, 2, steps, channels)
        numbers = np.random.default_rng([seed, 0x5EED]).random(shape, dtype=np.float32)
        self._start, self._stride = torch.from_numpy(numbers).to(device)

    def uniform(self, step: int, stream: int = 0) -> Tensor:
        """(T, d) numbers in [0, 1)."""
        return torch.frac(self._start[stream] + step * self._stride[stream])

    def normal(self, step: int) -> Tensor:
        """(T, d) standard normal numbers (Box-Muller)."""
        radius = torch.sqrt(-2 * torch.log1p(-self.uniform(step, 0).clamp(max=1 - 1e-6)))
        return radius * torch.cos(2 * math.pi * self.uniform(step, 1))

"""Libraries draw from global generators: set them, then put them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int, *, numpy: bool = False) -> Iterator[None]:
    """Run with torch's generators at `seed`, with `numpy` also numpy's old global one (captum uses it)."""
    state = np.random.get_state() if numpy else None  # noqa: NPY002
    if numpy:
        np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            yield
    finally:
        if state is not None:
            np.random.set_state(state)  # noqa: NPY002

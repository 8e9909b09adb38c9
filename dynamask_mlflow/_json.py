"""Values as JSON holds them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def plain(value: Any, digits: int = 6) -> Any:
    """Anything as every JSON reader takes it: arrays as lists, numbers rounded, NaN as null, the rest as text.

    >>> plain({"a": np.array([1 / 3, np.nan]), "b": (1, True)})
    {'a': [0.333333, None], 'b': [1, True]}
    """
    if value is None or isinstance(value, (bool, np.bool_)):
        return None if value is None else bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{float(value):.{digits}g}") if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits)
    if isinstance(value, dict):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(item, digits) for item in value]
    return str(value)

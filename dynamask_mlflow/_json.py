"""Values as JSON holds them."""

from __future__ import annotations

import json
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


def stored_object(text: str) -> dict[str, Any]:
    """The JSON object in a tag, where anybody may have written; empty where there is none.

    >>> stored_object('{"a": [1]}'), stored_object("{"), stored_object("[" * 5000)
    ({'a': [1]}, {}, {})
    """
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def stored_names(stored: dict[str, Any], key: str) -> tuple[str, ...]:
    """The texts in a list of a stored object; none where there is no such list.

    >>> stored_names({"a": ["x", 5], "b": 5}, "a"), stored_names({"a": ["x"], "b": 5}, "b")
    (('x',), ())
    """
    found = stored.get(key)
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()

"""Open hospital data, which are not part of the repository: where tests look for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]


def open_data(name: str) -> Path:
    """The folder `name` in DYNAMASK_DATA; without that variable, in a folder `data` beside the checkout."""
    named = os.environ.get("DYNAMASK_DATA")
    places = [Path(named)] if named else [CHECKOUT.parent / "data", *sorted(CHECKOUT.parent.glob("*/data"))]
    found = next((place / name for place in places if (place / name).is_dir()), None)
    if found is None:
        where = named or "../data or ../*/data"
        pytest.skip(f"{name} is not in {where}; set DYNAMASK_DATA to the folder that holds it")
    return found

"""Coarse facts about a stay, for subgroups and for the search of a fault: sex, age group, ward, charting system."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

AGES = (18, 45, 65, 80)  # lower ends of the age groups
UNKNOWN = ""
# Columns of the stays that are attributes as they are, where a source has them.
_COLUMNS = ("unit", "charting")


def stay_attributes(cohort: pd.DataFrame) -> dict[str, NDArray[np.str_]]:
    """Name -> (N,) text; a column that is known of no stay is left out."""
    found = {"sex": _sexes(cohort["gender"]), "age_group": age_groups(cohort["age"].to_numpy(dtype=np.float64))}
    found |= {name: _text(cohort[name]) for name in _COLUMNS if name in cohort}
    return {name: column for name, column in found.items() if (column != UNKNOWN).any()}


def age_groups(ages: NDArray[np.float64]) -> NDArray[np.str_]:
    """18-44, 45-64, 65-79, 80+; "" where unknown.

    >>> age_groups(np.array([18.0, 64.9, 91.0])).tolist()
    ['18-44', '45-64', '80+']
    """
    names = [UNKNOWN, *(f"{low}-{high - 1}" for low, high in itertools.pairwise(AGES)), f"{AGES[-1]}+"]
    place = np.searchsorted(AGES, np.where(np.isfinite(ages), ages, -1), side="right")
    return np.asarray(names, dtype=np.str_)[place]


def _sexes(column: pd.Series[Any]) -> NDArray[np.str_]:
    known = {"F": "female", "M": "male"}
    return np.asarray(
        [known.get(str(text)[:1].upper(), UNKNOWN) if text else UNKNOWN for text in column], dtype=np.str_
    )


def _text(column: pd.Series[Any]) -> NDArray[np.str_]:
    return np.asarray([str(text) if isinstance(text, str) else UNKNOWN for text in column], dtype=np.str_)

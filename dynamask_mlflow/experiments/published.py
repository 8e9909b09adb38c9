"""Figures from the literature, printed beside ours. They come from other runs, models and readings of the
metrics.

Information and entropy are left out: published values depend on the logarithm, on the cap, and on how many
series were summed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedRow:
    name: str
    values: Mapping[str, str]


PUBLISHED: Mapping[str, tuple[PublishedRow, ...]] = {
    "rare-feature": (
        PublishedRow("[paper] Dynamask", {"aup": "0.99 ± 0.01", "aur": "0.58 ± 0.03"}),
        PublishedRow("[paper] IG", {"aup": "0.99 ± 0.00", "aur": "0.14 ± 0.03"}),
        PublishedRow("[ContraLSP] ContraLSP", {"aup": "1.00", "aur": "1.00"}),
    ),
    "rare-time": (
        PublishedRow("[paper] Dynamask", {"aup": "0.99 ± 0.01", "aur": "0.68 ± 0.04"}),
        PublishedRow("[paper] IG", {"aup": "0.99 ± 0.00", "aur": "0.14 ± 0.04"}),
        PublishedRow("[ContraLSP] ContraLSP", {"aup": "1.00", "aur": "0.97"}),
    ),
    "state": (
        PublishedRow(
            "[paper] Dynamask",
            {"aup": "0.88 ± 0.01", "aur": "0.70 ± 0.00", "auroc": "0.93 ± 0.00", "auprc": "0.85 ± 0.00"},
        ),
        PublishedRow(
            "[paper] IG",
            {"aup": "0.56 ± 0.00", "aur": "0.78 ± 0.00", "auroc": "0.91 ± 0.00", "auprc": "0.79 ± 0.00"},
        ),
        PublishedRow("[ContraLSP] ContraLSP", {"aup": "0.90", "aur": "0.81"}),
    ),
}

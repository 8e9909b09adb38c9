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
        PublishedRow("[ExtrMask] ExtrMask", {"aur": "0.76"}),
    ),
    "rare-time": (
        PublishedRow("[paper] Dynamask", {"aup": "0.99 ± 0.01", "aur": "0.68 ± 0.04"}),
        PublishedRow("[paper] IG", {"aup": "0.99 ± 0.00", "aur": "0.14 ± 0.04"}),
        PublishedRow("[ContraLSP] ContraLSP", {"aup": "1.00", "aur": "0.97"}),
        PublishedRow("[ExtrMask] ExtrMask", {"aur": "0.82 to 0.88"}),
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
        PublishedRow("[later papers] LIME", {"aup": "0.95", "auprc": "0.912"}),
        PublishedRow("[later papers] DeepLIFT", {"auroc": "0.938"}),
    ),
    "mimic": (
        PublishedRow("[TIMING] TIMING, MIMIC-III", {"cpd/50": "0.366", "cpd/100": "0.505"}),
        PublishedRow("[TIMING] IG, MIMIC-III", {"cpd/50": "0.342", "cpd/100": "0.469"}),
        PublishedRow("[TIMING] Dynamask, MIMIC-III", {"cpd/50": "0.052", "cpd/100": "0.079"}),
    ),
    "perturbation": (
        PublishedRow(
            "[paper] Dynamask",
            {
                "agreement_gm": "0.85",
                "agreement_gp": "0.80",
                "agreement_mp": "0.80",
                "auroc_g": "0.90",
                "auroc_m": "0.90",
                "auroc_p": "0.86",
            },
        ),
    ),
}

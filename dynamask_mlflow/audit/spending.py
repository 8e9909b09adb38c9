"""False alarms over a year of audits: each audit may spend a fixed part of what the year allows."""

from __future__ import annotations

# Of an audit's own chance of a false alarm: this window alone, the last few windows together, the masks' quality.
SPENDING = {"attention": 0.6, "trend": 0.2, "quality": 0.2}


def levels(alpha: float, audits: int) -> dict[str, float]:
    """alpha_k = s_k alpha / audits, with shares s_k that add up to 1.

    The audits of a year share their reference and are not independent; by Boole's inequality the chance of any false
    alarm is at most alpha all the same.
    """
    if not 0 < alpha < 1 or audits < 1:
        raise ValueError(f"Expected alpha in (0, 1) and at least 1 audit a year, but got {alpha} and {audits}.")
    return {name: share * alpha / audits for name, share in SPENDING.items()}

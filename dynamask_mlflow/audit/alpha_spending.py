"""False alarms over a year of audits: each audit may spend a fixed part of what the year allows."""

from __future__ import annotations

import math

# Of an audit's own chance of a false alarm: attention in this window, in the last few windows together, the masks'
# quality, the predictions, what they are worth, the inputs of important channels, and those inputs within slices.
# Attention and quality also need a move of some size, which chance hardly ever makes: their part can be small.
SPENDING = {
    "attention": 0.2,
    "trend": 0.15,
    "quality": 0.05,
    "predictions": 0.2,
    "performance": 0.2,
    "inputs": 0.12,
    "slices": 0.08,
}
GROUPS = 0.2  # of an audit's chance, if subgroups are looked at; the others share the rest as before


def levels(alpha: float, audits: int, groups: bool = False) -> dict[str, float]:
    """alpha_k = s_k alpha / audits, with shares s_k that add up to 1.

    The audits of a year share their reference and are not independent; by Boole's inequality the chance of any false
    alarm is at most alpha all the same.
    """
    if not 0 < alpha < 1 or audits < 1:
        raise ValueError(f"Expected alpha in (0, 1) and at least 1 audit a year, but got {alpha} and {audits}.")
    rest = 1 - GROUPS if groups else 1.0
    spent = {name: rest * share * alpha / audits for name, share in SPENDING.items()}
    return spent | {"groups": GROUPS * alpha / audits} if groups else spent


def permutations_needed(alpha: float, audits: int, groups: bool = False) -> int:
    """How many permutations can give p-values as small as the levels.

    The smallest of three p-values (attention) is at best 3 / (permutations + 1), one of two families (groups)
    2 / (permutations + 1); the others are adjusted by step-down, which costs nothing.
    """
    best = {"attention": 3, "trend": 3, "groups": 2}
    return max(math.ceil(best.get(name, 1) / level - 1e-9) - 1 for name, level in levels(alpha, audits, groups).items())

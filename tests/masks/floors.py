"""What the default reaches at least, for each nature of evidence.

Floors lie a little below what is measured (in brackets), so that another machine's last bits do not matter, and above
what is left when a part of the default is taken out.
"""

from __future__ import annotations

from functools import cache

import white_boxes
from natures import RECIPES, Nature, Quality, trained_nature

WHITE_BOXES = {
    "segment": white_boxes.segment,
    "spikes": white_boxes.spikes,
    "shared evidence": white_boxes.shared_evidence,
    "off zero": white_boxes.off_zero,
    "plateau": white_boxes.plateau,
    "constant level": white_boxes.constant_level,
    "both signs": white_boxes.both_signs,
    "quiet window": white_boxes.quiet_window,
    "risk below one half": white_boxes.risk_below_one_half,
    "faint cells": white_boxes.faint_cells,
    "classes at every step": white_boxes.classes_at_every_step,
}


@cache
def nature(name: str) -> Nature:
    return trained_nature(name) if name in RECIPES else WHITE_BOXES[name]()


FLOORS = {
    # Trained networks: AUPRC of the ranking, F1 of the whole cells, and a ceiling of the Brier score.
    "one event": Quality(0.80, 0.65, 0.55),  # (.88, .76, .41), an LSTM
    "several events": Quality(0.88, 0.76, 0.38),  # (.97, .86, .23)
    "ramps": Quality(0.77, 0.62, 0.52),  # (.89, .75, .34)
    "redundancy": Quality(0.96, 0.85, 0.20),  # (.99, .95, .10)
    "absence": Quality(0.80, 0.64, 0.52),  # (.89, .78, .44)
    "risk": Quality(0.93, 0.75, 0.35),  # (.97, .82, .26), a GRU
    "padding": Quality(0.95, 0.86, 0.25),  # (.99, .94, .11)
    # White boxes.
    "segment": Quality(0.95, 0.87, 0.35),  # (1.00, .93, .19)
    "spikes": Quality(0.99, 0.95, 0.05),  # (1.00, 1.00, .01)
    "shared evidence": Quality(0.99, 0.95, 0.08),  # (1.00, 1.00, .01)
    "off zero": Quality(0.95, 0.85, 0.25),  # (.99, .90, .15)
    "plateau": Quality(0.88, 0.66, 0.48),  # (.96, .72, .39)
    "constant level": Quality(0.93, 0.75, 0.30),  # (1.00, .88, .14)
    "quiet window": Quality(0.80, 0.72, 0.42),  # (.86, .84, .29)
    "both signs": Quality(0.985, 0.80, 0.28),  # (1.00, .88, .16)
    "risk below one half": Quality(0.97, 0.92, 0.15),  # (1.00, .98, .06)
    "faint cells": Quality(0.74, 0.66, 0.75),  # (.82, .73, .55), at every step
    "classes at every step": Quality(0.97, 0.72, 0.75),  # (1.00, .80, .24)
}

"""Names of the files that audits and references log, each once."""

from __future__ import annotations

VERDICT, VIOLATIONS, REPORT = "dynamask/verdict.json", "dynamask/violations.json", "dynamask/audit.html"
SUBGROUPS, PROFILE, CONFIG = "dynamask/subgroups.json", "dynamask/profile.json", "dynamask/config.json"
CULPRITS = "dynamask/culprits.json"
# What a verdict is computed from again.
MEASURED, MADE_FROM = "dynamask/measured.npz", "dynamask/made_from.json"
# Arrays of an audit beside the window itself: name -> artifact.
OTHERS = {
    "canary": "dynamask/canary.npz",
    "old_window": "dynamask/old_window.npz",
    "new_anchors": "dynamask/new_anchors.npz",
}
# Of references.
REFERENCE, REFERENCE_RECORD = "dynamask/reference.npz", "dynamask/reference.json"
ANCHORS, ANCHOR_INPUTS = "dynamask/anchors.npz", "dynamask/anchor_inputs.npz"

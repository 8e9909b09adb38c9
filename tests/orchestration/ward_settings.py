"""Settings of the ward's audits, apart from what imports torch: DAG files read them."""

from typing import Any

# Quick, with the wide margins that few stays need.
SETTINGS: dict[str, Any] = {
    "instances": 40, "reference_instances": 120, "minimum": 20, "anchors": 5, "noise_seeds": 0, "steps": 40,
    "permutations": 399, "audits_per_year": 1, "tolerance": 0.5, "effect": 0.2, "shard_seconds": 60.0,
    "report_instances": 2, "device": "cpu", "quality_effect": 2.0,
}  # fmt: skip

"""The numbers of an audit under the names that MLflow logs."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.evidence import Evidence
from dynamask_mlflow.audit.statistics import PredictionTest


def metrics_of(evidence: Evidence, config: AuditConfig) -> dict[str, float]:
    """Name -> value; only finite ones."""
    found: dict[str, float] = {
        "instances": evidence.instances,
        "reference_instances": evidence.reference_instances,
        "failures": evidence.failures,
        "left_out": evidence.failures + evidence.idle,
        "ndcg": evidence.ndcg,
    }
    test = evidence.drift
    if test is not None:
        found |= {"p_value": test.p_value, "p_energy": test.p_energy}
        found |= {"p_channels": test.p_channels, "p_hours": test.p_hours, "tolerance": evidence.tolerance}
        for name, effect in (("channels", test.channels), ("hours", test.hours)):
            found |= {
                f"moved_{name}": effect.moved,
                f"moved_{name}_low": effect.low,
                f"moved_{name}_high": effect.high,
                f"moved_{name}_lower": effect.lower,
                f"moved_{name}_upper": effect.upper,
                # What the alarm looks at: nothing, unless the test says that something moved.
                f"proven_{name}": effect.lower if test.p_value <= config.levels["attention"] else 0.0,
            }
    found |= {f"noise_{name}": value for name, value in evidence.noise.items()}
    trend = evidence.trend
    if trend is not None:
        found |= {"trend_p_value": trend.p_value, "trend_windows": evidence.trend_windows}
        found |= {"trend_moved_channels": trend.channels.moved, "trend_moved_hours": trend.hours.moved}
    if evidence.inputs is not None:
        found["inputs_moved"] = float(len(evidence.inputs.moved(config.input_level)))
    if evidence.predictions is not None:
        found |= _prediction_metrics(evidence.predictions)
    for name, shift in evidence.quality.items():
        found |= {f"{name}": shift.current, f"{name}_reference": shift.reference, f"{name}_effect": shift.effect}
    if evidence.trust is not None:
        found |= {"trust_wins_other": evidence.trust.wins_other, "trust_wins_mean_map": evidence.trust.wins_mean_map}
    if evidence.canary is not None:
        found |= {"canary_moved": evidence.canary.moved, "canary_each": evidence.canary.each}
        found |= {"canary_identical": float(evidence.canary.identical)}
    if evidence.versions is not None:
        found |= {"version_channels": evidence.versions.channels, "version_hours": evidence.versions.hours}
        found |= {"version_largest": evidence.versions.largest, "version_lost": evidence.versions.lost}
    if evidence.between_versions is not None:
        found |= {"version_predicted": evidence.between_versions.difference}
    if evidence.causes is not None:
        found |= {f"cause_{name}": size for name, size in evidence.causes.sizes().items()}
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}


def _prediction_metrics(test: PredictionTest) -> dict[str, float]:
    named = {"predicted": test.mean, **{f"predicted_above_{t:g}": shift for t, shift in test.above.items()}}
    named |= {f"predicted_class_{kind}": shift for kind, shift in test.classes.items()}
    named |= dict(test.performance)
    found = {"predictions_p_value": test.p_value, "predictions_distance": test.distribution.current}
    for name, shift in named.items():
        found |= {name: shift.current, f"{name}_reference": shift.reference, f"{name}_p_value": shift.p_value}
        found |= {f"{name}_low": shift.low, f"{name}_high": shift.high}
    if any(test.labelled):
        found["labelled"] = float(test.labelled[1])
    return found

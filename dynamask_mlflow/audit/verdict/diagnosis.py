"""Which fault the findings fit: a combination of arms, said in words with the evidence for it. A hint, not a proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dynamask_mlflow.audit.comparison import ComparisonResult
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.verdict.messages import joined, percent
from dynamask_mlflow.audit.verdict.verdict import Violation

if TYPE_CHECKING:
    from dynamask_mlflow.audit.culprit import Culprit

_FAR = 0.3  # Kolmogorov-Smirnov distance of values that no ordinary change of patients makes
_MANY = 3  # channels that move together


def diagnose(
    result: ComparisonResult, violations: Sequence[Violation], config: AuditConfig, culprits: Sequence[Culprit] = ()
) -> tuple[str, ...]:
    """Sentences, the likeliest first; none if nothing was found. `culprits`: with what raw events show, if known."""
    if not violations:
        return ()
    kinds = {violation.kind for violation in violations}
    found = [*_model(kinds, result), *_inputs(result, config, culprits)]
    found += _outcome(kinds, result, config)
    if not found and kinds & {"attention", "trend", "predictions"} and result.inputs is not None:
        found.append(
            "No channel's mean or charting moved measurably: this fits a change within the stays (when, in what order, "
            "or together with what things are measured), such as shifted clocks."
        )
    return tuple(found)


def _model(kinds: set[str], result: ComparisonResult) -> list[str]:
    changed = (result.canary.changed if result.canary is not None else None) or {}
    if "version" in kinds:
        return ["This fits a change of the model: both versions were asked about the same stays, and differ."]
    if "canary" in kinds and "weights" in changed:
        return ["This fits a change of the model: the weights are not those of the reference."]
    return []


def _inputs(result: ComparisonResult, config: AuditConfig, culprits: Sequence[Culprit]) -> list[str]:
    inputs = result.inputs
    if inputs is None:
        return []
    names, level = result.channel_names, config.levels["inputs"]
    values, gaps = inputs.value_p <= level, inputs.missing_p <= level
    other_values = _other_values(culprits)
    thinner = gaps & (inputs.missing_shift > 0) & ~np.isin(np.array(names), list(other_values))
    far = values & (inputs.value_gap >= _FAR) & ~gaps
    near = values & ~far
    found = [
        f"This fits another unit for {name}: it is charted, but with other values ({evidence}), which are dropped as "
        "out of range."
        for name, evidence in other_values.items()
        if gaps[names.index(name)] and inputs.missing_shift[names.index(name)] > 0
    ]
    if 0 < far.sum() < _MANY:
        found.append(
            f"This fits another unit, scale or device for {_named(names, far, inputs.value_gap)}: values "
            f"moved ({_sizes(names, far, inputs.value_gap)}), while it is charted as often as before."
        )
    if thinner.any():
        found.append(
            f"This fits thinner charting, or an interface that drops values, of "
            f"{_named(names, thinner, inputs.missing_gap)}: gaps grew ({_sizes(names, thinner, inputs.missing_gap)}). "
            "Values in another unit that are dropped as out of range look the same; raw events (`events`) would tell."
        )
    if values.sum() >= _MANY:
        found.append(_case_mix(result, config, int(values.sum())))
    elif near.any() and not far.any():
        found.append(
            f"This fits a new device or assay, or somewhat other patients: the values of "
            f"{_named(names, near, inputs.value_gap)} moved a little ({_sizes(names, near, inputs.value_gap)})."
        )
    return found


def _other_values(culprits: Sequence[Culprit]) -> dict[str, str]:
    """channel -> the codes under which nearly all charted values are others than before, where raw events are known."""
    found = {}
    for culprit in culprits:
        changed = [(item.code, item.medians) for item in culprit.items if item.medians is not None]
        if culprit.channel is not None and changed:
            medians = [f"item {code}: median {now:.4g}, before {before:.4g}" for code, (before, now) in changed]
            found[culprit.channel] = "; ".join(medians[:3])
    return found


def _case_mix(result: ComparisonResult, config: AuditConfig, count: int) -> str:
    text = f"This fits other patients (case mix): the values of {count} channels moved together"
    test = result.predictions
    if test is None or "calibration" not in test.performance:
        return f"{text}; outcomes would tell whether the predictions still hold for them."
    held = test.performance["calibration"].p_value > config.levels["calibration"]
    return f"{text}, and the predictions are {'calibrated as before' if held else 'calibrated otherwise than before'}."


def _outcome(kinds: set[str], result: ComparisonResult, config: AuditConfig) -> list[str]:
    """Outcomes that moved while nothing that the model sees did."""
    test, inputs = result.predictions, result.inputs
    if "performance" not in kinds or test is None or inputs is None:
        return []
    quiet = not ((inputs.value_p <= config.levels["inputs"]) | (inputs.missing_p <= config.levels["inputs"])).any()
    if quiet and "predictions" not in kinds:
        return [
            "This fits a change of the outcome itself (a new treatment, another definition of the label): inputs and "
            "predictions are as before, but what happens afterwards is not."
        ]
    return []


def _named(names: Sequence[str], chosen: np.ndarray, gap: np.ndarray) -> str:
    order = [int(i) for i in np.argsort(-gap) if chosen[i]]
    return joined([names[i] for i in order], 3)


def _sizes(names: Sequence[str], chosen: np.ndarray, gap: np.ndarray) -> str:
    order = [int(i) for i in np.argsort(-gap) if chosen[i]][:3]
    return ", ".join(f"{names[i]} in {percent(float(gap[i]))} of the stays" for i in order)

"""What warns: predictions that moved, predictions that are worth less, inputs of channels that matter."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.audit import prediction_messages as text
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.evidence import Evidence
from dynamask_mlflow.audit.messages import chance, percent
from dynamask_mlflow.audit.statistics import InputTest, PredictionTest, Shift
from dynamask_mlflow.audit.subgroups import subgroup_findings
from dynamask_mlflow.audit.verdict import Violation

BROKEN = 0.8  # share of the stays in which a channel moved, or went, that is a fault even if nothing rests on it


def warning_findings(evidence: Evidence, config: AuditConfig) -> list[Violation]:
    """Everything that warns, the most important first."""
    found = []
    if evidence.predictions is not None:
        found += _predictions(evidence.predictions, task_of(evidence), config)
        found += _performance(evidence.predictions, config)
    if evidence.inputs is not None:
        found += _inputs(evidence.inputs, evidence, config)
    return found + subgroup_findings(evidence.groups, task_of(evidence), config)


def task_of(evidence: Evidence) -> str:
    return "regression" if "squared_error" in evidence.quality else "classification"


def _predictions(test: PredictionTest, task: str, config: AuditConfig) -> list[Violation]:
    """The mean, else shares above thresholds or of classes, else the whole distribution."""
    level = config.levels["predictions"]
    least = config.risk_effect if task == "classification" else config.value_effect * test.spread
    found = []
    if test.mean.p_value <= level and abs(test.mean.difference) >= least:
        found.append(_violation("predictions", "mean", text.mean_sentence(test, task, level), test.mean, least))
    for threshold, shift in test.above.items():
        least = config.alert_effect * shift.reference
        if shift.p_value <= level and abs(shift.difference) >= least and not found:
            message = text.above_sentence(threshold, shift)
            found.append(_violation("predictions", f"above {threshold:g}", message, shift, least))
    for kind, shift in test.classes.items():
        if shift.p_value <= level and abs(shift.difference) >= config.risk_effect:
            message = text.class_sentence(kind, shift)
            found.append(_violation("predictions", f"class {kind}", message, shift, config.risk_effect))
    shift = test.distribution
    if not found and shift.p_value <= level and shift.current >= config.input_effect:
        message = text.distribution_sentence(shift, task)
        found.append(_violation("predictions", "distribution", message, shift, config.input_effect))
    return found


def _performance(test: PredictionTest, config: AuditConfig) -> list[Violation]:
    found = []
    for name, shift in test.performance.items():
        least = config.value_effect * test.spread if "error" in test.performance else config.performance_effect
        if shift.p_value <= config.levels["performance"] and abs(shift.difference) >= least:
            message = text.performance_sentence(name, shift, test.labelled)
            found.append(_violation("performance", name, message, shift, least))
    return found


def _inputs(inputs: InputTest, evidence: Evidence, config: AuditConfig) -> list[Violation]:
    """Channels whose values or gaps moved far: those that moved in nearly all stays, whatever rests on them, then those
    on which predictions rest, the one on which most rests first.
    """
    effects, attention, level = evidence.effects, evidence.importance, config.levels["inputs"]
    if effects is None or attention is None:
        return []
    broken: list[Violation] = []
    found: list[Violation] = []
    least = config.important * float(effects.mean())
    for place in np.argsort(-effects, kind="stable"):
        name = evidence.channel_names[place]
        kinds = {
            "values": (inputs.value_p[place], inputs.value_gap[place], inputs.value_shift[place]),
            "gaps": (inputs.missing_p[place], inputs.missing_gap[place], inputs.missing_shift[place]),
        }
        moved = {kind: row for kind, row in kinds.items() if row[0] <= level and row[1] >= config.input_effect}
        if not moved:
            continue
        p = float(min(row[0] for row in moved.values()))
        gap = float(max(row[1] for row in moved.values()))
        matters = effects[place] >= least and effects[place] > 0
        if not matters and gap < BROKEN:
            continue
        how = " and ".join(_direction(kind, float(row[1]), float(row[2])) for kind, row in moved.items())
        resting = f"predictions move by {text.number(float(effects[place]))} on average without it"
        share = f"{percent(float(attention[place]))} of the attention"
        what = f"The inputs of {name} moved ({resting}, {share})" if matters else f"The inputs of {name} are broken"
        little = "" if matters else f"; little rests on it: {resting}, {share}"
        (broken if gap >= BROKEN else found).append(
            Violation(
                kind="inputs",
                subject=name,
                message=f"{what}: {how} ({chance(p)}){little}.",
                value=gap,
                threshold=config.input_effect if matters else BROKEN,
                p_value=p,
            )
        )
    told = broken + found
    return told + _slice_inputs(evidence, {violation.subject for violation in told}, config)


def _slice_inputs(evidence: Evidence, told: set[str], config: AuditConfig) -> list[Violation]:
    """Important channels that moved within a slice and are not told yet: each in the slice where it is surest."""
    effects = evidence.effects
    if effects is None:
        return []
    found = []
    for each in evidence.slice_inputs:
        name = evidence.channel_names[each.channel]
        matters = effects[each.channel] >= config.important * float(effects.mean()) and effects[each.channel] > 0
        proven = each.p_value <= config.levels["slices"] and each.gap >= config.input_effect
        if name in told or not matters or not proven:
            continue
        told.add(name)
        message = (
            f"The inputs of {name} moved in {each.slice} ({percent(each.share)} of the stays; predictions move by "
            f"{text.number(float(effects[each.channel]))} on average without it): "
            f"{_direction(each.kind, each.gap, each.shift)} there ({chance(each.p_value)})."
        )
        found.append(
            Violation(
                kind="inputs",
                subject=name,
                message=message,
                value=each.gap,
                threshold=config.input_effect,
                p_value=each.p_value,
            )
        )
    return found


def _direction(kind: str, gap: float, shift: float) -> str:
    """values are lower in 41 % of the stays"""
    if kind == "gaps":
        return f"it is charted {'less' if shift > 0 else 'more'} often in about {percent(gap)} of the stays"
    return f"values are {'higher' if shift > 0 else 'lower'} in about {percent(gap)} of the stays"


def _violation(kind: str, subject: str, message: str, shift: Shift, threshold: float) -> Violation:
    return Violation(
        kind=kind,
        subject=subject,
        message=message,
        value=shift.difference,
        threshold=threshold,
        p_value=shift.p_value,
        low=shift.low,
        high=shift.high,
    )

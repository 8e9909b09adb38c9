"""What an audit finds: attention that moved, now or little by little, masks that got worse, a version that differs."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.audit.comparison import QUALITY_KINDS, QUALITY_NAMES, ComparisonResult
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.statistics import DriftTest, Effect, InputTest, PredictionTest, Shift, VersionShift
from dynamask_mlflow.audit.verdict import messages
from dynamask_mlflow.audit.verdict.messages import chance, percent
from dynamask_mlflow.audit.verdict.subgroups import subgroup_violations
from dynamask_mlflow.audit.verdict.verdict import Violation


def detect_violations(result: ComparisonResult, config: AuditConfig) -> list[Violation]:
    """Everything that is drift, the most important first."""
    found = [] if result.drift is None else _attention(result.drift, result, config)
    if not found and result.trend is not None:
        found = _trend(result.trend, result, config)
    found += _quality(result, config)
    if result.versions is not None:
        found += _versions(result.versions, result.channel_names, config)
    return found


def _attention(test: DriftTest, result: ComparisonResult, config: AuditConfig) -> list[Violation]:
    """Beyond chance, and by more than `effect`, or than another seed would move, for all that is known."""
    if test.p_value > config.levels["attention"]:
        return []
    return [
        _moved("attention", subject, text, effect, least, test)
        for subject, effect, text in _axes(test, result, config)
        if effect.lower >= (least := max(config.effect, result.noise.get(subject, 0.0)))
    ]


def _trend(test: DriftTest, result: ComparisonResult, config: AuditConfig) -> list[Violation]:
    """The last windows together; of both axes the one that moved further."""
    if test.p_value > config.levels["trend"]:
        return []
    subject, effect, text = max(_axes(test, result, config), key=lambda axis: axis[1].lower)
    if effect.lower < config.trend_effect:
        return []
    text = f"A weak move persists over the last {result.trend_windows} windows: {text[:1].lower()}{text[1:]}"
    return [_moved("trend", subject, text, effect, config.trend_effect, test)]


def _axes(test: DriftTest, result: ComparisonResult, config: AuditConfig) -> list[tuple[str, Effect, str]]:
    channels = messages.channel_sentence(test, result.channel_names, config.locate_alpha)
    hours = messages.hour_sentence(test, result.times, config.time_unit, config.block)
    return [("channels", test.channels, channels), ("hours", test.hours, hours)]


def _moved(kind: str, subject: str, text: str, effect: Effect, threshold: float, test: DriftTest) -> Violation:
    return Violation(
        kind=kind,
        subject=subject,
        message=text,
        value=effect.moved,
        threshold=threshold,
        p_value=test.p_value,
        low=effect.low,
        high=effect.high,
    )


def _quality(result: ComparisonResult, config: AuditConfig) -> list[Violation]:
    found = []
    for name, shift in result.quality.items():
        if shift.p_value > config.levels["quality"] or abs(shift.effect) < config.quality_effect:
            continue
        text = (
            f"The {QUALITY_NAMES[name]} changed from {shift.reference:.3g} to {shift.current:.3g} "
            f"({abs(shift.effect):.2g} standard deviations, {messages.chance(shift.p_value)})."
        )
        found.append(_violation(QUALITY_KINDS[name], name, text, shift, config.quality_effect, shift.effect))
    return found


def version_alarms(shift: VersionShift, config: AuditConfig) -> list[str]:
    """Which of the limits a new version is beyond: "lost", "channel", "hours"."""
    limits = {
        "lost": (shift.lost, config.version_lost),
        "channel": (shift.largest, config.version_channel),
        "hours": (shift.hours, config.version_hours),
    }
    return [name for name, (value, limit) in limits.items() if value >= limit]


def _versions(shift: VersionShift, names: tuple[str, ...], config: AuditConfig) -> list[Violation]:
    order = np.argsort(-np.abs(shift.channel_shift))[:4]
    changes = "; ".join(f"{names[i]} {messages.points(float(shift.channel_shift[i]))}" for i in order)
    sentences = {
        "lost": (
            names[shift.lost_channel],
            f"The new version hardly looks at {names[shift.lost_channel]} any more: "
            f"{messages.percent(shift.lost)} of its share is gone on the same stays "
            f"({messages.points(float(shift.channel_shift[shift.lost_channel]))}).",
            shift.lost,
            config.version_lost,
        ),
        "channel": (
            names[shift.channel],
            f"The new version looks elsewhere on the same stays: {changes}.",
            shift.largest,
            config.version_channel,
        ),
        "hours": (
            "hours",
            f"The new version looks at other {config.time_unit}s of the same stays: "
            f"{messages.percent(shift.hours)} moved.",
            shift.hours,
            config.version_hours,
        ),
    }
    return [_version(*sentences[name]) for name in version_alarms(shift, config)]


def _version(subject: str, text: str, value: float, threshold: float) -> Violation:
    return Violation(kind="version", subject=subject, message=text, value=value, threshold=threshold)


BROKEN = 0.8  # share of the stays in which a channel moved, or went, that is a fault even if nothing rests on it


def detect_warnings(result: ComparisonResult, config: AuditConfig) -> list[Violation]:
    """Everything that warns, the most important first."""
    found = []
    if result.predictions is not None:
        found += _predictions(result.predictions, result.task, config)
        found += _performance(result.predictions, config) or _calibration_trend(result, config)
    if result.inputs is not None:
        found += _inputs(result.inputs, result, config)
    return found + subgroup_violations(result.groups, result.task, config)


def _predictions(test: PredictionTest, task: str, config: AuditConfig) -> list[Violation]:
    """The mean, else shares above thresholds or of classes, else the whole distribution."""
    level = config.levels["predictions"]
    least = config.risk_effect if task == "classification" else config.value_effect * test.spread
    found = []
    if test.mean.p_value <= level and abs(test.mean.difference) >= least:
        found.append(_violation("predictions", "mean", messages.mean_sentence(test, task, level), test.mean, least))
    for threshold, shift in test.above.items():
        least = config.alert_effect * shift.reference
        if shift.p_value <= level and abs(shift.difference) >= least and not found:
            message = messages.share_sentence(f"with a predicted risk at or above {threshold:g}", shift)
            found.append(_violation("predictions", f"above {threshold:g}", message, shift, least))
    for kind, shift in test.classes.items():
        if shift.p_value <= level and abs(shift.difference) >= config.risk_effect:
            message = messages.share_sentence(f"of class {kind}", shift)
            found.append(_violation("predictions", f"class {kind}", message, shift, config.risk_effect))
    shift = test.distribution
    if not found and shift.p_value <= level and shift.current >= config.input_effect:
        message = messages.distribution_sentence(shift, task)
        found.append(_violation("predictions", "distribution", message, shift, config.input_effect))
    return found


def _performance(test: PredictionTest, config: AuditConfig) -> list[Violation]:
    found = []
    for name, shift in test.performance.items():
        least = config.value_effect * test.spread if "error" in test.performance else config.performance_effect
        level = config.levels["calibration" if name == "calibration" else "performance"]
        if shift.p_value <= level and abs(shift.difference) >= least:
            message = messages.performance_sentence(name, shift, test.labelled)
            found.append(_violation("performance", name, message, shift, least))
    return found


def _calibration_trend(result: ComparisonResult, config: AuditConfig) -> list[Violation]:
    """The outcomes of the last windows together, which prove weaker shifts than those of one window."""
    test, shift = result.predictions, result.calibration_trend
    if test is None or shift is None or shift.p_value > config.levels["calibration_trend"]:
        return []
    least = config.value_effect * test.spread if "error" in test.performance else config.performance_effect
    if abs(shift.difference) < least:
        return []
    message = messages.calibration_trend_sentence(shift, result.trend_windows)
    return [_violation("performance", "calibration trend", message, shift, least)]


def _inputs(inputs: InputTest, result: ComparisonResult, config: AuditConfig) -> list[Violation]:
    """Channels whose values or gaps moved far: those that moved in nearly all stays, whatever rests on them, then those
    on which predictions rest, the one on which most rests first.
    """
    effects, attention, level = result.effects, result.importance, config.levels["inputs"]
    if effects is None or attention is None:
        return []
    broken: list[Violation] = []
    found: list[Violation] = []
    least = config.important * float(effects.mean())
    for place in np.argsort(-effects, kind="stable"):
        name = result.channel_names[place]
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
        resting = f"predictions move by {messages.number(float(effects[place]))} on average without it"
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
    overall = broken + found
    return overall + _slice_inputs(result, {violation.subject for violation in overall}, config)


def _slice_inputs(result: ComparisonResult, reported: set[str], config: AuditConfig) -> list[Violation]:
    """Important channels that moved within a slice and are not reported yet: each in the slice where it is surest."""
    effects = result.effects
    if effects is None:
        return []
    found = []
    for each in result.slice_inputs:
        name = result.channel_names[each.channel]
        matters = effects[each.channel] >= config.important * float(effects.mean()) and effects[each.channel] > 0
        proven = each.p_value <= config.levels["slices"] and each.gap >= config.input_effect
        if name in reported or not matters or not proven:
            continue
        reported.add(name)
        message = (
            f"The inputs of {name} moved in {each.slice} ({percent(each.share)} of the stays; predictions move by "
            f"{messages.number(float(effects[each.channel]))} on average without it): "
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
        return f"it is measured {'less' if shift > 0 else 'more'} often in about {percent(gap)} of the stays"
    return f"values are {'higher' if shift > 0 else 'lower'} in about {percent(gap)} of the stays"


def _violation(
    kind: str, subject: str, message: str, shift: Shift, threshold: float, value: float | None = None
) -> Violation:
    """`value`: what the threshold is of, if it is not the difference."""
    return Violation(
        kind=kind,
        subject=subject,
        message=message,
        value=shift.difference if value is None else value,
        threshold=threshold,
        p_value=shift.p_value,
        low=shift.low,
        high=shift.high,
    )

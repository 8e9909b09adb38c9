"""What an audit finds: attention that moved, now or little by little, masks that got worse, a version that differs."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.audit import messages
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.evidence import QUALITY_NAMES, Evidence, quality_kind
from dynamask_mlflow.audit.statistics import DriftTest, Effect, VersionShift
from dynamask_mlflow.audit.verdict import Violation


def findings(evidence: Evidence, config: AuditConfig) -> list[Violation]:
    """Everything that is drift, the most important first."""
    found = [] if evidence.drift is None else _attention(evidence.drift, evidence, config)
    if not found and evidence.trend is not None:
        found = _trend(evidence.trend, evidence, config)
    found += _quality(evidence, config)
    if evidence.versions is not None:
        found += _versions(evidence.versions, evidence.channel_names, config)
    return found


def _attention(test: DriftTest, evidence: Evidence, config: AuditConfig) -> list[Violation]:
    """Beyond chance, and by more than `effect`, or than another seed would move, for all that is known."""
    if test.p_value > config.levels["attention"]:
        return []
    return [
        _moved("attention", subject, text, effect, least, test)
        for subject, effect, text in _axes(test, evidence, config)
        if effect.lower >= (least := max(config.effect, evidence.noise.get(subject, 0.0)))
    ]


def _trend(test: DriftTest, evidence: Evidence, config: AuditConfig) -> list[Violation]:
    """The last windows together; of both axes the one that moved further."""
    if test.p_value > config.levels["trend"]:
        return []
    subject, effect, text = max(_axes(test, evidence, config), key=lambda axis: axis[1].lower)
    if effect.lower < config.trend_effect:
        return []
    text = f"A weak move persists over the last {evidence.trend_windows} windows: {text[:1].lower()}{text[1:]}"
    return [_moved("trend", subject, text, effect, config.trend_effect, test)]


def _axes(test: DriftTest, evidence: Evidence, config: AuditConfig) -> list[tuple[str, Effect, str]]:
    channels = messages.channel_sentence(test, evidence.channel_names, config.locate_alpha)
    hours = messages.hour_sentence(test, evidence.times, config.time_unit, config.block)
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


def _quality(evidence: Evidence, config: AuditConfig) -> list[Violation]:
    found = []
    for name, shift in evidence.quality.items():
        if shift.p_value > config.levels["quality"] or abs(shift.effect) < config.quality_effect:
            continue
        text = (
            f"The {QUALITY_NAMES[name]} changed from {shift.reference:.3g} to {shift.current:.3g} "
            f"({abs(shift.effect):.2g} standard deviations, {messages.chance(shift.p_value)})."
        )
        found.append(
            Violation(
                kind=quality_kind(name),
                subject=name,
                message=text,
                value=shift.effect,
                threshold=config.quality_effect,
                p_value=shift.p_value,
                low=shift.low,
                high=shift.high,
            )
        )
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

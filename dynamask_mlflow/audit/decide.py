"""From evidence to verdict: what forbids a judgement, what is drift, and what proves that nothing moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynamask_mlflow.audit import words
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.evidence import QUALITY_NAMES, Evidence, quality_kind
from dynamask_mlflow.audit.statistics import DriftTest, VersionShift, e_cusum
from dynamask_mlflow.audit.verdict import State, Verdict, Violation


def decide(evidence: Evidence, config: AuditConfig, **about: Any) -> Verdict:
    """The verdict on a window.

    In this order: what makes the comparison void is INCONCLUSIVE; a move beyond chance and of some size is DRIFT; upper
    bounds below the tolerance are OK; anything else is INCONCLUSIVE.

    Args:
        about: model, version, window, reference_run_id.
    """
    void = _void(evidence, config)
    found = _findings(evidence, config)
    state: State
    if void:
        state, violations = "inconclusive", void + found
    elif found:
        state, violations = "drift", found
    else:
        violations = _unproven(evidence, config)
        state = "inconclusive" if violations else "ok"
    reasons = [violation.message for violation in violations]
    if state == "ok" and evidence.drift is not None:
        reasons.append(
            "Attention did not move: at most "
            f"{words.percent(evidence.drift.channels.upper)} between channels and "
            f"{words.percent(evidence.drift.hours.upper)} in time (95 % bounds), {evidence.instances} stays."
        )
    canary = evidence.canary
    if canary is not None and canary.clean and not canary.identical:
        reasons.append(
            "The stored anchors, fitted again, are not the same to the last bit: another machine, another library, or "
            f"another model under the same name ({words.percent(max(canary.moved, canary.moved_hours))} moved)."
        )
    if evidence.inputs is not None:
        reasons.append(words.input_sentence(evidence.inputs, evidence.channel_names, config.input_level))
    channels, times = _moved(evidence.drift, evidence, config, state)
    return Verdict(
        state=state,
        reasons=tuple(reasons),
        violations=tuple(violations),
        causes=_causes(found, evidence, config),
        metrics=metrics_of(evidence, config),
        moved_channels=channels,
        moved_times=times,
        **about,
    )


def _void(evidence: Evidence, config: AuditConfig) -> list[Violation]:
    found = [Violation(kind=kind, subject="reference", message=text) for kind, text in evidence.blockers.items()]
    if found:
        return found
    share = evidence.failures / max(evidence.sampled, 1)
    if share > config.max_failures:
        text = f"{evidence.failures} of {evidence.sampled} stays could not be explained: {evidence.first_failure}"
        found.append(
            Violation(kind="failures", subject="stays", message=text, value=share, threshold=config.max_failures)
        )
    if evidence.instances < config.minimum:
        text = f"{evidence.instances} stays are too few to judge; at least {config.minimum} are needed."
        found.append(_sample(text, evidence.instances, config.minimum))
    if evidence.reference_instances < config.minimum:
        text = f"The reference has {evidence.reference_instances} stays; at least {config.minimum} are needed."
        found.append(_sample(text, evidence.reference_instances, config.minimum))
    canary = evidence.canary
    if canary is not None and not canary.clean:
        text = (
            f"The stored anchors, fitted again, look elsewhere ({words.percent(max(canary.moved, canary.moved_hours))}"
            " moved): the model or the runtime changed under the same name."
        )
        value = max(canary.moved, canary.moved_hours)
        found.append(
            Violation(kind="canary", subject="anchors", message=text, value=value, threshold=config.canary_tolerance)
        )
    if evidence.changed_anchors:
        text = f"The inputs of {evidence.changed_anchors} stored anchors are no longer the same in the data."
        found.append(Violation(kind="canary", subject="inputs", message=text, value=evidence.changed_anchors))
    trust = evidence.trust
    if trust is not None and not trust.trusted and evidence.instances >= config.trust_minimum:
        text = (
            "The masks are not to be trusted: they move the prediction more than another patient's mask in "
            f"{words.percent(trust.wins_other)} and more than the mean map in {words.percent(trust.wins_mean_map)} "
            "of the stays."
        )
        p = max(trust.p_other, trust.p_mean_map)
        found.append(Violation(kind="trust", subject="masks", message=text, p_value=p, threshold=config.trust_alpha))
    return found


def _findings(evidence: Evidence, config: AuditConfig) -> list[Violation]:
    found: list[Violation] = []
    test = evidence.drift
    if test is not None:
        if test.p_value <= config.alpha:
            for subject, effect, text in (
                ("channels", test.channels, words.channel_sentence(test, evidence.channel_names, config.alpha)),
                ("hours", test.hours, words.hour_sentence(test, evidence.times, config.time_unit, config.block)),
            ):
                if effect.moved >= config.effect:
                    found.append(
                        Violation(
                            kind="attention",
                            subject=subject,
                            message=text,
                            value=effect.moved,
                            threshold=config.effect,
                            p_value=test.p_value,
                            low=effect.low,
                            high=effect.high,
                        )
                    )
        trend = cusum_of(evidence, config)
        if trend.alarms[-1] and not found:
            text = (
                f"A weak move of attention persists: {words.percent(trend.effects[-1])} on average over the last "
                f"{config.cusum_window} audits."
            )
            found.append(
                Violation(
                    kind="trend",
                    subject="attention",
                    message=text,
                    value=trend.values[-1],
                    threshold=config.cusum_threshold,
                )
            )
    for name, shift in evidence.quality.items():
        if shift.p_value <= config.alpha and abs(shift.effect) >= config.quality_effect:
            text = (
                f"The {QUALITY_NAMES[name]} changed from {shift.reference:.3g} to {shift.current:.3g} "
                f"({abs(shift.effect):.2g} standard deviations, {words.chance(shift.p_value)})."
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
    if evidence.versions is not None:
        found += _version_findings(evidence.versions, evidence.channel_names, config)
    return found


def version_alarms(shift: VersionShift, config: AuditConfig) -> list[str]:
    """Which of the limits a new version is beyond: "lost", "channel", "hours"."""
    limits = {
        "lost": (shift.lost, config.version_lost),
        "channel": (shift.largest, config.version_channel),
        "hours": (shift.hours, config.version_hours),
    }
    return [name for name, (value, limit) in limits.items() if value >= limit]


def _version_findings(shift: VersionShift, names: tuple[str, ...], config: AuditConfig) -> list[Violation]:
    verb = "gained" if shift.channel_shift[shift.channel] > 0 else "lost"
    sentences = {
        "lost": (
            names[shift.lost_channel],
            f"The new version hardly looks at {names[shift.lost_channel]} any more: "
            f"{words.percent(shift.lost)} of its share is gone on the same stays.",
            shift.lost,
            config.version_lost,
        ),
        "channel": (
            names[shift.channel],
            f"The new version looks elsewhere on the same stays: {names[shift.channel]} {verb} "
            f"{words.percent(shift.largest)}.",
            shift.largest,
            config.version_channel,
        ),
        "hours": (
            "hours",
            f"The new version looks at other {config.time_unit}s of the same stays: "
            f"{words.percent(shift.hours)} moved.",
            shift.hours,
            config.version_hours,
        ),
    }
    return [_version(*sentences[name]) for name in version_alarms(shift, config)]


def _unproven(evidence: Evidence, config: AuditConfig) -> list[Violation]:
    if evidence.drift is None:
        return [Violation(kind="power", subject="stays", message="There was nothing to compare.")]
    test = evidence.drift
    found = []
    for subject, effect in (("between channels", test.channels), ("in time", test.hours)):
        if effect.upper >= config.tolerance:
            text = (
                f"No drift was found, but a move of up to {words.percent(effect.upper)} {subject} cannot be excluded "
                f"with {evidence.instances} stays."
            )
            found.append(
                Violation(kind="power", subject=subject, message=text, value=effect.upper, threshold=config.tolerance)
            )
    return found


def cusum_of(evidence: Evidence, config: AuditConfig) -> Any:
    """The e-CUSUM over the earlier audits and this one."""
    assert evidence.drift is not None
    now = (evidence.drift.p_value, max(evidence.drift.channels.moved, evidence.drift.hours.moved))
    series = [*evidence.history, now]
    return e_cusum(
        [p for p, _ in series],
        [effect for _, effect in series],
        config.cusum_threshold,
        config.cusum_effect,
        config.cusum_window,
    )


def metrics_of(evidence: Evidence, config: AuditConfig) -> dict[str, float]:
    """The numbers of an audit under the names that MLflow logs; only finite ones."""
    found: dict[str, float] = {
        "instances": evidence.instances,
        "reference_instances": evidence.reference_instances,
        "failures": evidence.failures,
        "ndcg": evidence.ndcg,
    }
    test = evidence.drift
    if test is not None:
        found |= {"p_value": test.p_value, "p_energy": test.p_energy}
        found |= {"p_channels": test.p_channels, "p_hours": test.p_hours}
        for name, effect in (("channels", test.channels), ("hours", test.hours)):
            found |= {
                f"moved_{name}": effect.moved,
                f"moved_{name}_low": effect.low,
                f"moved_{name}_high": effect.high,
                f"moved_{name}_upper": effect.upper,
            }
        found["e_cusum"] = cusum_of(evidence, config).values[-1]
    if evidence.inputs is not None:
        found["inputs_moved"] = float(len(evidence.inputs.moved(config.input_level)))
    for name, shift in evidence.quality.items():
        found |= {f"{name}": shift.current, f"{name}_reference": shift.reference, f"{name}_effect": shift.effect}
    if evidence.trust is not None:
        found |= {"trust_wins_other": evidence.trust.wins_other, "trust_wins_mean_map": evidence.trust.wins_mean_map}
    if evidence.canary is not None:
        found |= {"canary_moved": evidence.canary.moved, "canary_identical": float(evidence.canary.identical)}
    if evidence.versions is not None:
        found |= {"version_channels": evidence.versions.channels, "version_hours": evidence.versions.hours}
        found |= {"version_largest": evidence.versions.largest, "version_lost": evidence.versions.lost}
    if evidence.causes is not None:
        found |= {f"cause_{name}": size for name, size in evidence.causes.sizes().items()}
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}


def _causes(found: list[Violation], evidence: Evidence, config: AuditConfig) -> tuple[str, ...]:
    kinds = {violation.kind for violation in found}
    causes = []
    if kinds & {"attention", "trend", "legibility", "faithfulness"}:
        causes.append("data")
    if "version" in kinds:
        causes.append("model")
    if evidence.inputs is not None and evidence.inputs.moved(config.input_level):
        causes.append("inputs")
    return tuple(causes)


def _moved(
    test: DriftTest | None, evidence: Evidence, config: AuditConfig, state: str
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    if test is None or state != "drift":
        return (), ()
    channels = np.flatnonzero(test.channel_p <= config.alpha)
    hours = np.flatnonzero(test.hour_p <= config.alpha)
    return tuple(evidence.channel_names[i] for i in channels), tuple(evidence.times[i] for i in hours)


def _sample(text: str, value: float, threshold: float) -> Violation:
    return Violation(kind="sample", subject="stays", message=text, value=value, threshold=threshold)


def _version(subject: str, text: str, value: float, threshold: float) -> Violation:
    return Violation(kind="version", subject=subject, message=text, value=value, threshold=threshold)

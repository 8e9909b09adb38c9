"""From the result of a comparison to a verdict: what forbids it, what is drift, what warns, what proves it ok."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamask_mlflow._printable import printable
from dynamask_mlflow._provenance import WEIGHTS
from dynamask_mlflow._states import State
from dynamask_mlflow.audit.comparison import ComparisonResult
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.statistics import PredictionTest
from dynamask_mlflow.audit.verdict import messages
from dynamask_mlflow.audit.verdict.diagnosis import diagnose, next_steps, place_sentences
from dynamask_mlflow.audit.verdict.subgroups import subgroup_sentences
from dynamask_mlflow.audit.verdict.verdict import Verdict, Violation
from dynamask_mlflow.audit.verdict.violations import detect_violations, detect_warnings

if TYPE_CHECKING:
    from dynamask_mlflow.audit.culprit import Culprit

_LONGEST = 4000  # letters of a sentence


def evaluate_verdict(
    result: ComparisonResult, config: AuditConfig, culprits: Sequence[Culprit] = (), **about: Any
) -> Verdict:
    """The verdict on a window.

    In this order: what makes the comparison invalid is INCONCLUSIVE; a move of attention beyond chance with a lower
    bound of some size is DRIFT; predictions, or inputs that matter, that moved are a WARNING; upper bounds below the
    tolerance are OK; anything else is INCONCLUSIVE. Masks that are not to be trusted invalidate what they show, but not
    the other arms.

    Args:
        culprits: where findings sit, if that was searched.
        about: model, version, site, window, content, reference_run_id.
    """
    invalidating = _invalidating(result, config)
    found, warned = detect_violations(result, config), detect_warnings(result, config)
    if invalidating:
        trusted_elsewhere = warned and {violation.kind for violation in invalidating} == {"trust"}
        state = State.WARNING if trusted_elsewhere else State.INCONCLUSIVE
        violations = [*warned, *invalidating, *found] if trusted_elsewhere else [*invalidating, *found, *warned]
    elif found or warned:
        state, violations = State.DRIFT if found else State.WARNING, [*found, *warned]
    else:
        violations = _underpowered(result)
        state = State.INCONCLUSIVE if violations else State.OK
    channels, times = _moved(found, result, config, state)
    verdict = Verdict(
        state=state,
        reasons=tuple(_reasons(state, violations, result, config)),
        diagnosis=diagnose(result, violations, config, culprits),
        places=place_sentences(culprits),
        steps=next_steps(state, result, violations, config, culprits),
        violations=tuple(violations),
        causes=_causes(found, warned, result, config),
        metrics={**metrics_of(result, config), "invalidated": float(bool(invalidating))},
        moved_channels=channels,
        moved_times=times,
        moved_inputs=_moved_inputs(result, config),
        subgroups=subgroup_sentences(result.groups, result.task, config),
        culprit=culprits[0].names if culprits else (),
        **about,
    )
    return _called(verdict, config.sequence_name)


def _called(verdict: Verdict, name: str) -> Verdict:
    """Every sentence speaks of stays; another name stands in its place, and nowhere else.

    Names of channels and groups are anybody's: what breaks, hides or turns round a line is escaped, and no sentence is
    so long that nothing else is seen.
    """

    def said(sentences: Sequence[str]) -> tuple[str, ...]:
        return tuple(printable(messages.call(text, name), _LONGEST) for text in sentences)

    told: dict[str, Any] = {
        part: said(getattr(verdict, part)) for part in ("reasons", "diagnosis", "places", "steps", "subgroups")
    }
    violations = tuple(
        replace(each, message=printable(messages.call(each.message, name), _LONGEST)) for each in verdict.violations
    )
    return replace(verdict, violations=violations, **told)


def _reasons(state: State, violations: list[Violation], result: ComparisonResult, config: AuditConfig) -> list[str]:
    reasons = [violation.message for violation in violations]
    test = result.drift
    if test is not None and state in (State.OK, State.WARNING):
        bounds = (
            f"at most {messages.percent(test.channels.upper)} between channels and "
            f"{messages.percent(test.hours.upper)} in time (95 % bounds; ok needs less than "
            f"{messages.percent(result.tolerance)}), {result.instances} stays."
        )
        proven = max(test.channels.upper, test.hours.upper) < result.tolerance
        what = "Attention hardly moved" if proven else "No move of attention is proven"
        if test.p_value <= config.levels["attention"]:
            what = f"Attention moved beyond chance, but not surely by {messages.percent(config.effect)}"
        reasons.append(f"{what}: {bounds}")
    if result.under:
        reasons += messages.version_sentences(result.under, result.between_versions, result.task)
        if result.versions is not None and not any(violation.kind == "version" for violation in violations):
            reasons.append(messages.same_attention_sentence(result.versions, result.channel_names, result.under))
    said = any(violation.kind == "predictions" and violation.subject == "mean" for violation in violations)
    if result.predictions is not None and not said:
        task = result.task
        reasons.append(messages.mean_sentence(result.predictions, task, config.levels["predictions"]))
    if (
        result.predictions is not None
        and result.predictions.performance
        and not any(violation.kind == "performance" for violation in violations)
    ):
        reasons.append(messages.outcome_sentence(result.predictions))
    left_out = messages.left_out_sentence(result)
    if left_out is not None:
        reasons.append(left_out)
    canary = result.canary
    if canary is not None and canary.clean and not canary.identical:
        reasons.append(messages.last_bit_sentence(canary))
    if result.inputs is not None:
        reasons.append(messages.input_sentence(result.inputs, result.channel_names, config.input_level))
    return reasons


def _invalidating(result: ComparisonResult, config: AuditConfig) -> list[Violation]:
    found = [Violation(kind=kind, subject="reference", message=text) for kind, text in result.blockers.items()]
    if found:
        return found
    share = result.failures / max(result.sampled, 1)
    if share > config.max_failures:
        text = f"{result.failures} of {result.sampled} stays could not be explained: {result.first_failure}"
        found.append(
            Violation(kind="failures", subject="stays", message=text, value=share, threshold=config.max_failures)
        )
    if result.instances < config.minimum:
        text = f"{result.instances} stays are too few to judge; at least {config.minimum} are needed."
        found.append(_sample(text, result.instances, config.minimum))
    if result.reference_instances < config.minimum:
        text = f"The reference has {result.reference_instances} stays; at least {config.minimum} are needed."
        found.append(_sample(text, result.reference_instances, config.minimum))
    canary = result.canary
    if canary is not None and not canary.clean:
        changed = canary.changed or {}
        subject = "model" if WEIGHTS in changed else "runtime" if changed else "anchors"
        text = messages.canary_sentence(canary)
        found.append(Violation(kind="canary", subject=subject, message=text, value=canary.each, threshold=canary.limit))
    if result.changed_anchors:
        text = f"The inputs of {result.changed_anchors} stored anchors are no longer the same in the data."
        found.append(Violation(kind="canary", subject="inputs", message=text, value=result.changed_anchors))
    trust = result.trust
    if trust is not None and not trust.trusted and (trust.enough or not found):
        text = (
            "The masks are not to be trusted: they move the prediction more than another stay's mask in "
            f"{messages.percent(trust.wins_other)} and more than the mean map in "
            f"{messages.percent(trust.wins_mean_map)} of {trust.instances} stays."
        )
        p = max(trust.p_other, trust.p_mean_map)
        found.append(Violation(kind="trust", subject="masks", message=text, p_value=p, threshold=config.trust_alpha))
    return found


def _underpowered(result: ComparisonResult) -> list[Violation]:
    if result.drift is None:
        return [Violation(kind="power", subject="stays", message="There was nothing to compare.")]
    test = result.drift
    found = []
    for subject, effect in (("between channels", test.channels), ("in time", test.hours)):
        if effect.upper >= result.tolerance:
            text = (
                f"No drift was found, but a move of up to {100 * effect.upper:.1f} % {subject} cannot be excluded "
                f"with {result.instances} stays; ok needs less than {100 * result.tolerance:.1f} %."
            )
            found.append(
                Violation(kind="power", subject=subject, message=text, value=effect.upper, threshold=result.tolerance)
            )
    return found


def _causes(
    found: list[Violation], warned: list[Violation], result: ComparisonResult, config: AuditConfig
) -> tuple[str, ...]:
    kinds = {violation.kind for violation in [*found, *warned]}
    causes = []
    if kinds & {"attention", "trend", "legibility", "faithfulness"}:
        causes.append("data")
    if "version" in kinds:
        causes.append("model")
    if _moved_inputs(result, config):
        causes.append("inputs")
    if kinds & {"predictions", "performance"}:
        causes.append("predictions")
    if "subgroup" in kinds:
        causes.append("subgroups")
    return tuple(causes)


def _moved_inputs(result: ComparisonResult, config: AuditConfig) -> tuple[str, ...]:
    places = () if result.inputs is None else result.inputs.moved(config.input_level)
    return tuple(result.channel_names[place] for place in places)


def _moved(
    found: list[Violation], result: ComparisonResult, config: AuditConfig, state: State
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Names of the channels and hours that moved, by the test that alarmed."""
    kinds = {violation.kind for violation in found}
    test = result.trend if "trend" in kinds else result.drift
    if test is None or state != State.DRIFT:
        return (), ()
    channels = np.flatnonzero(test.channel_p <= config.locate_alpha)
    hours = np.flatnonzero(test.hour_p <= config.locate_alpha)
    return tuple(result.channel_names[i] for i in channels), tuple(result.times[i] for i in hours)


def _sample(text: str, value: float, threshold: float) -> Violation:
    return Violation(kind="sample", subject="stays", message=text, value=value, threshold=threshold)


def metrics_of(result: ComparisonResult, config: AuditConfig) -> dict[str, float]:
    """Name -> value; only finite ones."""
    found: dict[str, float] = {
        "instances": result.instances,
        "reference_instances": result.reference_instances,
        "failures": result.failures,
        "left_out": result.failures + result.idle,
        "ndcg": result.ndcg,
    }
    test = result.drift
    if test is not None:
        found |= {"p_value": test.p_value, "p_energy": test.p_energy}
        found |= {"p_channels": test.p_channels, "p_hours": test.p_hours, "tolerance": result.tolerance}
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
    found |= {f"noise_{name}": value for name, value in result.noise.items()}
    trend = result.trend
    if trend is not None:
        found |= {"trend_p_value": trend.p_value, "trend_windows": result.trend_windows}
        found |= {"trend_moved_channels": trend.channels.moved, "trend_moved_hours": trend.hours.moved}
    if result.calibration_trend is not None:
        found["calibration_trend"] = result.calibration_trend.current
        found["calibration_trend_p_value"] = result.calibration_trend.p_value
    if result.inputs is not None:
        found["inputs_moved"] = float(len(result.inputs.moved(config.input_level)))
    if result.predictions is not None:
        found |= _prediction_metrics(result.predictions)
    for name, shift in result.quality.items():
        found |= {f"{name}": shift.current, f"{name}_reference": shift.reference, f"{name}_effect": shift.effect}
    if result.trust is not None:
        found |= {"trust_wins_other": result.trust.wins_other, "trust_wins_mean_map": result.trust.wins_mean_map}
    if result.canary is not None:
        found |= {"canary_moved": result.canary.moved, "canary_each": result.canary.each}
        found |= {"canary_identical": float(result.canary.identical)}
    if result.versions is not None:
        found |= {"version_channels": result.versions.channels, "version_hours": result.versions.hours}
        found |= {"version_largest": result.versions.largest, "version_lost": result.versions.lost}
    if result.between_versions is not None:
        found |= {"version_predicted": result.between_versions.difference}
    if result.causes is not None:
        found |= {f"cause_{name}": size for name, size in result.causes.sizes().items()}
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}


def _prediction_metrics(test: PredictionTest) -> dict[str, float]:
    named = {"predicted": test.mean, **{f"predicted_above_{t:g}": shift for t, shift in test.above.items()}}
    named |= {f"predicted_class_{kind}": shift for kind, shift in test.classes.items()}
    named |= dict(test.performance)
    found = {"predictions_p_value": test.p_value, "predictions_distance": test.distribution.current}
    for name, shift in named.items():
        found |= {name: shift.current, f"{name}_reference": shift.reference, f"{name}_p_value": shift.p_value}
        found |= {f"{name}_low": shift.low, f"{name}_high": shift.high}
    found["predicted_stays"] = float(test.stays[1])
    if any(test.labelled):
        found["labelled"] = float(test.labelled[1])
    return found

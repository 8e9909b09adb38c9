"""From evidence to verdict: what forbids a judgement, what is drift, what warns, and what proves that nothing moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynamask_mlflow._states import State
from dynamask_mlflow.audit import messages, prediction_messages
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.diagnosis import diagnose
from dynamask_mlflow.audit.evidence import Evidence
from dynamask_mlflow.audit.findings import findings
from dynamask_mlflow.audit.numbers import metrics_of
from dynamask_mlflow.audit.runtime import WEIGHTS
from dynamask_mlflow.audit.subgroups import subgroup_sentences
from dynamask_mlflow.audit.verdict import Verdict, Violation
from dynamask_mlflow.audit.warning_findings import task_of, warning_findings


def decide(evidence: Evidence, config: AuditConfig, **about: Any) -> Verdict:
    """The verdict on a window.

    In this order: what makes the comparison void is INCONCLUSIVE; a move of attention beyond chance with a lower bound
    of some size is DRIFT; predictions, or inputs that matter, that moved are a WARNING; upper bounds below the
    tolerance are OK; anything else is INCONCLUSIVE. Masks that are not to be trusted void what they say, but not the
    other arms.

    Args:
        about: model, version, site, window, content, reference_run_id.
    """
    void = _void(evidence, config)
    found, warned = findings(evidence, config), warning_findings(evidence, config)
    if void:
        trusted_elsewhere = warned and {violation.kind for violation in void} == {"trust"}
        state = State.WARNING if trusted_elsewhere else State.INCONCLUSIVE
        violations = [*warned, *void, *found] if trusted_elsewhere else [*void, *found, *warned]
    elif found or warned:
        state, violations = State.DRIFT if found else State.WARNING, [*found, *warned]
    else:
        violations = _underpowered(evidence)
        state = State.INCONCLUSIVE if violations else State.OK
    channels, times = _moved(found, evidence, config, state)
    return Verdict(
        state=state,
        reasons=tuple(_reasons(state, violations, evidence, config)),
        diagnosis=(
            *(culprit.sentence() for culprit in evidence.culprits),
            *diagnose(evidence, violations, config),
        ),
        violations=tuple(violations),
        causes=_causes(found, warned, evidence, config),
        metrics={**metrics_of(evidence, config), "void": float(bool(void))},
        moved_channels=channels,
        moved_times=times,
        moved_inputs=_moved_inputs(evidence, config),
        subgroups=subgroup_sentences(evidence.groups, task_of(evidence), config),
        culprit=evidence.culprits[0].names if evidence.culprits else (),
        **about,
    )


def _reasons(state: State, violations: list[Violation], evidence: Evidence, config: AuditConfig) -> list[str]:
    reasons = [violation.message for violation in violations]
    test = evidence.drift
    if test is not None and state in (State.OK, State.WARNING):
        bounds = (
            f"at most {messages.percent(test.channels.upper)} between channels and "
            f"{messages.percent(test.hours.upper)} in time (95 % bounds), {evidence.instances} stays."
        )
        proven = max(test.channels.upper, test.hours.upper) < evidence.tolerance
        reasons.append(f"{'Attention did not move' if proven else 'No move of attention is proven'}: {bounds}")
    if evidence.under:
        reasons += prediction_messages.version_sentences(evidence.under, evidence.between_versions, task_of(evidence))
    said = any(violation.kind == "predictions" and violation.subject == "mean" for violation in violations)
    if evidence.predictions is not None and not said:
        task = task_of(evidence)
        reasons.append(prediction_messages.mean_sentence(evidence.predictions, task, config.levels["predictions"]))
    left_out = messages.left_out_sentence(evidence)
    if left_out is not None:
        reasons.append(left_out)
    canary = evidence.canary
    if canary is not None and canary.clean and not canary.identical:
        reasons.append(messages.last_bit_sentence(canary))
    if evidence.inputs is not None:
        reasons.append(messages.input_sentence(evidence.inputs, evidence.channel_names, config.input_level))
    return reasons


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
        changed = canary.changed or {}
        subject = "model" if WEIGHTS in changed else "runtime" if changed else "anchors"
        text = messages.canary_sentence(canary)
        found.append(Violation(kind="canary", subject=subject, message=text, value=canary.each, threshold=canary.limit))
    if evidence.changed_anchors:
        text = f"The inputs of {evidence.changed_anchors} stored anchors are no longer the same in the data."
        found.append(Violation(kind="canary", subject="inputs", message=text, value=evidence.changed_anchors))
    trust = evidence.trust
    if trust is not None and not trust.trusted and (trust.enough or not found):
        text = (
            "The masks are not to be trusted: they move the prediction more than another patient's mask in "
            f"{messages.percent(trust.wins_other)} and more than the mean map in "
            f"{messages.percent(trust.wins_mean_map)} of {trust.instances} stays."
        )
        p = max(trust.p_other, trust.p_mean_map)
        found.append(Violation(kind="trust", subject="masks", message=text, p_value=p, threshold=config.trust_alpha))
    return found


def _underpowered(evidence: Evidence) -> list[Violation]:
    if evidence.drift is None:
        return [Violation(kind="power", subject="stays", message="There was nothing to compare.")]
    test = evidence.drift
    found = []
    for subject, effect in (("between channels", test.channels), ("in time", test.hours)):
        if effect.upper >= evidence.tolerance:
            text = (
                f"No drift was found, but a move of up to {messages.percent(effect.upper)} {subject} cannot be "
                f"excluded with {evidence.instances} stays; ok needs less than {messages.percent(evidence.tolerance)}."
            )
            found.append(
                Violation(kind="power", subject=subject, message=text, value=effect.upper, threshold=evidence.tolerance)
            )
    return found


def _causes(
    found: list[Violation], warned: list[Violation], evidence: Evidence, config: AuditConfig
) -> tuple[str, ...]:
    kinds = {violation.kind for violation in [*found, *warned]}
    causes = []
    if kinds & {"attention", "trend", "legibility", "faithfulness"}:
        causes.append("data")
    if "version" in kinds:
        causes.append("model")
    if _moved_inputs(evidence, config):
        causes.append("inputs")
    if kinds & {"predictions", "performance"}:
        causes.append("predictions")
    if "subgroup" in kinds:
        causes.append("subgroups")
    return tuple(causes)


def _moved_inputs(evidence: Evidence, config: AuditConfig) -> tuple[str, ...]:
    places = () if evidence.inputs is None else evidence.inputs.moved(config.input_level)
    return tuple(evidence.channel_names[place] for place in places)


def _moved(
    found: list[Violation], evidence: Evidence, config: AuditConfig, state: State
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Names of the channels and hours that moved, by the test that alarmed."""
    kinds = {violation.kind for violation in found}
    test = evidence.trend if "trend" in kinds else evidence.drift
    if test is None or state != State.DRIFT:
        return (), ()
    channels = np.flatnonzero(test.channel_p <= config.locate_alpha)
    hours = np.flatnonzero(test.hour_p <= config.locate_alpha)
    return tuple(evidence.channel_names[i] for i in channels), tuple(evidence.times[i] for i in hours)


def _sample(text: str, value: float, threshold: float) -> Violation:
    return Violation(kind="sample", subject="stays", message=text, value=value, threshold=threshold)

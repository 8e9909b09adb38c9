"""Which fault the findings fit: a combination of arms, said in words with the evidence for it. A hint, not a proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dynamask_mlflow._states import State
from dynamask_mlflow.audit.comparison import ComparisonResult
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.verdict.input_faults import input_faults
from dynamask_mlflow.audit.verdict.messages import joined
from dynamask_mlflow.audit.verdict.verdict import Violation

if TYPE_CHECKING:
    from dynamask_mlflow.audit.culprit import Culprit


def diagnose(
    result: ComparisonResult, violations: Sequence[Violation], config: AuditConfig, culprits: Sequence[Culprit] = ()
) -> tuple[str, ...]:
    """Sentences, the most important first; none if nothing was found. `culprits`: with what raw events show."""
    if not violations:
        return ()
    kinds = {violation.kind for violation in violations}
    warned = {violation.subject for violation in violations if violation.kind == "inputs"}
    found = [*_model(kinds, result), *(fault.text for fault in input_faults(result, config, culprits, warned))]
    found += _outcome(kinds, result, config)
    if not found and kinds & {"attention", "trend", "predictions"} and result.inputs is not None:
        found.append(
            "No channel's mean or gaps moved measurably: this fits a change within the stays (when, in what order, "
            "or together with what things are measured), such as shifted clocks."
        )
    return tuple(found)


def place_sentences(culprits: Sequence[Culprit]) -> tuple[str, ...]:
    """Where findings sit; those without a place in one sentence; then the codes that changed."""
    searched = [culprit for culprit in culprits if culprit.searched]
    found = [culprit.sentence() for culprit in searched if culprit.found is not None]
    nowhere = [culprit for culprit in searched if culprit.found is None]
    if len(nowhere) == 1:
        found.append(nowhere[0].sentence())
    elif nowhere:
        since = "".join(f" That of {each.what} begins on {each.since}." for each in nowhere if each.since)
        found.append(
            f"No slice of the stays explains the changes of {joined([each.what for each in nowhere])}: they are "
            f"everywhere, or too small to place.{since}"
        )
    codes = [culprit.code_sentence() for culprit in culprits]
    return (*found, *(text for text in codes if text is not None))


def next_steps(
    state: State,
    result: ComparisonResult,
    violations: Sequence[Violation],
    config: AuditConfig,
    culprits: Sequence[Culprit] = (),
) -> tuple[str, ...]:
    """What to do about a verdict, one sentence each, the first step first."""
    kinds = {violation.kind for violation in violations}
    told = _STEPS | ({"power": _ALL_EXPLAINED} if 0 < result.population <= result.sampled else {})
    steps = [text for kind, text in told.items() if kind in kinds]
    warned = {violation.subject for violation in violations if violation.kind == "inputs"}
    faults = [] if state == State.OK or not violations else input_faults(result, config, culprits, warned)
    steps += [f"{fault.subject}: {FAULT_STEPS[fault.kind]}" for fault in faults]
    unsure = {"values", "gaps"} & {fault.kind for fault in faults}
    if unsure and config.events is None:
        steps.append("Audit with the raw tables (--events), which tell whether a code, or its values, changed.")
    if kinds & {"attention", "trend", "predictions"} and not faults and "version" not in kinds:
        steps.append("Look at when things are recorded: time stamps, their zone, and delays of the interfaces.")
    known = result.predictions is not None and result.predictions.labelled[1] > 0
    if kinds & {"attention", "trend", "predictions", "inputs"} and not known:
        steps.append("Add the outcomes as soon as they are known (audit labels): they tell whether predictions hold.")
    return tuple(dict.fromkeys(steps))


_STEPS = {
    "settings": "Audit with the settings of the reference, or build a reference with the new ones (audit reference).",
    "channels": "Build the data with the reference's features, or build a new reference (audit reference).",
    "canary": "Find out what changed, undo it or build a new reference (audit reference), and audit again.",
    "failures": "Mend what the stays fail with, and audit the window again.",
    "sample": "Audit a longer window.",
    "trust": "Do not read these masks; look at what the model does with its inputs before it is explained.",
    "power": "Explain more stays (the setting instances), or audit a longer window; nothing is known to be wrong.",
    "version": "Let the owner of the model say whether that is meant; dynamask-mlflow gate compares both versions.",
    "performance": "Have somebody look at the outcomes; recalibrate or retrain before thresholds are relied on.",
    "legibility": "Open some stays of this window in the report: the masks are not as they were.",
    "faithfulness": "Open some stays of this window in the report: the masks are not as they were.",
    "subgroup": "Look at the named groups' inputs and outcomes before the model is relied on for them.",
}
_ALL_EXPLAINED = "All stays of the window are explained: audit a longer window; nothing is known to be wrong."
FAULT_STEPS = {
    "unit": "correct the unit at its source or in the feature set, build the data again, and audit the window again; "
    "that audit supersedes this one.",
    "device": "ask who measures it whether a device or an assay changed; if so, and for good, check what predictions "
    "are worth and build a new reference (audit reference).",
    "values": "ask who records it whether the unit, the scale or the device changed.",
    "charting": "ask those who record it why it is measured less often, and whether that is meant to last.",
    "gaps": "ask those who record it, or keep the interface, why it is measured less often.",
    "clock": "compare their time stamps with the beginnings of the stays, and ask those who keep the interface "
    "whether it was down.",
    "patients": "ask whether other kinds of stays come in, and compare predictions with outcomes, also by group.",
    "little": "ask whether a device, an assay or the mix of stays changed.",
}


def _model(kinds: set[str], result: ComparisonResult) -> list[str]:
    changed = (result.canary.changed if result.canary is not None else None) or {}
    if "version" in kinds:
        return ["This fits a change of the model: both versions were asked about the same stays, and differ."]
    if "canary" in kinds and "weights" in changed:
        return ["This fits a change of the model: the weights are not those of the reference."]
    return []


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

"""Which fault the findings fit: a combination of arms, said in words with the evidence for it. A hint, not a proof."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dynamask_mlflow._states import State
from dynamask_mlflow.audit.comparison import ComparisonResult
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.verdict.messages import joined, percent
from dynamask_mlflow.audit.verdict.verdict import Violation

if TYPE_CHECKING:
    from dynamask_mlflow.audit.culprit import Culprit
    from dynamask_mlflow.audit.items import Item

FAR = 0.3  # Kolmogorov-Smirnov distance of values that no ordinary change of patients makes
_MANY = 3  # channels that move together
_SAME, _OTHER = math.log(1.35), math.log(1.6)  # the spread of a channel's values is as before below, another above


def diagnose(
    result: ComparisonResult, violations: Sequence[Violation], config: AuditConfig, culprits: Sequence[Culprit] = ()
) -> tuple[str, ...]:
    """Sentences, the most important first; none if nothing was found. `culprits`: with what raw events show."""
    if not violations:
        return ()
    kinds = {violation.kind for violation in violations}
    warned = {violation.subject for violation in violations if violation.kind == "inputs"}
    found = [*_model(kinds, result), *(text for _, text in _inputs(result, config, culprits, warned))]
    found += _outcome(kinds, result, config)
    if not found and kinds & {"attention", "trend", "predictions"} and result.inputs is not None:
        found.append(
            "No channel's mean or charting moved measurably: this fits a change within the stays (when, in what order, "
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
    steps = [text for kind, text in _STEPS.items() if kind in kinds]
    warned = {violation.subject for violation in violations if violation.kind == "inputs"}
    faults = [] if state == State.OK or not violations else _inputs(result, config, culprits, warned)
    steps += [_FAULT_STEPS[fault] for fault in dict.fromkeys(fault for fault, _ in faults)]
    unsure = {"values", "gaps"} & {fault for fault, _ in faults}
    if unsure and config.events is None:
        steps.append("Audit with the raw tables (`--events`), which tell whether a code, or its values, changed.")
    if kinds & {"attention", "trend", "predictions"} and not faults and "version" not in kinds:
        steps.append("Look at when things are charted: time stamps, their zone, and delays of the interfaces.")
    known = result.predictions is not None and bool(result.predictions.performance)
    if kinds & {"attention", "trend", "predictions", "inputs"} and not known:
        steps.append("Add the outcomes as soon as they are known (`audit labels`): they tell whether predictions hold.")
    return tuple(dict.fromkeys(steps))


_STEPS = {
    "settings": "Audit with the settings of the reference, or build a reference with the new ones (`audit reference`).",
    "channels": "Build the data with the reference's features, or build a new reference (`audit reference`).",
    "canary": "Find out what changed, undo it or build a new reference (`audit reference`), and audit again.",
    "failures": "Mend what the stays fail with, and audit the window again.",
    "sample": "Audit a longer window.",
    "trust": "Do not read these masks; look at what the model does with its inputs before it is explained.",
    "power": "Explain more stays (`instances`), or audit a longer window; nothing is known to be wrong.",
    "version": "Let the owner of the model say whether that is meant; `dynamask-mlflow gate` compares both versions.",
    "performance": "Have somebody look at the outcomes; recalibrate or retrain before thresholds are relied on.",
    "legibility": "Open some stays of this window in the report: the masks are not as they were.",
    "faithfulness": "Open some stays of this window in the report: the masks are not as they were.",
    "subgroup": "Look at the named groups' inputs and outcomes before the model is relied on for them.",
}
_FAULT_STEPS = {
    "unit": "Correct the unit at its source or in the feature set, build the data again, and audit the window again: "
    "that audit supersedes this one.",
    "device": "Ask who measures it whether a device or an assay changed; if it stays, check what predictions are worth "
    "and build a new reference (`audit reference`).",
    "values": "Ask who charts it whether the unit, the scale or the device changed.",
    "charting": "Ask the wards why it is charted less often, and whether that is meant to stay.",
    "gaps": "Ask the wards, and those who keep the interface, why it is charted less often.",
    "patients": "Ask whether the ward admits other patients, and compare predictions with outcomes, also by group "
    "(`--by`).",
    "little": "Ask whether a device, an assay or the kind of patients changed.",
}


def _model(kinds: set[str], result: ComparisonResult) -> list[str]:
    changed = (result.canary.changed if result.canary is not None else None) or {}
    if "version" in kinds:
        return ["This fits a change of the model: both versions were asked about the same stays, and differ."]
    if "canary" in kinds and "weights" in changed:
        return ["This fits a change of the model: the weights are not those of the reference."]
    return []


def _inputs(
    result: ComparisonResult, config: AuditConfig, culprits: Sequence[Culprit], warned: set[str]
) -> list[tuple[str, str]]:
    """(fault, sentence): units that raw events prove come first, then what is about channels that warned."""
    inputs = result.inputs
    if inputs is None:
        return []
    names, level = result.channel_names, config.levels["inputs"]
    values, gaps = inputs.value_p <= level, inputs.missing_p <= level
    grown = gaps & (inputs.missing_shift > 0)
    codes = {each.channel: _known(each) for each in culprits if each.channel is not None and _known(each)}
    others = {
        name: [item for item in known if item.medians is not None]
        for name, known in codes.items()
        if any(item.medians is not None for item in known)
    }
    found: list[tuple[bool, str, str]] = []
    settled = np.zeros(len(names), dtype=bool)
    for name, items in others.items():
        place = names.index(name)
        dropped, spread = bool(grown[place]), _fit(items)
        if not dropped and not (values[place] and spread == "unit"):
            continue
        settled[place] = True
        share = percent(float(inputs.missing_gap[place] if dropped else inputs.value_gap[place]))
        end = (
            f", which are dropped as out of range in {share} of the stays" if dropped else f", in {share} of the stays"
        )
        text = f"This fits another unit for {name}: it is charted, but with other values ({_medians(items)}){end}."
        found.append((True, "unit", text))
    far = values & (inputs.value_gap >= FAR) & ~gaps & ~settled
    near = values & ~far & ~settled
    thinner = grown & ~settled
    many = int((values & ~settled).sum()) >= _MANY
    said = np.isin(np.array(names), list(codes))
    if not many:
        for place in np.flatnonzero(far & said):
            fault = _fit(codes[names[place]])
            what = {"unit": "another unit or scale", "device": "a new device, assay or zero point"}.get(fault, _ANY)
            chosen = np.arange(len(names)) == place
            text = (
                f"This fits {what} for {names[place]}: values moved ({_sizes(names, chosen, inputs.value_gap)}; "
                f"{_medians(codes[names[place]])}){_shape(fault)}, while it is charted as often as before."
            )
            found.append((names[place] in warned, fault, text))
        rest = far & ~said
        if rest.any():
            text = (
                f"This fits {_ANY} for {_named(names, rest, inputs.value_gap)}: values "
                f"moved ({_sizes(names, rest, inputs.value_gap)}), while it is charted as often as before."
            )
            found.append((_any(names, rest, warned), "values", text))
    for chosen, told in ((thinner & said, True), (thinner & ~said, False)):
        if chosen.any():
            found.append((_any(names, chosen, warned), *_thinner(names, chosen, inputs.missing_gap, codes, told)))
    if many:
        count = int((values & ~settled).sum())
        found.append((_any(names, values, warned), "patients", _case_mix(result, config, count)))
    elif near.any() and not far.any():
        text = (
            f"This fits a new device or assay, or somewhat other patients: the values of "
            f"{_named(names, near, inputs.value_gap)} moved a little ({_sizes(names, near, inputs.value_gap)})."
        )
        found.append((_any(names, near, warned), "little", text))
    order = sorted(found, key=lambda each: (each[1] != "unit", not each[0]))
    return [(fault, text) for _, fault, text in order]


_ANY = "another unit, scale or device"


def _thinner(
    names: Sequence[str], chosen: np.ndarray, gap: np.ndarray, codes: Mapping[str | None, list[Item]], told: bool
) -> tuple[str, str]:
    sizes = f"{_named(names, chosen, gap)}: gaps grew ({_sizes(names, chosen, gap)})"
    if not told:
        return "gaps", (
            f"This fits thinner charting, or an interface that drops values, of {sizes}. Values in another unit that "
            "are dropped as out of range look the same; raw events (`events`) would tell."
        )
    largest = names[int(np.argmax(np.where(chosen, gap, -1.0)))]
    return "charting", f"This fits thinner charting of {sizes}; its values are as before ({_medians(codes[largest])})."


def _known(culprit: Culprit) -> list[Item]:
    """The codes whose values can be compared, that of the most stays first."""
    return sorted((item for item in culprit.items if item.quartiles or item.medians), key=lambda item: -item.now)


def _medians(items: Sequence[Item]) -> str:
    told = []
    for item in items[:3]:
        medians = item.medians or (None if item.quartiles is None else (item.quartiles[0][1], item.quartiles[1][1]))
        if medians is not None:
            told.append(f"item {item.code}: median {medians[1]:.4g}, before {medians[0]:.4g}")
    return "; ".join(told)


def _fit(items: Sequence[Item]) -> str:
    """ "unit" if the spread of the values changed, too, "device" if it did not, "values" if that is open.

    Another unit multiplies the spread; another zero point leaves it. The code of the most stays decides.
    """
    first = items[0].quartiles
    if first is None:
        return "unit" if items[0].medians is not None else "values"
    before, now = (quartiles[2] - quartiles[0] for quartiles in first)
    if min(before, now) <= 0:
        return "values"
    size = abs(math.log(now / before))
    return "unit" if size >= _OTHER else "device" if size <= _SAME else "values"


def _shape(fault: str) -> str:
    return {"unit": " and spread otherwise", "device": " and spread as before"}.get(fault, "")


def _any(names: Sequence[str], chosen: np.ndarray, warned: set[str]) -> bool:
    return any(names[place] in warned for place in np.flatnonzero(chosen))


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

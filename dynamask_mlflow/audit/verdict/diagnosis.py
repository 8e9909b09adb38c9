"""Which fault the findings fit: a combination of arms, said in words with the evidence for it. A hint, not a proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

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
    found = [*_model(kinds, result), *(fault.text for fault in _inputs(result, config, culprits, warned))]
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
    faults = [] if state == State.OK or not violations else _inputs(result, config, culprits, warned)
    steps += [f"{fault.subject}: {_FAULT_STEPS[fault.kind]}" for fault in faults]
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
_FAULT_STEPS = {
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


class _Fault(NamedTuple):
    """What inputs fit: the kind, whose step is in `_FAULT_STEPS`, its channels, and whether one of them warned."""

    kind: str
    subject: str
    text: str
    warned: bool


def _model(kinds: set[str], result: ComparisonResult) -> list[str]:
    changed = (result.canary.changed if result.canary is not None else None) or {}
    if "version" in kinds:
        return ["This fits a change of the model: both versions were asked about the same stays, and differ."]
    if "canary" in kinds and "weights" in changed:
        return ["This fits a change of the model: the weights are not those of the reference."]
    return []


class _Moved(NamedTuple):
    """Per channel: whether values moved, and gaps grew; in which share of the stays; how far values moved where they
    did; and " in unit MICU", by kind and channel, where that is known."""

    values: np.ndarray
    grown: np.ndarray
    value_gap: np.ndarray
    missing_gap: np.ndarray
    inside: np.ndarray
    places: dict[tuple[str, int], str]


def _moved(result: ComparisonResult, config: AuditConfig, culprits: Sequence[Culprit]) -> _Moved:
    """In the whole window, or in a slice: the fault of a small ward moves all its stays, and the whole hardly.

    Where nothing is proven at the level of an audit, the channels that are listed as moved count: a finding is there,
    and what it fits is a hint.
    """
    inputs, names, level = result.inputs, result.channel_names, config.levels["inputs"]
    assert inputs is not None
    proven = min(inputs.value_p.min(), inputs.missing_p.min()) <= level
    proven |= any(each.p_value <= config.levels["slices"] for each in result.slice_inputs)
    values = inputs.value_p <= level if proven else inputs.value_q <= config.input_level
    missing = inputs.missing_p <= level if proven else inputs.missing_q <= config.input_level
    found = _Moved(
        values,
        missing & (inputs.missing_shift > 0),
        inputs.value_gap.copy(),
        inputs.missing_gap.copy(),
        np.zeros(len(names)),
        {},
    )
    for each in result.slice_inputs:
        of_values, place = each.kind == "values", each.channel
        moved, gap = (found.values, found.value_gap) if of_values else (found.grown, found.missing_gap)
        if each.p_value > config.levels["slices"] or moved[place] or not (of_values or each.shift > 0):
            continue
        moved[place], gap[place] = True, each.gap * each.share
        found.inside[place] = each.gap if of_values else 0.0
        found.places[each.kind, place] = f" in {each.slice}"
    for culprit in culprits:
        if culprit.found is None or culprit.channel is None:
            continue
        place, kind = names.index(culprit.channel), "values" if culprit.what.endswith("(values)") else "gaps"
        found.places[kind, place] = "".join(f" in {name}" for name in culprit.names)
        if kind == "values":  # a mean change of places is at most the distance of both distributions
            found.inside[place] = abs(culprit.found.inside)
    return found


def _inputs(
    result: ComparisonResult, config: AuditConfig, culprits: Sequence[Culprit], warned: set[str]
) -> list[_Fault]:
    """Units that raw events prove come first, then what is about channels that warned."""
    inputs = result.inputs
    if inputs is None:
        return []
    names, level = result.channel_names, config.levels["inputs"]
    gaps = inputs.missing_p <= level
    values, grown, value_gap, missing_gap, inside, places = _moved(result, config, culprits)
    codes = {each.channel: known for each in culprits if each.channel is not None and (known := _known(each))}
    said = np.isin(np.array(names), list(codes))
    found: list[_Fault] = []

    def add(kind: str, chosen: np.ndarray, gap: np.ndarray, text: str) -> None:
        what = "values" if gap is value_gap else "gaps"
        named = _named([name + places.get((what, i), "") for i, name in enumerate(names)], chosen, gap)
        about = any(names[place] in warned for place in np.flatnonzero(chosen))
        text = text.replace("{named}", named).replace("{sizes}", _sizes(names, chosen, gap))
        found.append(_Fault(kind, named, text, about))

    settled = np.zeros(len(names), dtype=bool)
    for name, known in codes.items():
        place, items = names.index(name), [item for item in known if item.medians is not None]
        dropped = bool(grown[place])
        if not items or not (dropped or (values[place] and _fit(items) == "unit")):
            continue
        settled[place] = True
        end = ", which are dropped as out of range," if dropped else ","
        add(
            "unit",
            np.arange(len(names)) == place,
            missing_gap if dropped else value_gap,
            f"This fits another unit for {{named}}: it is measured, but with other values ({_medians(items)}){end} "
            "{sizes}.",
        )
    values, thinner = values & ~settled, grown & ~settled
    far = values & (np.maximum(value_gap, inside) >= FAR) & ~gaps
    near = values & ~far
    facts = values & np.isin(np.array(names), list(result.constant))
    if values.sum() < _MANY and facts.any():
        text = (
            "This fits another mix of stays, or another way to record it, for {named}: the values, which are the same "
            "all through a stay, moved {sizes}."
        )
        add("patients", facts, value_gap, text)
        values, far, near = values & ~facts, far & ~facts, near & ~facts
    if values.sum() >= _MANY:
        add("patients", values, value_gap, _case_mix(result, config, int(values.sum())))
    else:
        for place in map(int, np.flatnonzero(far & said)):
            kind = _fit(codes[names[place]])
            what = {"unit": "another unit or scale", "device": "a new device, assay or zero point"}.get(kind, _ANY)
            moved = "higher" if inputs.value_shift[place] > 0 else "lower"
            add(
                kind,
                np.arange(len(names)) == place,
                value_gap,
                f"This fits {what} for {{named}}: its values are {moved} {{sizes}} ({_medians(codes[names[place]])})"
                f"{_SHAPES[kind]}, while it is measured as often as before.",
            )
        if (rest := far & ~said).any():
            text = f"This fits {_ANY} for {{named}}: values moved {{sizes}}, while it is measured as often as before."
            add("values", rest, value_gap, text)
    if (chosen := thinner & said).any():
        largest = names[int(np.argmax(np.where(chosen, missing_gap, -1.0)))]
        text = (
            "This fits fewer measurements of {named}: gaps grew {sizes}, "
            f"with values as before ({_medians(codes[largest])})."
        )
        add("charting", chosen, missing_gap, text)
    if (chosen := thinner & ~said).sum() >= _MANY:
        text = (
            "This fits times that are shifted against the beginning of the stay (a clock, its zone, another "
            f"beginning), or an interface that drops values: gaps of {int(chosen.sum())} channels grew together, of "
            "{named} {sizes}."
        )
        add("clock", chosen, missing_gap, text)
    elif chosen.any():
        text = (
            "This fits fewer measurements, or an interface that drops values, of {named}: gaps grew {sizes}. Values in "
            "another unit that are dropped as out of range look the same; raw events would tell."
        )
        add("gaps", chosen, missing_gap, text)
    if near.any() and not far.any() and values.sum() < _MANY:
        text = (
            "This fits a new device or assay, or a somewhat other mix of stays: the values of {named} moved a little, "
            "{sizes}."
        )
        add("little", near, value_gap, text)
    return sorted(found, key=lambda fault: (fault.kind != "unit", not fault.warned))


_ANY = "another unit, scale or device"
_SHAPES = {"unit": " and spread otherwise", "device": " and spread as before", "values": ""}


def _known(culprit: Culprit) -> list[Item]:
    """The codes whose values can be compared, that of the most stays first."""
    return sorted((item for item in culprit.items if item.quartiles or item.medians), key=lambda item: -item.now)


def _medians(items: Sequence[Item]) -> str:
    sentences = []
    for item in items[:3]:
        medians = item.medians or (None if item.quartiles is None else (item.quartiles[0][1], item.quartiles[1][1]))
        if medians is not None:
            sentences.append(f"item {item.code}: median {medians[1]:.4g}, before {medians[0]:.4g}")
    return "; ".join(sentences)


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


def _case_mix(result: ComparisonResult, config: AuditConfig, count: int) -> str:
    text = f"This fits another mix of stays (case mix): the values of {count} channels moved together"
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
    """in 93 % of the stays; of several channels, of each."""
    order = [int(i) for i in np.argsort(-gap) if chosen[i]]
    if len(order) == 1:
        return f"in about {percent(float(gap[order[0]]))} of the stays"
    return "in about " + ", ".join(f"{percent(float(gap[i]))} ({names[i]})" for i in order[:3]) + " of the stays"

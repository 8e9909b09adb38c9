"""Which faults of the inputs the findings fit: units, devices, gaps, clocks, another mix of stays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynamask_mlflow.audit.comparison import ComparisonResult
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.statistics import Bools
from dynamask_mlflow.audit.verdict.messages import joined, percent

if TYPE_CHECKING:
    from dynamask_mlflow.audit.culprit import Culprit
    from dynamask_mlflow.audit.items import Item

FAR = 0.3  # Kolmogorov-Smirnov distance of values that no ordinary change of patients makes
_MANY = 3  # channels that move together
_SAME, _OTHER = math.log(1.35), math.log(1.6)  # the spread of a channel's values is as before below, another above
_ANY = "another unit, scale or device"
_SHAPES = {"unit": " and spread otherwise", "device": " and spread as before", "values": ""}


class InputFault(NamedTuple):
    """What inputs fit: the kind, its channels, a sentence, and whether one of the channels is a violation."""

    kind: str
    subject: str
    text: str
    warned: bool


def input_faults(
    result: ComparisonResult, config: AuditConfig, culprits: Sequence[Culprit], warned: set[str]
) -> list[InputFault]:
    """Units that raw events prove come first, then what is about channels that warned.

    Args:
        culprits: where findings sit, with the codes that raw events show.
        warned: channels whose inputs are a violation.
    """
    if result.inputs is None:
        return []
    codes = {each.channel: known for each in culprits if each.channel is not None and (known := _known(each))}
    evidence = _Evidence(result, config, _moved(result, config, culprits), codes, warned)
    units, settled = _other_units(evidence)
    values, fewer = evidence.moved.values & ~settled, evidence.moved.grown & ~settled
    facts = values & np.isin(np.array(result.channel_names), list(result.constant)) & (values.sum() < _MANY)
    units, values = [*units, *_other_stays(evidence, facts)], values & ~facts
    found = [*units, *_moved_values(evidence, values), *_fewer_measurements(evidence, fewer)]
    found += _slightly_moved(evidence, values)
    return sorted(found, key=lambda fault: (fault.kind != "unit", not fault.warned))


class _Evidence(NamedTuple):
    """What the faults are read from; codes: channel -> its codes that can be compared."""

    result: ComparisonResult
    config: AuditConfig
    moved: _Moved
    codes: dict[str, list[Item]]
    warned: set[str]

    @property
    def names(self) -> Sequence[str]:
        return self.result.channel_names

    @property
    def with_codes(self) -> Bools:
        return np.isin(np.array(self.names), list(self.codes))

    def far(self, values: Bools) -> Bools:
        """Channels among `values` that moved far, and are measured as often as before."""
        assert self.result.inputs is not None
        gaps = self.result.inputs.missing_p <= self.config.levels["inputs"]
        return np.asarray(values & (np.maximum(self.moved.value_gap, self.moved.inside) >= FAR) & ~gaps)

    def only(self, place: int) -> Bools:
        return np.asarray(np.arange(len(self.names)) == place)

    def fault(self, kind: str, chosen: Bools, what: str, text: str) -> InputFault:
        """A fault of the chosen channels' "values" or "gaps"; the text may hold {named} and {sizes}."""
        gap = self.moved.value_gap if what == "values" else self.moved.missing_gap
        named = _named([name + self.moved.places.get((what, i), "") for i, name in enumerate(self.names)], chosen, gap)
        text = text.replace("{named}", named).replace("{sizes}", _sizes(self.names, chosen, gap))
        return InputFault(
            kind, named, text, any(name in self.warned for name, own in zip(self.names, chosen, strict=True) if own)
        )


def _other_units(evidence: _Evidence) -> tuple[list[InputFault], Bools]:
    """What raw events prove to be another unit, and which channels that settles."""
    found: list[InputFault] = []
    moved = evidence.moved
    settled = np.zeros(len(evidence.names), dtype=bool)
    for name, known in evidence.codes.items():
        place, items = evidence.names.index(name), [item for item in known if item.medians is not None]
        dropped = bool(moved.grown[place])
        if not items or not (dropped or (moved.values[place] and _fit(items) == "unit")):
            continue
        settled[place] = True
        end = ", which are dropped as out of range," if dropped else ","
        text = (
            f"This fits another unit for {{named}}: it is measured, but with other values ({_medians(items)}){end} "
            "{sizes}."
        )
        found.append(evidence.fault("unit", evidence.only(place), "gaps" if dropped else "values", text))
    return found, settled


def _other_stays(evidence: _Evidence, facts: Bools) -> list[InputFault]:
    """What is the same all through a stay, such as the age, has neither a unit that changes nor a device."""
    if not facts.any():
        return []
    text = (
        "This fits another mix of stays, or another way to record it, for {named}: the values, which are the same all "
        "through a stay, moved {sizes}."
    )
    return [evidence.fault("patients", facts, "values", text)]


def _moved_values(evidence: _Evidence, values: Bools) -> list[InputFault]:
    """Many channels together are other patients; each one that moved far alone has a fault of its own."""
    inputs = evidence.result.inputs
    assert inputs is not None
    if values.sum() >= _MANY:
        text = _case_mix(evidence.result, evidence.config, int(values.sum()))
        return [evidence.fault("patients", values, "values", text)]
    found, far = [], evidence.far(values)
    for place in map(int, np.flatnonzero(far & evidence.with_codes)):
        codes = evidence.codes[evidence.names[place]]
        kind = _fit(codes)
        what = {"unit": "another unit or scale", "device": "a new device, assay or zero point"}.get(kind, _ANY)
        moved = "higher" if inputs.value_shift[place] > 0 else "lower"
        text = (
            f"This fits {what} for {{named}}: its values are {moved} {{sizes}} ({_medians(codes)})"
            f"{_SHAPES[kind]}, while it is measured as often as before."
        )
        found.append(evidence.fault(kind, evidence.only(place), "values", text))
    if (rest := far & ~evidence.with_codes).any():
        text = f"This fits {_ANY} for {{named}}: values moved {{sizes}}, while it is measured as often as before."
        found.append(evidence.fault("values", rest, "values", text))
    return found


def _fewer_measurements(evidence: _Evidence, fewer: Bools) -> list[InputFault]:
    """Gaps that grew: of channels whose codes are known, of many channels together, or of few."""
    found = []
    if (chosen := fewer & evidence.with_codes).any():
        largest = evidence.names[int(np.argmax(np.where(chosen, evidence.moved.missing_gap, -1.0)))]
        text = (
            "This fits fewer measurements of {named}: gaps grew {sizes}, "
            f"with values as before ({_medians(evidence.codes[largest])})."
        )
        found.append(evidence.fault("charting", chosen, "gaps", text))
    if (chosen := fewer & ~evidence.with_codes).sum() >= _MANY:
        text = (
            "This fits times that are shifted against the beginning of the stay (a clock, its zone, another "
            f"beginning), or an interface that drops values: gaps of {int(chosen.sum())} channels grew together, of "
            "{named} {sizes}."
        )
        found.append(evidence.fault("clock", chosen, "gaps", text))
    elif chosen.any():
        text = (
            "This fits fewer measurements, or an interface that drops values, of {named}: gaps grew {sizes}. Values in "
            "another unit that are dropped as out of range look the same; raw events would tell."
        )
        found.append(evidence.fault("gaps", chosen, "gaps", text))
    return found


def _slightly_moved(evidence: _Evidence, values: Bools) -> list[InputFault]:
    """Few channels that moved, none of them far."""
    if not values.any() or evidence.far(values).any() or values.sum() >= _MANY:
        return []
    text = (
        "This fits a new device or assay, or a somewhat other mix of stays: the values of {named} moved a little, "
        "{sizes}."
    )
    return [evidence.fault("little", values, "values", text)]


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


def _named(names: Sequence[str], chosen: np.ndarray, gap: np.ndarray) -> str:
    order = [int(i) for i in np.argsort(-gap) if chosen[i]]
    return joined([names[i] for i in order], 3)


def _sizes(names: Sequence[str], chosen: np.ndarray, gap: np.ndarray) -> str:
    """in 93 % of the stays; of several channels, of each."""
    order = [int(i) for i in np.argsort(-gap) if chosen[i]]
    if len(order) == 1:
        return f"in about {percent(float(gap[order[0]]))} of the stays"
    return "in about " + ", ".join(f"{percent(float(gap[i]))} ({names[i]})" for i in order[:3]) + " of the stays"

"""Findings in plain words: which channels moved by how much, what became of the predictions, and how sure that is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamask_mlflow._provenance import WEIGHTS
from dynamask_mlflow.audit.statistics import (
    Z975,
    CanaryResult,
    DriftTest,
    Effect,
    Floats,
    InputTest,
    PredictionTest,
    Shift,
    VersionShift,
)

if TYPE_CHECKING:
    from dynamask_mlflow.audit.comparison import ComparisonResult

PERFORMANCE_NAMES = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "brier": "Brier score",
    "calibration": "calibration (observed minus predicted)",
    "error": "mean absolute error",
}


def call(text: str, name: str) -> str:
    """A sentence about stays, about whatever else one sequence is called.

    >>> call("40 stays are too few: audit a longer window.", "cycle")
    '40 cycles are too few: audit a longer window.'
    """
    return text if name == "stay" else _STAY.sub(lambda found: _like(found[1], name) + found[2], text)


def _like(written: str, name: str) -> str:
    return name[:1].upper() + name[1:] if written[0].isupper() else name


_STAY = re.compile(r"\b([Ss]tay)(s?)\b")
_WATCH = "watch the next windows."


def percent(share: float) -> str:
    """14 %; one digit more below 10: 2.5 %."""
    value = 100 * share
    return f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.2g} %"


def chance(p: float) -> str:
    if p < 0.001:
        return "p < .001"
    return f"p = {p:.3f}".replace("0.", ".") if p < 0.1 else f"p = {p:.2f}".replace("0.", ".")


def interval(effect: Effect) -> str:
    return f"{percent(effect.moved)} of the total [{100 * effect.low:.2g}, {100 * effect.high:.2g}]"


def joined(names: Sequence[str], most: int = 3) -> str:
    shown = list(names[:most])
    if len(names) > most:
        return ", ".join(shown) + f" and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def moved(shift: Floats, p: Floats, level: float) -> tuple[list[int], list[int]]:
    """Positions that lost and that gained beyond chance, the largest change first."""
    order = np.argsort(-np.abs(shift))
    found = [int(i) for i in order if p[i] <= level]
    return [i for i in found if shift[i] < 0], [i for i in found if shift[i] > 0]


def points(change: float, error: float | None = None) -> str:
    """-8.4 points [-11, -6.0]: a change of a share with its 95 % interval, in percentage points."""
    value = f"{100 * change:+.1f} points"
    if error is None:
        return value
    low, high = (100 * (change + sign * Z975 * error) for sign in (-1, 1))
    return f"{value} [{low:.2g}, {high:.2g}]"


def number(value: float) -> str:
    """.157; three digits, without the zero before the point."""
    text = f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def signed(value: float) -> str:
    return ("+" if value > 0 else "") + number(value)


def change(shift: Shift) -> str:
    """-.041 [-.065, -.017]"""
    return f"{signed(shift.difference)} [{signed(shift.low)}, {signed(shift.high)}]"


def noun(task: str) -> str:
    return "predicted risk" if task == "classification" else "predicted value"


def channel_changes(test: DriftTest, names: Sequence[str], level: float, most: int = 6) -> str:
    """Urine -8.4 points [-11, -6.1]; GCS +1.3 points [.4, 2.2]: each channel that moved beyond chance with its own."""
    lost, gained = moved(test.channel_shift, test.channel_p, level)
    order = sorted([*lost, *gained], key=lambda i: -abs(test.channel_shift[i]))
    said = "; ".join(f"{names[i]} {points(test.channel_shift[i], test.channel_error[i])}" for i in order[:most])
    if not order:
        i, j = int(test.channel_shift.argmin()), int(test.channel_shift.argmax())
        largest = " and ".join(f"{names[k]} {points(test.channel_shift[k], test.channel_error[k])}" for k in (i, j))
        return f"no single channel beyond chance, the largest changes are {largest}"
    return said + (f"; and {len(order) - most} more" if len(order) > most else "")


def channel_sentence(test: DriftTest, names: Sequence[str], level: float) -> str:
    """Attention moved between channels, 10 % of the total [7, 13], p < .001: Urine -8.4 points [-11, -6]; ..."""
    changes = channel_changes(test, names, level)
    return f"Attention moved between channels, {interval(test.channels)}, {chance(test.p_value)}: {changes}."


def hour_sentence(test: DriftTest, times: Sequence[Any], unit: str, block: int) -> str:
    """Hours 36-48 lost 11 %, hours 24-30 gained 9 %: 12 % of the total [8, 16] moved in time, p < .001"""
    text = f"{interval(test.hours)} moved in time, {chance(test.p_value)}."
    # Blocks even noise out, but a move within them, too: then single steps tell.
    for size in (block, 1):
        runs = _runs(test.hour_shift, size)
        lost, gained = min(runs, key=lambda run: run[2]), max(runs, key=lambda run: run[2])
        if gained[2] - lost[2] >= test.hours.observed:
            parts = [
                f"{_span(times, start, stop, unit)} {verb} {abs(100 * amount):.1f} points"
                for (start, stop, amount), verb in ((lost, "lost"), (gained, "gained"))
                if amount
            ]
            said = ", ".join(parts)
            return f"{said[:1].upper()}{said[1:]}: {text}"
    least, most = int(test.hour_shift.argmin()), int(test.hour_shift.argmax())
    path = f"{_span(times, least, least + 1, unit)} to {_span(times, most, most + 1, unit)}"
    return f"Attention moved here and there over the stay, most of all from {path}: {text}"


def input_sentence(inputs: InputTest, names: Sequence[str], level: float) -> str:
    """The inputs moved: Lactate (values), SpO2 (gaps)."""
    parts = []
    for place in inputs.moved(level):
        values, missing = inputs.value_q[place] <= level, inputs.missing_q[place] <= level
        kind = "values and gaps" if values and missing else "values" if values else "gaps"
        parts.append((float(max(inputs.value_gap[place], inputs.missing_gap[place])), f"{names[place]} ({kind})"))
    if not parts:
        return "The inputs did not move measurably."
    return f"The inputs moved: {joined([text for _, text in sorted(parts, reverse=True)], 5)}."


def mean_sentence(test: PredictionTest, task: str, level: float) -> str:
    """The mean predicted risk fell from .157 to .116 (-.041 [-.065, -.017], p < .001); stays at or above .5: ..."""
    mean = test.mean
    above = "".join(
        f"; stays at or above {threshold:g}: {percent(shift.reference)}, now {percent(shift.current)}"
        for threshold, shift in test.above.items()
    )
    if mean.p_value <= level:
        verb = "rose" if mean.difference > 0 else "fell"
        how = f"({change(mean)}, {chance(mean.p_value)})"
        return f"The mean {noun(task)} {verb} from {number(mean.reference)} to {number(mean.current)} {how}{above}."
    hint = f" Taken alone, its 95 % interval leaves out 0: {_WATCH}" if mean.low > 0 or mean.high < 0 else ""
    return (
        f"No move of the mean {noun(task)} is proven at the level of an audit: {number(mean.reference)}, now "
        f"{number(mean.current)} ({change(mean)}){above}.{hint}"
    )


def share_sentence(what: str, shift: Shift) -> str:
    """The share of stays of class 2 went from 14 % to 19 % (+.050 [+.021, +.079], p < .001)."""
    return (
        f"The share of stays {what} went from {percent(shift.reference)} to {percent(shift.current)} "
        f"({change(shift)}, {chance(shift.p_value)})."
    )


def distribution_sentence(shift: Shift, task: str) -> str:
    return (
        f"The distribution of the {noun(task)} changed though its mean may not have: {percent(shift.current)} of the "
        f"stays lie elsewhere (Kolmogorov-Smirnov distance, {chance(shift.p_value)})."
    )


def performance_sentence(name: str, shift: Shift, labelled: tuple[int, int]) -> str:
    # The interval is that of the plain mean; a weighting that sees the shift better may be surer than it.
    weighted = " by the surest of three weightings" if name == "calibration" else ""
    return (
        f"The {PERFORMANCE_NAMES[name]} went from {number(shift.reference)} to {number(shift.current)} "
        f"({change(shift)}, {chance(shift.p_value)}{weighted}), {labelled[1]} stays with a known outcome."
    )


def outcome_sentence(test: PredictionTest) -> str:
    """What the predictions are worth, where no change of it is proven at the level of an audit."""
    told = "; ".join(
        f"{PERFORMANCE_NAMES[name]} {number(shift.reference)}, now {number(shift.current)} "
        f"({change(shift)}, {chance(shift.p_value)})"
        for name, shift in test.performance.items()
    )
    apart = [
        PERFORMANCE_NAMES[name].partition(" (")[0]
        for name, shift in test.performance.items()
        if shift.low > 0 or shift.high < 0
    ]
    hint = f" Taken alone, the 95 % interval of {joined(apart, 5)} leaves out 0: {_WATCH}"
    return (
        f"Outcomes are known of {test.labelled[1]} stays; that the predictions are worth more or less than before is "
        f"not proven at the level of an audit: {told}.{hint if apart else ''}"
    )


def calibration_trend_sentence(shift: Shift, windows: int) -> str:
    return (
        f"Over the last {windows} windows together, observed minus predicted went from {number(shift.reference)} to "
        f"{number(shift.current)} ({change(shift)}, {chance(shift.p_value)} by the surest of three weightings)."
    )


def version_sentences(under: str, shift: Shift | None, task: str) -> list[str]:
    """Of whom the data arms were asked, and what both versions predict for the same stays."""
    found = [
        f"What is said of attention, predictions and inputs of the window is asked of {under}: it tells what the data "
        "did."
    ]
    if shift is not None:
        found.insert(
            0,
            f"For the same stays of the window the mean {noun(task)} is {number(shift.current)}, and under {under} "
            f"{number(shift.reference)} ({change(shift)}).",
        )
    return found


def same_attention_sentence(shift: VersionShift, names: Sequence[str], under: str) -> str:
    """A new version within the limits: how far from the old one it is all the same."""
    largest = float(shift.channel_shift[shift.channel])
    return (
        f"On the stored anchors this version differs from {under} within the limits: the largest change is "
        f"{names[shift.channel]} {points(largest)}, and {percent(shift.hours)} of the attention moved in time."
    )


def left_out_sentence(result: ComparisonResult) -> str | None:
    """How many stays the verdict rests on, and why others are left out; None if all of them are in."""
    why = []
    if result.failures:
        kind = result.first_failure.partition(":")[0] or "an error"
        why.append(f"{result.failures} could not be explained ({kind})")
    if result.idle:
        why.append(f"the model does not react to {result.idle}")
    drawn = result.population > result.sampled
    if not why and not drawn:
        return None
    predicted = 0 if result.predictions is None else result.predictions.stays[1]
    text = f"{result.instances} stays are explained"
    if drawn:
        text += (
            f", drawn from {result.population} of the window"
            if not why
            else (f"; {result.sampled} were drawn from {result.population} of the window")
        )
    if why:
        text += f"; left out: {' and '.join(why)}"
    if predicted > result.instances:
        text += f"; predictions are those of {predicted}"
    return f"{text}."


def canary_sentence(canary: CanaryResult) -> str:
    """The model changed, or the runtime did (torch 2.12 -> 2.13), or one of them, and nobody recorded which."""
    far = f"stored anchors, fitted again, look elsewhere ({percent(_furthest(canary))} moved)"
    changed = canary.changed or {}
    if WEIGHTS in changed:
        return f"The model changed under the same name: its weights are not those of the reference, and the {far}."
    if changed:
        return f"The runtime changed ({_changes(canary)}), and the {far}."
    hint = "" if canary.changed is None else ", though weights, libraries and processor are recorded as the same"
    return f"The {far}: the model or the runtime changed under the same name{hint}."


def last_bit_sentence(canary: CanaryResult) -> str:
    """Unequal, but no more than the last bit of the inputs would make it."""
    why = f" ({_changes(canary)})" if canary.changed else ""
    return (
        "The stored anchors, fitted again, are not the same to the last bit"
        f"{why}: {percent(_furthest(canary))} moved, as rounding alone does."
    )


def _furthest(canary: CanaryResult) -> float:
    return max(canary.moved, canary.moved_hours, canary.each)


def _changes(canary: CanaryResult) -> str:
    return ", ".join(f"{name} {then} -> {now}" for name, (then, now) in (canary.changed or {}).items())


def _runs(shift: Floats, block: int) -> list[tuple[int, int, float]]:
    """Stretches of whole blocks that lost or gained, without ends that add next to nothing: (start, stop, sum)."""
    starts = np.arange(0, len(shift), block)
    sums = np.add.reduceat(shift, starts)
    edges = [0, *(np.flatnonzero(np.diff(np.sign(sums))) + 1).tolist(), len(sums)]
    runs = []
    for first, stop in itertools.pairwise(edges):
        sizes = np.abs(sums[first:stop])
        heavy = np.flatnonzero(sizes >= min(0.1 * float(sizes.sum()), float(sizes.max()))) + first
        first, stop = int(heavy[0]), int(heavy[-1]) + 1
        runs.append((first * block, min(stop * block, len(shift)), float(sums[first:stop].sum())))
    return runs


def _span(times: Sequence[Any], start: int, stop: int, unit: str) -> str:
    first, last = times[start], times[stop - 1]
    numbers = all(isinstance(value, int | float) for value in (first, last))
    end = last + 1 if numbers and len(times) > 1 and times[1] - times[0] == 1 else last
    shown = [f"{value:g}" if isinstance(value, int | float) else str(value) for value in (first, end)]
    return f"{unit} {shown[0]}" if shown[0] == shown[1] else f"{unit}s {shown[0]}-{shown[1]}"

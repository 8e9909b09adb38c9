"""Drift in plain words: from where to where attention moved, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynamask_mlflow.audit.statistics import DriftTest, Effect, InputTest
from dynamask_mlflow.audit.statistics.marginals import Floats


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


def channel_sentence(test: DriftTest, names: Sequence[str], level: float) -> str:
    """attention moved from Lactate to SpO2: 14 % of the total [9, 19], p < .001"""
    lost, gained = ([names[i] for i in part] for part in moved(test.channel_shift, test.channel_p, level))
    if lost and gained:
        path = f"from {joined(lost)} to {joined(gained)}"
    elif lost:
        path = f"away from {joined(lost)}"
    elif gained:
        path = f"to {joined(gained)}"
    else:
        i, j = int(test.channel_shift.argmin()), int(test.channel_shift.argmax())
        path = f"between channels, most of all from {names[i]} to {names[j]}"
    return f"Attention moved {path}: {interval(test.channels)}, {chance(test.p_value)}."


def hour_sentence(test: DriftTest, times: Sequence[Any], unit: str, block: int) -> str:
    """Hours 36-48 lost 11 %, hours 24-30 gained 9 %: 12 % of the total [8, 16], p < .001"""
    runs = _runs(test.hour_shift, block)
    lost, gained = min(runs, key=lambda run: run[2]), max(runs, key=lambda run: run[2])
    parts = [
        f"{_span(times, start, stop, unit)} {verb} {percent(abs(size))}"
        for (start, stop, size), verb in ((lost, "lost"), (gained, "gained"))
        if size
    ]
    text = ", ".join(parts)
    return f"{text[:1].upper()}{text[1:]}: {interval(test.hours)} moved in time, {chance(test.p_value)}."


def input_sentence(inputs: InputTest, names: Sequence[str], level: float) -> str:
    """Inputs moved: Lactate (values), SpO2 (missing)."""
    parts = []
    for place in inputs.moved(level):
        values, missing = inputs.value_q[place] <= level, inputs.missing_q[place] <= level
        kind = "values and gaps" if values and missing else "values" if values else "gaps"
        parts.append((float(max(inputs.value_gap[place], inputs.missing_gap[place])), f"{names[place]} ({kind})"))
    if not parts:
        return "The inputs did not move measurably."
    return f"The inputs moved: {joined([text for _, text in sorted(parts, reverse=True)], 5)}."


def _runs(shift: Floats, block: int) -> list[tuple[int, int, float]]:
    """Stretches of whole blocks that lost or gained: (start, stop, sum of the shifts)."""
    starts = list(range(0, len(shift), block))
    sums = [float(shift[start : start + block].sum()) for start in starts]
    runs: list[tuple[int, int, float]] = []
    for start, size in zip(starts, sums, strict=True):
        stop = min(start + block, len(shift))
        if runs and np.sign(runs[-1][2]) == np.sign(size):
            runs[-1] = (runs[-1][0], stop, runs[-1][2] + size)
        else:
            runs.append((start, stop, size))
    return runs


def _span(times: Sequence[Any], start: int, stop: int, unit: str) -> str:
    first, last = times[start], times[stop - 1]
    numbers = all(isinstance(value, int | float) for value in (first, last))
    end = last + 1 if numbers and len(times) > 1 and times[1] - times[0] == 1 else last
    shown = [f"{value:g}" if isinstance(value, int | float) else str(value) for value in (first, end)]
    return f"{unit}s {shown[0]}-{shown[1]}"

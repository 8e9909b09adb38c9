"""Every number in plain words: what it is called, what it answers, and which way is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["number", "share", "flag"]
Better = Literal["higher", "lower", ""]


@dataclass(frozen=True)
class Word:
    """A metric's label, a line that a clinician understands, its symbol, its kind, which way is better."""

    label: str
    help: str
    symbol: str = ""
    kind: Kind = "number"
    better: Better = ""


def _number(label: str, text: str, better: Better = "", symbol: str = "") -> Word:
    return Word(label, text, symbol, "number", better)


def _share(label: str, text: str, better: Better = "", symbol: str = "") -> Word:
    return Word(label, text, symbol, "share", better)


def _flag(label: str, text: str) -> Word:
    return Word(label, text, "", "flag")


_SHARED = {
    "area": _share("Area", "Share of all measurements that the mask highlights."),
    "entropy": _number(
        "Entropy", "How uncertain the mask is: 0 means that every cell is surely salient or surely not.", "lower"
    ),
    "entropy_normalized": _share(
        "Entropy, scaled", "Indecision of the mask, from 0 % (clear) to 100 % (every cell half in).", "lower"
    ),
    "information": _number(
        "Information", "How much the mask singles out; grows with every cell marked as surely needed."
    ),
    "information_normalized": _share(
        "Information, scaled", "Information as a share of what a mask over all cells would hold."
    ),
    "answer_shift": _number(
        "Moved back",
        "How far the answer moves back towards its reference without the highlighted cells (log-odds, or its units).",
        "higher",
    ),
    "certainty": _share(
        "Certainty", "Mean probability of the highlighted cells of a mask that they are salient.", "higher"
    ),
    "flipped": _flag("Flipped", "The prediction changes once the highlighted measurements are averaged out."),
    "correct": _flag("Correct", "The prediction agrees with what really happened."),
    "error": _number(
        "Error of the best cells",
        "How far the best cells alone are from the whole answer: 1 with none of them, 0 where nothing is missing.",
        "lower",
    ),
    "instances": _number("Instances", "How many were explained."),
    "failures": _number("Failures", "How many could not be explained.", "lower"),
    "seconds": _number("Seconds", "Time taken."),
    "sanity_similarity": _number(
        "Same without training",
        "How alike masks stay when the network's weights are shuffled. Near 0: they show what it learnt.",
        "lower",
    ),
    "converged": _flag("Settled", "The first cells of the ranking hold the answer well."),
    "dead_gradient": _flag("No gradient", "The model does not react to this input, so its mask says nothing."),
    "constant_prediction": _flag("Nothing to explain", "The answer is that of its reference: the mask is empty."),
    "noise_baseline": _flag(
        "Noise baseline", "Only noise takes this answer away: it rests on something that does not happen."
    ),
    "epsilon_missed": _flag("Error missed", "No area is large enough for the error that was asked for."),
    "plateau": _flag("Plateau", "No area stands out: several would do equally well."),
}

_CLASSIFICATION = {
    "ce": _number(
        "Prediction shift",
        "The paper's CE, of the predicted class: high if it is lost without the highlighted measurements. What "
        "raises a risk that stays low need not shift it.",
        "higher",
        "CE",
    ),
    "ce_shift": _number(
        "CE above unperturbed",
        "How much CE grows above its value for the unperturbed predictions; 0: nothing moved.",
        "higher",
    ),
    "acc": _share(
        "Predictions kept",
        "Share of predictions that survive without the highlighted measurements. Low: they mattered.",
        "lower",
        "ACC",
    ),
    "comprehensiveness": _number(
        "Comprehensiveness",
        "Mean drop of the predicted probability without the best 1 to 50\N{NO-BREAK SPACE}% of the cells.",
        "higher",
    ),
    "sufficiency": _number(
        "Sufficiency",
        "Mean drop of the predicted probability with the best 1 to 50\N{NO-BREAK SPACE}% of the cells alone.",
        "lower",
    ),
}

_REGRESSION = {
    "ce": _number(
        "Prediction shift",
        "Squared change when the highlighted measurements are averaged out. High: they mattered.",
        "higher",
        "SE",
    ),
    "comprehensiveness": _number(
        "Comprehensiveness",
        "Mean change of the prediction without the best 1 to 50\N{NO-BREAK SPACE}% of the cells.",
        "higher",
    ),
    "sufficiency": _number(
        "Sufficiency",
        "Mean change of the prediction with the best 1 to 50\N{NO-BREAK SPACE}% of the cells alone.",
        "lower",
    ),
}

_ALIASES = {
    "normalized_entropy": "entropy_normalized",
    "normalized_information": "information_normalized",
    "information_ratio": "information_normalized",
    "squared_error": "ce",
    "failed": "failures",
}


def word(name: str, task: str, own: Mapping[str, str] | None = None) -> Word:
    """The words for a metric; a name of one's own is shown as it is, with the explanation given for it."""
    key = name.removeprefix("dynamask/")
    key = _ALIASES.get(key, key)
    known = (_REGRESSION if task == "regression" else _CLASSIFICATION) | _SHARED
    found = known.get(key) or Word(key.replace("_", " ").capitalize(), "")
    text = (own or {}).get(name)
    return replace(found, help=text) if text else found


def moment(text: str) -> str:
    """An ISO date and time as people write it; any other text as it is."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if len(text) <= 10 else f"{when:%Y-%m-%d %H:%M %Z}".strip()


def percent(share: float) -> str:
    digits = 0 if share >= 0.0995 or share == 0 else 1 if share >= 0.0095 else 2
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def where_it_looks(
    channels: list[str],
    times: list[str],
    by_channel: NDArray[np.float64],
    by_time: NDArray[np.float64],
    unit: str,
) -> str:
    """One sentence: the channels that lead, at most three, and the quarter of the time that weighs most."""
    if by_channel.sum() <= 0:
        return "The masks are empty: no measurement was found to matter."
    order = np.argsort(-by_channel, kind="stable")
    cumulative = np.cumsum(by_channel[order])
    count = min(3, len(order), int(np.searchsorted(cumulative, 0.5)) + 1)
    verb = "carries" if count == 1 else "together carry"
    leaders = join([channels[i] for i in order[:count]])
    sentence = f"{leaders} {verb} {percent(float(cumulative[count - 1]))} of what the model relies on"
    span = max(1, len(times) // 4)
    if len(times) >= 8:
        sums = np.convolve(by_time, np.ones(span), mode="valid")
        start = int(np.argmax(sums))
        if sums[start] > 1.25 * span / len(times):
            window = f"{unit}s {times[start]} to {times[start + span - 1]}"
            return f"{sentence}; {window} weigh most, with {percent(float(sums[start]))} of the total."
        return f"{sentence}, spread evenly over the {unit}s."
    return f"{sentence}."


def what_removal_does(flipped: int | None, n: int, area: float | None, random_acc: float | None) -> str | None:
    """One sentence: how many predictions flip without the highlighted cells, beside what chance does."""
    if flipped is None or n == 0:
        return None
    cells = "the highlighted cells"
    if area is not None and np.isfinite(area):
        cells = f"the highlighted {percent(area)} of the measurements"
    sentence = f"Averaging out {cells} flips {flipped:,} of {plural(n, 'prediction')}"
    if random_acc is None or not np.isfinite(random_acc):
        return f"{sentence}."
    return f"{sentence}; as many cells drawn at random flip {round(n * (1 - random_acc)):,}."

"""What became of the predictions, in plain words."""

from __future__ import annotations

from dynamask_mlflow.audit.messages import chance, percent
from dynamask_mlflow.audit.statistics import PredictionTest, Shift

PERFORMANCE_NAMES = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "brier": "Brier score",
    "calibration": "calibration (observed minus predicted)",
    "error": "mean absolute error",
}


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
    return (
        f"No move of the mean {noun(task)} is proven: {number(mean.reference)}, now {number(mean.current)} "
        f"({change(mean)}){above}."
    )


def above_sentence(threshold: float, shift: Shift) -> str:
    return (
        f"The share of stays with a predicted risk at or above {threshold:g} went from {percent(shift.reference)} to "
        f"{percent(shift.current)} ({change(shift)}, {chance(shift.p_value)})."
    )


def class_sentence(kind: int, shift: Shift) -> str:
    return (
        f"The share of stays of class {kind} went from {percent(shift.reference)} to {percent(shift.current)} "
        f"({change(shift)}, {chance(shift.p_value)})."
    )


def distribution_sentence(shift: Shift, task: str) -> str:
    return (
        f"The distribution of the {noun(task)} changed though its mean may not have: {percent(shift.current)} of the "
        f"stays lie elsewhere (Kolmogorov-Smirnov distance, {chance(shift.p_value)})."
    )


def performance_sentence(name: str, shift: Shift, labelled: tuple[int, int]) -> str:
    return (
        f"The {PERFORMANCE_NAMES[name]} went from {number(shift.reference)} to {number(shift.current)} "
        f"({change(shift)}, {chance(shift.p_value)}), {labelled[1]} stays with a known outcome."
    )


def version_sentences(under: str, shift: Shift | None, task: str) -> list[str]:
    """Of whom the data arms were asked, and what both versions predict for the same stays."""
    found = [f"What follows of attention, predictions and inputs is asked of {under}: it tells what the data did."]
    if shift is not None:
        found.insert(
            0,
            f"For the same stays of the window the mean {noun(task)} is {number(shift.current)}, and under {under} "
            f"{number(shift.reference)} ({change(shift)}).",
        )
    return found

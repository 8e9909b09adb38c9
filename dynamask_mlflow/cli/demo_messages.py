"""What the demo found, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dynamask_mlflow.cli.demo_truth import Band, TruthFound

NAMES = {
    "dynamask": "Dynamask",
    "integrated_gradients": "Integrated Gradients",
    "integrated_gradients_smoothed": "the same, smoothed",
    "random": "random scores",
}


def say_masks(metrics: Mapping[str, float], profile: Mapping[str, Any]) -> None:
    """Which channels and hours matter, how sharp the masks are, what happens without the salient cells."""
    shares = zip(profile["share_by_channel"], profile["channels"], strict=True)
    channels = sorted(shares, key=lambda pair: -(pair[0] or 0))
    listed = ", ".join(f"{name} {share:.0%}" for share, name in channels[:6])
    hours = [share or 0.0 for share in profile["share_by_time"]]
    half, quarter = sum(hours[len(hours) // 2 :]), sum(hours[-len(hours) // 4 :])
    entropy = metrics["dynamask/entropy_normalized"]
    ce, ce_random = metrics["dynamask/ce"], metrics["dynamask/ce/random"]
    acc, acc_random = metrics["dynamask/acc"], metrics["dynamask/acc/random"]
    _say(f"The model is right about {metrics['accuracy_score']:.1%} of the test stays.")
    _say(f"The masks hold {metrics['dynamask/area']:.1%} of the cells. Where they look: {listed}.")
    _say(f"The second half of the window holds {half:.0%} of the attention, the last quarter {quarter:.0%}.")
    _say(f"Entropy: {entropy:.1%} of the greatest possible (0: every coefficient is 0 or 1).")
    _say("Without the salient cells, each replaced by its channel's average:")
    _say(f"  CE  {ce:.3f} against {ce_random:.3f} for as many random cells (higher: they mattered)")
    _say(f"  ACC {acc:.3f} against {acc_random:.3f} (lower: they mattered)")


def say_truth(found: TruthFound) -> None:
    """How much of what was planted was found, by whom, for each band of predicted risk."""
    if not found.stays:
        _say(f"None of the {found.test_stays} test stays has planted cells: nothing to compare.")
        return
    _say(f"{found.stays} of the {found.test_stays} test stays hold a planted deterioration, whatever their risk.")
    _say(f"{found.planted:.1%} of their cells are planted. Each method explains all of these stays:")
    _say("AUROC, AUPRC: how well the planted cells are ranked above the others.")
    _say("Precision: the share of a mask that is planted. Recall: the share of the planted cells in the mask.")
    _say(f"{'predicted risk':<24}{'method':<24}{'AUROC':>7}{'AUPRC':>7}{'precision':>11}{'recall':>8}")
    for name, band in found.bands.items():
        _say_band(name, band)
    _say_band("all", found.overall)
    plain, smoothed = found.wins["integrated_gradients"], found.wins["integrated_gradients_smoothed"]
    _say(
        f"Dynamask has the higher AUPRC in {plain:.0%} of the stays, against the smoothed gradients in {smoothed:.0%}."
    )


def _say_band(name: str, band: Band) -> None:
    label = f"{name}, {band.stays} stays" if band.stays != 1 else f"{name}, 1 stay"
    for method, scores in band.scores.items():
        values = [f"{scores[each]:.2f}" for each in ("auroc", "auprc", "precision", "recall")]
        _say(f"{label:<24}{NAMES[method]:<24}{values[0]:>7}{values[1]:>7}{values[2]:>11}{values[3]:>8}")
        label = ""


def _say(text: str) -> None:
    click.echo(f"      {text}")

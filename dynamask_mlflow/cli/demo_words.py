"""What the demo found, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dynamask_mlflow.cli.demo_truth import TruthFound

NAMES = {"dynamask": "Dynamask", "integrated_gradients": "Integrated Gradients", "random": "random scores"}


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
    _say(f"Entropy: {entropy:.1%} of the greatest possible (0 is a clear-cut mask).")
    _say("Without the salient cells, each replaced by its channel's average:")
    _say(f"  CE  {ce:.3f} against {ce_random:.3f} for as many random cells (higher: they mattered)")
    _say(f"  ACC {acc:.3f} against {acc_random:.3f} (lower: they mattered)")


def say_truth(found: TruthFound) -> None:
    """How much of what was planted was found, by whom."""
    if not found.stays:
        _say(f"The model foresaw none of the {found.deaths} deaths with planted cells: nothing to compare.")
        return
    _say(
        f"{found.deaths} test patients died after a planted deterioration; the model foresaw {found.foreseen}, of "
        f"whom {found.stays} are compared."
    )
    _say(f"{found.planted:.1%} of their cells are planted. How well each method ranks these above the rest:")
    for name, scores in found.scores.items():
        _say(f"  {NAMES[name]:<22} AUROC {scores['auroc']:.3f}   AUPRC {scores['auprc']:.3f}")
    _say(f"Dynamask ranks the planted cells better than Integrated Gradients in {found.wins:.0%} of these stays.")


def _say(text: str) -> None:
    click.echo(f"      {text}")

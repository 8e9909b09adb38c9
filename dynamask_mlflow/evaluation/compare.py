"""Two evaluations of the same instances side by side: where they look differently, and on whom they disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.model_settings import Labels
from dynamask_mlflow.evaluation.report_data import starting_point
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.metrics import rank_correlation
from dynamask_mlflow.report import Compared, Contributions, ReportData, TargetView

FALSE_DISCOVERIES = 0.05
FEWEST = 6

OWN_WORDS = {
    "difference": "How far the second answer lies from the first.",
    "overlap": "Cells in both masks as a share of the cells in either; 100 %: the same cells.",
    "agreement": "Rank correlation of the two rankings of all cells; 1: the same order.",
}


@dataclass(frozen=True, eq=False)
class Evaluated:
    """One logged evaluation.

    Attributes:
        label: what it is called. masks: of N instances.
        ids, channel_names, times: of the masks. predictions: (N,) the risk, or the value.
        task: "classification" or "regression".
        labels, threshold: what a reader calls things, and where a risk becomes an alarm.
    """

    label: str
    masks: Masks
    ids: Sequence[str]
    channel_names: Sequence[str]
    times: Sequence[Any]
    predictions: NDArray[np.float64]
    task: str
    labels: Labels = field(default_factory=Labels)
    threshold: float = 0.5

    def take(self, ids: Sequence[str]) -> Evaluated:
        """These instances, in this order."""
        place = {name: row for row, name in enumerate(self.ids)}
        rows = np.array([place[name] for name in ids], dtype=np.intp)
        return replace(self, masks=self.masks[rows], ids=list(ids), predictions=self.predictions[rows])


def compare_evaluations(first: Evaluated, second: Evaluated, created_at: str) -> ReportData:
    """A report of the instances that both have explained.

    Raises:
        ValueError: if they have no instance in common, or other channels, times or tasks.
    """
    for name in ("task", "channel_names", "times"):
        ours, theirs = getattr(first, name), getattr(second, name)
        if list(ours) != list(theirs):
            raise ValueError(f"Expected two evaluations with the same {name}, but got {ours!s:.80} and {theirs!s:.80}.")
    known = set(second.ids)
    shared = [name for name in first.ids if name in known]
    if not shared:
        raise ValueError("Expected instances that both runs have explained, but there are none; evaluate the same ids.")
    one, two = first.take(shared), second.take(shared)
    difference = two.predictions - one.predictions
    either = (one.masks.binary | two.masks.binary).sum(axis=(1, 2))
    both = (one.masks.binary & two.masks.binary).sum(axis=(1, 2))
    task: Any = first.task
    return ReportData(
        title=f"{one.label} beside {two.label}",
        model=f"{one.label}; {two.label}",
        created_at=created_at,
        task=task,
        ids=shared,
        channel_names=list(one.channel_names),
        channel_labels=one.labels.channel_labels,
        units=one.labels.units,
        times=list(one.times),
        time_unit=one.labels.time_unit,
        class_names=one.labels.class_names,
        masks=one.masks.masks,
        scores=one.masks.scores,
        highlighted=one.masks.binary,
        predictions=one.predictions,
        predictions_without=None,
        population=float(one.predictions.mean()),
        threshold=one.threshold if task == "classification" else None,
        contributions=_contributions(one),
        views=[
            TargetView(
                label=two.label,
                masks=two.masks.masks,
                scores=two.masks.scores,
                highlighted=two.masks.binary,
                contributions=_contributions(two),
                predictions=two.predictions,
            )
        ],
        metrics={
            "difference": difference,
            "overlap": np.where(either > 0, both / np.maximum(either, 1), np.nan),
            "agreement": rank_agreement(one.masks.scores, two.masks.scores),
        },
        explanations=OWN_WORDS,
        compared=_compared(one, two),
        method=f"{one.label} against {two.label}",
        notes=_notes(first, second, len(shared)),
    )


def _contributions(found: Evaluated) -> Contributions | None:
    masks = found.masks
    if masks.attributions is None or "reference_answer" not in masks.diagnostics:
        return None
    return Contributions(
        cells=masks.attributions,
        answer=masks.diagnostics["answer"],
        reference=masks.diagnostics["reference_answer"],
        logit=_is_risk(found),
        unit="log-odds" if found.task == "classification" else "",
        channel_spread=masks.channel_spread,
        target=found.label,
        **starting_point(masks),
    )


def _is_risk(found: Evaluated) -> bool:
    """Whether the answers that were explained are the log-odds of the predictions."""
    if found.task != "classification":
        return False
    with np.errstate(over="ignore"):
        risks = 1 / (1 + np.exp(-np.asarray(found.masks.diagnostics["answer"], dtype=np.float64)))
    return bool(np.allclose(risks, found.predictions, atol=1e-3))


def _notes(first: Evaluated, second: Evaluated, shared: int) -> list[str]:
    return [f"{shared:,} instances were explained by both, of {len(first.ids):,} and {len(second.ids):,}."]


def rank_agreement(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.float64]:
    """(N,) Spearman's correlation of two rankings (N, T, d); NaN where one of them is flat.

    Example:
        >>> scores = np.arange(6.0).reshape(1, 3, 2)
        >>> rank_agreement(scores, -scores).tolist()
        [-1.0]
    """
    found = [rank_correlation(a, b) for a, b in zip(ours, theirs, strict=True)]
    return np.asarray(np.round(found, 12), dtype=np.float64)


def _shares(masks: Masks) -> NDArray[np.float64]:
    """(N, d) share of each channel in each mask."""
    mass = masks.masks.sum(axis=1, dtype=np.float64)
    return np.asarray(mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-12))


def _compared(one: Evaluated, two: Evaluated) -> Compared:
    ours, theirs = _shares(one.masks), _shares(two.masks)
    profiles = [found.masks.masks.mean(axis=0, dtype=np.float64) for found in (one, two)]
    by_time = [profile.sum(axis=1) / max(float(profile.sum()), 1e-12) for profile in profiles]
    change = two.predictions - one.predictions
    return Compared(
        labels=(one.label, two.label),
        by_channel=(ours.mean(axis=0), theirs.mean(axis=0)),
        by_time=(by_time[0], by_time[1]),
        profiles=(profiles[0], profiles[1]),
        moved_channels=moved_channels(ours, theirs),
        rows={
            "Instances compared": float(len(change)),
            f"Mean answer, {one.label}": float(one.predictions.mean()),
            f"Mean answer, {two.label}": float(two.predictions.mean()),
            "Mean size of the difference": float(np.abs(change).mean()),
            "Instances on other sides of the threshold": float(
                ((one.predictions >= one.threshold) != (two.predictions >= two.threshold)).sum()
                if one.task == "classification"
                else np.nan
            ),
        },
    )


def moved_channels(ours: NDArray[Any], theirs: NDArray[Any]) -> list[int]:
    """Channels whose share differs over the instances: paired Wilcoxon tests, false discoveries held at 5 %."""
    from scipy.stats import false_discovery_control, wilcoxon

    tested, p_values = [], []
    for channel in range(ours.shape[1]):
        change = theirs[:, channel] - ours[:, channel]
        if np.count_nonzero(change) >= FEWEST:
            tested.append(channel)
            p_values.append(float(wilcoxon(change).pvalue))
    if not tested:
        return []
    kept = false_discovery_control(p_values) < FALSE_DISCOVERIES
    return [channel for channel, moved in zip(tested, kept, strict=True) if moved]

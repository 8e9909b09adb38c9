"""The result of a comparison: every test between the reference and the window, computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.statistics import (
    CanaryResult,
    CauseSplit,
    DriftTest,
    InputTest,
    Permutations,
    PredictionTest,
    QualityShift,
    Shift,
    SliceInput,
    TrustResult,
    VersionShift,
    check_trust,
    ndcg,
    provable_move,
    staged_drift_test,
    staged_input_test,
    staged_prediction_test,
    staged_quality_test,
    staged_slice_input_test,
)
from dynamask_mlflow.audit.statistics.marginals import Floats
from dynamask_mlflow.audit.subgroups import SubgroupTest, compare_subgroups

if TYPE_CHECKING:
    from dynamask_mlflow.audit.culprit import Culprit

_QUALITY = {
    "area": "legibility",
    "entropy": "legibility",
    "ce": "faithfulness",
    "acc": "faithfulness",
    "squared_error": "faithfulness",
}
LARGEST = 0.1  # a window that cannot exclude a move of this size proves nothing
QUALITY_NAMES = {
    "area": "area of the masks",
    "entropy": "entropy of the masks",
    "ce": "cross-entropy without the masks' cells (CE)",
    "acc": "share of predictions that survive without the masks' cells (ACC)",
    "squared_error": "squared error without the masks' cells",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonResult:
    """What a verdict is made from. `None`: not computed, for the reason that the counts or `blockers` tell.

    Attributes:
        instances: explained stays of the window whose mask looks somewhere. reference_instances: the same.
        population: stays of the window, of which `sampled` were drawn. idle: explained stays whose mask looks nowhere.
        failures: stays that could not be explained, of `sampled`; first_failure: why the first could not.
        importance: (d,) shares of attention by channel in the reference window. effects: (d,) mean change of the
            prediction without each channel, in the reference window.
        predictions: the test of the predictions, of all stays that have one.
        blockers: kind -> a sentence that forbids a comparison at all (settings, channels).
        changed_anchors: stored anchors whose inputs in the data are no longer the same.
        tolerance: share of attention that the upper bounds must stay below for an ok.
        slice_inputs: inputs within slices of the stays, the surest first.
        noise: share that another seed of the explainer moves, between "channels" and "hours": the noise floor.
        under: the version that attention, predictions and inputs were asked of, if it is not the audited one.
        between_versions: predictions of both versions for the same stays of the window, old and new.
        groups: what subgroups show, if they were asked for. culprits: where findings sit, if that was searched.
        trend: the test of this window together with those of the audits before it; trend_windows: how many in all.
    """

    channel_names: tuple[str, ...]
    times: tuple[Any, ...]
    instances: int
    reference_instances: int
    sampled: int
    failures: int
    first_failure: str = ""
    population: int = 0
    idle: int = 0
    importance: Floats | None = None
    effects: Floats | None = None
    blockers: Mapping[str, str] = field(default_factory=dict)
    drift: DriftTest | None = None
    tolerance: float = 1.0
    inputs: InputTest | None = None
    slice_inputs: Sequence[SliceInput] = ()
    predictions: PredictionTest | None = None
    quality: Mapping[str, QualityShift] = field(default_factory=dict)
    ndcg: float = float("nan")
    trust: TrustResult | None = None
    canary: CanaryResult | None = None
    changed_anchors: int = 0
    versions: VersionShift | None = None
    causes: CauseSplit | None = None
    noise: Mapping[str, float] = field(default_factory=dict)
    trend: DriftTest | None = None
    trend_windows: int = 0
    under: str = ""
    between_versions: Shift | None = None
    groups: SubgroupTest | None = None
    culprits: tuple[Culprit, ...] = ()


def quality_kind(name: str) -> str:
    return _QUALITY[name]


def compare(
    reference: ExplainedWindow,
    current: ExplainedWindow,
    config: AuditConfig,
    *,
    earlier: Sequence[ExplainedWindow] = (),
    look_at_inputs: bool = True,
    **more: Any,
) -> ComparisonResult:
    """Compare two windows under one model.

    Args:
        earlier: the windows of the audits before, which are tested together with this one.
        look_at_inputs: False leaves the input arm out.
        more: fields of the result that come from elsewhere.
    """
    blockers = {**more.pop("blockers", {}), **channel_blocker(reference, current)}
    now, before = current.usable, reference.usable
    counts: dict[str, Any] = {
        "channel_names": current.channel_names,
        "times": current.times,
        "instances": int(now.sum()),
        "reference_instances": int(before.sum()),
        "sampled": len(current) + len(current.failures),
        "failures": len(current.failures),
        "first_failure": next(iter(current.failures.values()), ""),
        "idle": len(current) - int(now.sum()),
        "blockers": blockers,
        "trust": trust_of(current, config),
    }
    if "channels" in blockers or min(counts["instances"], counts["reference_instances"]) < 2:
        return ComparisonResult(**{**counts, **more})
    both = _Pair((reference,), (current,), config, lambda part: part.usable)
    known = [name for name in _QUALITY if name in reference.numbers and name in current.numbers]
    numbers = {name: np.concatenate([part.numbers[name][part.usable] for part in both.parts]) for name in known}
    found: dict[str, Any] = {
        "drift": both.test(config),
        "quality": staged_quality_test(numbers, both.draws),
        "tolerance": tolerance_of(reference, int(now.sum()), config),
        "ndcg": ndcg(*(part.mean_shares()[0] for part in (reference, current))),
        "importance": reference.mean_shares()[0],
        "effects": reference.mean_effects(),
        "predictions": _predictions(reference, current, config, both),
        "groups": compare_subgroups(reference, current, config),
    }
    if look_at_inputs:
        edges = reference.input_edges() if reference.has_inputs else None
        parts = [part if edges is None else part.coded(edges) for part in both.parts]
        codes = np.concatenate([part.codes[part.usable] for part in parts])
        found["inputs"] = staged_input_test(codes, both.draws)
        found["slice_inputs"] = staged_slice_input_test(codes, both.draws, slices_of(both.parts))
    fitting = [part for part in earlier if not channel_blocker(reference, part) and part.usable.any()]
    if fitting:
        together = _Pair((reference,), (*fitting, current), config, lambda part: part.usable)
        found |= {"trend": together.test(config), "trend_windows": len(fitting) + 1}
    return ComparisonResult(**{**counts, **found, **more})


def tolerance_of(reference: ExplainedWindow, stays: int, config: AuditConfig) -> float:
    """`config.tolerance`, or as much more as a window of the planned size can exclude, up to `LARGEST`.

    It follows from the reference alone, so that it is fixed before any window is seen.
    """
    good = reference.usable
    axes = [values[good] for values in reference.shares]
    provable = provable_move(axes, reference.patients[good], config.instances or stays, seed=config.seed)
    return max(config.tolerance, min(LARGEST, provable))


def slices_of(parts: Sequence[ExplainedWindow]) -> dict[str, Any]:
    """name -> which of the usable stays belong to it, for each value of each attribute that all parts have."""
    shared = [name for name in parts[0].attributes if all(name in part.attributes for part in parts)]
    columns = {name: np.concatenate([part.attributes[name][part.usable] for part in parts]) for name in shared}
    return {
        f"{name} {value}": column == value
        for name, column in columns.items()
        for value in sorted(set(column.tolist()) - {""})
    }


def _predictions(
    reference: ExplainedWindow, current: ExplainedWindow, config: AuditConfig, drawn: _Pair
) -> PredictionTest | None:
    """All stays with a prediction, also those whose mask looks nowhere."""
    parts = (reference, current)
    if any("risk" not in part.numbers for part in parts):
        return None
    both = _Pair((reference,), (current,), config, lambda part: np.isfinite(part.numbers["risk"]))
    if np.array_equal(both.draws.patients, drawn.draws.patients) and len(both.draws.current) == len(
        drawn.draws.current
    ):
        both = drawn  # the same stays: their permutations are there
    if both.draws.current.all() or not both.draws.current.any():
        return None
    task = "regression" if "squared_error" in reference.numbers else "classification"

    def number(name: str) -> Any:
        known = all(name in part.numbers for part in parts)
        return both.join(lambda part: part.numbers[name]) if known else None

    return staged_prediction_test(
        number("risk"),
        both.draws,
        thresholds=config.thresholds if task == "classification" or config.thresholds != (0.5,) else (),
        classes=number("class"),
        outcomes=number("label"),
        task=task,
    )


class _Pair:
    """Some stays of the reference and of one or several windows, with permutations of their patients."""

    def __init__(
        self,
        before: Sequence[ExplainedWindow],
        now: Sequence[ExplainedWindow],
        config: AuditConfig,
        chosen: Callable[[ExplainedWindow], Any],
    ) -> None:
        self.parts, self.chosen = (*before, *now), chosen
        sizes = [sum(int(chosen(part).sum()) for part in parts) for parts in (before, now)]
        current = np.arange(sum(sizes)) >= sizes[0]
        self.draws = Permutations(current, self.join(lambda part: part.patients), config.permutations, config.seed)

    def join(self, pick: Callable[[ExplainedWindow], Any]) -> Any:
        return np.concatenate([pick(part)[self.chosen(part)] for part in self.parts])

    def test(self, config: AuditConfig) -> DriftTest:
        by_channel, by_time = self.join(lambda part: part.by_channel), self.join(lambda part: part.by_time)
        return staged_drift_test(by_channel, by_time, self.draws, config.block)


def channel_blocker(reference: ExplainedWindow, current: ExplainedWindow) -> dict[str, str]:
    """Explanations of different channels or hours cannot be compared."""
    if reference.channel_names != current.channel_names:
        other = sorted(set(reference.channel_names) ^ set(current.channel_names))
        what = f"they differ in {', '.join(other[:5])}" if other else "they stand in another order"
        return {"channels": f"The reference has other channels than the window: {what}."}
    if len(reference.times) != len(current.times):
        return {"channels": f"The reference has {len(reference.times)} steps, but the window {len(current.times)}."}
    return {}


def trust_of(current: ExplainedWindow, config: AuditConfig) -> TrustResult | None:
    """Whether the window's masks are worth an audit."""
    if not len(current):
        return None
    own = current.numbers["own"]
    other, mean_map = current.numbers["other"], current.numbers["mean_map"]
    return check_trust(own, other, mean_map, config.trust_alpha, config.trust_minimum)


def not_compared(blockers: Mapping[str, str]) -> ComparisonResult:
    """The result of an audit that cannot be: only why."""
    return ComparisonResult(
        channel_names=(),
        times=(),
        instances=0,
        reference_instances=0,
        sampled=0,
        failures=0,
        blockers=blockers,
    )

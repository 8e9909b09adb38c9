"""Every comparison of an audit, from its arrays alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from dynamask_mlflow._provenance import runtime_differences
from dynamask_mlflow.audit.comparison.arrays import AuditArrays
from dynamask_mlflow.audit.comparison.result import QUALITY_KINDS, ComparisonResult
from dynamask_mlflow.audit.comparison.subgroups import compare_subgroups
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.explained_window import ExplainedWindow, PredictedStays, joined_attributes, members
from dynamask_mlflow.audit.statistics import (
    CanaryResult,
    DriftTest,
    Permutations,
    PredictionTest,
    Shift,
    TrustResult,
    check_trust,
    compare_refit,
    compare_versions,
    ndcg,
    paired_shift,
    provable_move,
    rounding_limit,
    split_causes,
    staged_calibration_test,
    staged_drift_test,
    staged_input_test,
    staged_prediction_test,
    staged_quality_test,
    staged_slice_input_test,
)

Stays = TypeVar("Stays", bound=ExplainedWindow | PredictedStays)
LARGEST = 0.1  # a window that cannot exclude a move of this size proves nothing


def compare_arrays(arrays: AuditArrays, config: AuditConfig) -> ComparisonResult:
    """Every comparison of an audit, from its arrays alone."""
    made_from, reference, current = arrays.made_from, arrays.reference, arrays.current
    more: dict[str, Any] = {
        "canary": _canary(arrays, config),
        "changed_anchors": made_from.changed_anchors,
        "noise": made_from.noise,
        "population": made_from.population,
        "constant": made_from.constant,
    }
    old_window, anchors, new_anchors = arrays.old_window, arrays.anchors, arrays.new_anchors
    if old_window is None:
        return compare_windows(reference, current, config, earlier=arrays.earlier, **more)
    # A new version against the reference of an old one: the data arm asks the old model, the model arm the anchors.
    if anchors is not None and new_anchors is not None and len(new_anchors) == len(anchors):
        more["versions"] = compare_versions(anchors.shares, new_anchors.shares)
        shift = more["versions"].channel_shift
        before = reference.mean_shares()[0]
        more["causes"] = split_causes(before, old_window.mean_shares()[0], before + shift, current.mean_shares()[0])
    more |= {"under": made_from.under, "between_versions": _between(old_window, current)}
    return compare_windows(reference, old_window, config, trust=trust_of(current, config), **more)


def compare_windows(
    reference: ExplainedWindow,
    current: ExplainedWindow,
    config: AuditConfig,
    *,
    earlier: Sequence[ExplainedWindow] = (),
    look_at_inputs: bool = True,
    intervals: bool = True,
    **more: Any,
) -> ComparisonResult:
    """Compare two windows under one model.

    Args:
        earlier: the windows of the audits before, which are tested together with this one.
        look_at_inputs: False leaves the input arm out. intervals: False leaves out those of what predictions are worth,
            on which no verdict depends.
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
        "first_failure": current.first_failure,
        "idle": len(current) - int(now.sum()),
        "blockers": blockers,
        "trust": trust_of(current, config),
    }
    if "channels" in blockers or min(counts["instances"], counts["reference_instances"]) < 2:
        return ComparisonResult(**{**counts, **more})
    both = _Pair((reference,), (current,), config, lambda part: part.usable)
    known = [name for name in QUALITY_KINDS if name in reference.numbers and name in current.numbers]
    numbers = {name: np.concatenate([part.numbers[name][part.usable] for part in both.parts]) for name in known}
    found: dict[str, Any] = {
        "drift": _drift_test(both, config),
        "quality": staged_quality_test(numbers, both.draws),
        "tolerance": tolerance_of(reference, int(now.sum()), config),
        "ndcg": ndcg(*(part.mean_shares()[0] for part in (reference, current))),
        "importance": reference.mean_shares()[0],
        "effects": reference.mean_effects(),
        "predictions": _predictions(reference, current, config, both, intervals),
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
        found |= {"trend": _drift_test(together, config), "trend_windows": len(fitting) + 1}
        found["calibration_trend"] = _calibration_trend(reference, (*fitting, current), config)
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
    usable = np.concatenate([part.usable for part in parts])
    columns = {name: column[usable] for name, column in joined_attributes(parts).items()}
    return {f"{name} {value}": own for name, column in columns.items() for value, own in members(column).items()}


def _predictions(
    reference: ExplainedWindow,
    current: ExplainedWindow,
    config: AuditConfig,
    drawn: _Pair[ExplainedWindow],
    intervals: bool,
) -> PredictionTest | None:
    """All stays with a prediction, also those whose mask looks nowhere, and those that were not explained."""
    parts = (reference.predictions, current.predictions)
    if any("risk" not in part.numbers or not np.isfinite(part.numbers["risk"]).any() for part in parts):
        return None
    both = _Pair(parts[:1], parts[1:], config, lambda part: np.isfinite(part.numbers["risk"]))
    draws = both.draws
    if np.array_equal(draws.patients, drawn.draws.patients) and np.array_equal(draws.current, drawn.draws.current):
        draws = drawn.draws  # the same stays: their permutations are there
    task = reference.task

    def number(name: str) -> Any:
        known = all(name in part.numbers for part in parts)
        return both.join(lambda part: part.numbers[name]) if known else None

    return staged_prediction_test(
        number("risk"),
        draws,
        thresholds=config.thresholds if task == "classification" or config.thresholds != (0.5,) else (),
        classes=number("class"),
        outcomes=number("label"),
        task=task,
        intervals=intervals,
    )


def _calibration_trend(
    reference: ExplainedWindow, windows: Sequence[ExplainedWindow], config: AuditConfig
) -> Shift | None:
    parts = [part.predictions for part in (reference, *windows)]
    if any({"risk", "label"} - set(part.numbers) for part in parts):
        return None
    both = _Pair(parts[:1], parts[1:], config, lambda part: np.isfinite(part.numbers["risk"]))
    risk, outcomes = both.join(lambda part: part.numbers["risk"]), both.join(lambda part: part.numbers["label"])
    return staged_calibration_test(risk, outcomes, both.draws, reference.task)


class _Pair(Generic[Stays]):
    """Some stays of the reference and of one or several windows, with permutations of their patients."""

    def __init__(
        self,
        before: Sequence[Stays],
        now: Sequence[Stays],
        config: AuditConfig,
        chosen: Callable[[Stays], Any],
    ) -> None:
        self.parts: tuple[Stays, ...] = (*before, *now)
        self.chosen: Callable[[Stays], Any] = chosen
        sizes = [sum(int(chosen(part).sum()) for part in parts) for parts in (before, now)]
        current = np.arange(sum(sizes)) >= sizes[0]
        self.draws = Permutations(current, self.join(lambda part: part.patients), config.permutations, config.seed)

    def join(self, pick: Callable[[Stays], Any]) -> Any:
        return np.concatenate([pick(part)[self.chosen(part)] for part in self.parts])


def _drift_test(pair: _Pair[ExplainedWindow], config: AuditConfig) -> DriftTest:
    by_channel, by_time = pair.join(lambda part: part.by_channel), pair.join(lambda part: part.by_time)
    return staged_drift_test(by_channel, by_time, pair.draws, config.block)


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


def _between(old: ExplainedWindow, new: ExplainedWindow) -> Shift | None:
    """What both versions predict for the same stays."""
    both = np.intersect1d(old.ids, new.ids)
    if len(both) < 2:
        return None
    sorters = [np.argsort(part.ids) for part in (old, new)]
    rows = [order[np.searchsorted(part.ids[order], both)] for part, order in zip((old, new), sorters, strict=True)]
    first, second = old.numbers["risk"][rows[0]], new.numbers["risk"][rows[1]]
    return paired_shift(first, second, old.patients[rows[0]])


def _canary(arrays: AuditArrays, config: AuditConfig) -> CanaryResult | None:
    anchors, refitted = arrays.anchors, arrays.canary
    if anchors is None or refitted is None:
        return None
    if len(refitted) != len(anchors):
        return CanaryResult(moved=1.0, moved_hours=1.0, each=1.0, limit=0.0, identical=False, clean=False)
    then, now = (part.record.get("runtime") for part in (anchors, refitted))
    return compare_refit(
        anchors.masks,
        refitted.masks,
        anchors.shares,
        refitted.shares,
        tolerance=config.canary_tolerance,
        limit=rounding_limit(arrays.made_from.rounding, config.canary_rounding),
        changed=runtime_differences(then, now) if then and now else None,
    )

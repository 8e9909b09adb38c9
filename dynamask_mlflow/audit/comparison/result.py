"""The result of a comparison: every test between the reference and the window, computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynamask_mlflow.audit.comparison.subgroups import SubgroupTest
from dynamask_mlflow.audit.statistics import (
    CanaryResult,
    CauseSplit,
    DriftTest,
    Floats,
    InputTest,
    PredictionTest,
    ScaledShift,
    Shift,
    SliceInput,
    TrustResult,
    VersionShift,
)

# Numbers of masks that are compared: name -> which kind of quality it is, and what it is called.
QUALITY_KINDS = {
    "area": "legibility",
    "entropy": "legibility",
    "ce": "faithfulness",
    "acc": "faithfulness",
    "squared_error": "faithfulness",
}
QUALITY_NAMES = {
    "area": "area of the masks",
    "entropy": "entropy of the masks",
    "ce": "cross-entropy without the masks' cells (CE)",
    "acc": "share of predictions that survive without the masks' cells (ACC)",
    "squared_error": "squared error without the masks' cells",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonResult:
    """What a verdict is made from. `None`: not computed, for the reason that the counts or `blockers` give.

    Attributes:
        instances: explained stays of the window whose mask looks somewhere. reference_instances: the same.
        population: stays of the window, of which `sampled` were drawn. idle: explained stays whose mask looks nowhere.
        failures: stays that could not be explained, of `sampled`; first_failure: why the first could not.
        importance: (d,) shares of attention by channel in the reference window. effects: (d,) mean change of the
            prediction without each channel, in the reference window.
        predictions: the test of the predictions, of all stays that have one.
        blockers: kind -> a sentence that forbids a comparison at all (settings, channels).
        changed_anchors: stored anchors whose inputs in the data are no longer the same.
        constant: channels that are the same all through every stay of the window.
        tolerance: share of attention that the upper bounds must stay below for an ok.
        slice_inputs: inputs within slices of the stays, the surest first.
        noise: share that another seed of the explainer moves, between "channels" and "hours": the noise floor.
        under: the version that attention, predictions and inputs were asked of, if it is not the audited one.
        between_versions: predictions of both versions for the same stays of the window, old and new.
        groups: what subgroups show, if they were asked for.
        trend: the test of this window together with those of the audits before it; trend_windows: how many in all.
        calibration_trend: the outcomes of the same windows together, where they are known.
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
    quality: Mapping[str, ScaledShift] = field(default_factory=dict)
    ndcg: float = float("nan")
    trust: TrustResult | None = None
    canary: CanaryResult | None = None
    changed_anchors: int = 0
    constant: tuple[str, ...] = ()
    versions: VersionShift | None = None
    causes: CauseSplit | None = None
    noise: Mapping[str, float] = field(default_factory=dict)
    trend: DriftTest | None = None
    trend_windows: int = 0
    calibration_trend: Shift | None = None
    under: str = ""
    between_versions: Shift | None = None
    groups: SubgroupTest | None = None

    @property
    def task(self) -> str:
        """Of the model."""
        return "regression" if "squared_error" in self.quality else "classification"


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

"""How to audit: the settings of the fit plus those of the comparison, one set of keys everywhere."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from dynamask_mlflow._provenance import digest
from dynamask_mlflow.audit.alpha_spending import levels, permutations_needed
from dynamask_mlflow.masks.config import TASKS, ExplainConfig

REFERENCES = ("pinned", "rolling")
# What says where and how fast to compute, or what to show, but not what comes out.
CIRCUMSTANCES = (
    *("device", "memory_budget", "progress", "shard_seconds"),
    *("report_instances", "time_unit", "reminder_days", "events", "events_source"),
)


@dataclass(frozen=True, kw_only=True)
class AuditConfig(ExplainConfig):
    """Settings of an audit; those of `ExplainConfig` and these.

    Attributes:
        task: "classification" or "regression"; None: as the model was logged.
        measured_only: only cells that were measured may be salient, not those that were filled in.
        attention_area: attention is the mean of the nested masks up to this area, on a logarithmic scale.
        instances: stays of a window to explain, drawn by the seed; None for all.
        reference_instances: the same for the reference.
        minimum: with fewer stays the verdict is inconclusive.
        anchors: stays of the reference that are refitted in every audit (the canary).
        noise_seeds: other seeds with which the anchors are fitted once, for the noise floor.
        reference: "pinned" to the version, or "rolling": the last complete audit before the window.
        permutations: of patients, for what a few do not settle.
        alpha: chance of any false alarm in a year of audits when nothing changes.
        audits_per_year: over which alpha is spent.
        effect: share of attention that must have moved, between channels or between hours, to alarm; what counts is the
            lower 95 % bound.
        tolerance: share of attention above which a move would matter: OK is proven if the upper 95 % bounds are
            below it.
        locate_alpha: chance of naming any channel, or any hour, that did not move.
        block: hours in a block of the energy distance.
        version_lost: a new version alarms if it gave up so much of an important channel's share on the same stays.
        version_channel, version_hours: it also alarms if one channel's share, or the attention between hours, moved
            so much; set them above what a few harmless retrains of your own move.
        canary_tolerance: share of attention that may move between two fits of the anchors.
        canary_rounding: an anchor's own shares may move so many times as far as the last bit of its inputs moves them.
        trust_alpha, trust_minimum: of the trust gate.
        input_level: false discovery rate of the list of inputs that moved.
        important: a channel matters, and its inputs may warn, if the prediction changes without it by so many times as
            much as without the average channel, in the reference window.
        input_effect: Kolmogorov-Smirnov distance of an important channel's inputs, or of the predictions, that warns.
        thresholds: of the predicted risk: the share of stays above each is watched.
        risk_effect: change of the mean predicted risk that warns. alert_effect: change of the share above a threshold,
            as a share of what it was. value_effect: change of a mean predicted value, in standard deviations.
        performance_effect: change of AUROC, AUPRC, Brier score or calibration that warns, where outcomes are known.
        quality_effect: change of area, entropy, CE or ACC, in standard deviations, that alarms.
        trend_window, trend_effect: a weaker move alarms if the last so many windows together prove it.
        by: attributes of the stays by which subgroups are looked at, such as sex, age_group and unit.
        group_minimum: stays of a subgroup, in each window, below which it is reported as too small.
        slices: attributes among which the slice is searched that explains a finding, "shift" for the shifts of the day;
            None: all that the dataset has.
        events, events_source: the raw tables and what they are, as of `data build`: a fault is then traced to a code.
        max_failures: share of stays that may fail; beyond it the verdict is inconclusive.
        hash_ids: replace ids and patients by keyed hashes; the key is the variable DYNAMASK_ID_SALT.
        reminder_days: an episode that lasts is told again after so many days.
        shard_seconds: estimated duration of one shard.
        report_instances: stays shown one by one in the report.
        time_unit: what one step is called.
    """

    task: str | None = None
    measured_only: bool = False
    attention_area: float = 0.1
    instances: int | None = 200
    reference_instances: int | None = 500
    minimum: int = 100
    anchors: int = 50
    noise_seeds: int = 1
    reference: str = "pinned"
    permutations: int = 9999
    alpha: float = 0.05
    audits_per_year: int = 12
    effect: float = 0.02
    tolerance: float = 0.06
    locate_alpha: float = 0.01
    block: int = 6
    version_lost: float = 0.95
    version_channel: float = 0.075
    version_hours: float = 0.21
    canary_tolerance: float = 0.005
    canary_rounding: float = 3.0
    trust_alpha: float = 0.01
    trust_minimum: int = 20
    input_level: float = 0.05
    important: float = 1.0
    input_effect: float = 0.15
    thresholds: tuple[float, ...] = (0.5,)
    risk_effect: float = 0.02
    alert_effect: float = 0.25
    value_effect: float = 0.2
    performance_effect: float = 0.02
    quality_effect: float = 0.5
    trend_window: int = 3
    trend_effect: float = 0.0125
    by: tuple[str, ...] = ()
    group_minimum: int = 50
    slices: tuple[str, ...] | None = None
    events: str | None = None
    events_source: str = "mimic3"
    max_failures: float = 0.1
    hash_ids: bool = False
    reminder_days: int = 90
    shard_seconds: float = 300.0
    report_instances: int = 40
    time_unit: str = "hour"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task is not None and self.task not in TASKS:
            raise ValueError(f"Expected task to be one of {TASKS}, or None, but got {self.task!r}.")
        if self.reference not in REFERENCES:
            raise ValueError(f"Expected reference to be one of {REFERENCES}, but got {self.reference!r}.")
        for name in ("instances", "reference_instances"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"Expected {name} >= 1, or None for all, but got {value}.")
        for name in (
            "minimum",
            "block",
            "trend_window",
            "trust_minimum",
            "audits_per_year",
            "reminder_days",
            "group_minimum",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"Expected {name} >= 1, but got {getattr(self, name)}.")
        for name in ("anchors", "noise_seeds", "report_instances"):
            if getattr(self, name) < 0:
                raise ValueError(f"Expected {name} >= 0, but got {getattr(self, name)}.")
        if not isinstance(self.thresholds, list | tuple):
            raise ValueError(f"Expected thresholds such as [0.3, 0.5], but got {self.thresholds!r}.")
        for name in ("by", "slices"):
            value = getattr(self, name)
            if isinstance(value, str):
                value = tuple(part.strip() for part in value.split(",") if part.strip())
            if value is not None:
                object.__setattr__(self, name, tuple(dict.fromkeys(value)))
        object.__setattr__(self, "thresholds", tuple(sorted({float(t) for t in self.thresholds})))
        shares = ("alpha", "locate_alpha", "effect", "trend_effect", "tolerance", "trust_alpha", "input_level")
        warning = ("input_effect", "risk_effect", "performance_effect")
        for name in (*shares, *warning, "attention_area"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"Expected {name} in (0, 1), but got {getattr(self, name)}.")
        if not 0 <= self.max_failures <= 1:
            raise ValueError(f"Expected max_failures in [0, 1], but got {self.max_failures}.")
        needed = permutations_needed(self.alpha, self.audits_per_year, bool(self.by))
        if self.permutations < needed:
            raise ValueError(
                f"Expected at least {needed} permutations for alpha {self.alpha} over {self.audits_per_year} audits, "
                f"but got {self.permutations}."
            )
        if not self.shard_seconds > 0:
            raise ValueError(f"Expected shard_seconds > 0, but got {self.shard_seconds}.")

    @property
    def levels(self) -> dict[str, float]:
        """The p-values that alarm, by what is tested: those of `spending`, and "groups"."""
        return levels(self.alpha, self.audits_per_year, bool(self.by))

    def fit_config(self, **changes: Any) -> ExplainConfig:
        """The part that `explain` takes."""
        options = {f.name: getattr(self, f.name) for f in fields(ExplainConfig)}
        return ExplainConfig(**{**options, **changes})

    def to_dict(self) -> dict[str, Any]:
        """Every setting, as JSON holds it."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=_spec))
        return plain

    @property
    def explainer_digest(self) -> str:
        """Of the settings on which masks depend. Masks of different digests must not be compared.

        Settings at the engine's default do not count: a release that adds one leaves the references valid, and if it
        changes what a default means, the canary tells.
        """
        given = self.to_dict()
        chosen = {
            f.name: given[f.name]
            for f in fields(ExplainConfig)
            if f.name not in CIRCUMSTANCES and getattr(self, f.name) != f.default
        }
        return digest(chosen | {name: given[name] for name in ("measured_only", "attention_area", "task", "seed")})

    @property
    def audit_digest(self) -> str:
        """Of the settings on which a verdict depends."""
        return digest({k: v for k, v in self.to_dict().items() if k not in CIRCUMSTANCES})


def _spec(value: Any) -> str:
    return str(getattr(value, "spec", value))

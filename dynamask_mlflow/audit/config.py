"""How to audit: the settings of the fit plus those of the comparison, one set of keys everywhere."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from dynamask_mlflow._provenance import digest
from dynamask_mlflow._settings import ConfigError, Count, Many, Positive, Settings, Share, shown
from dynamask_mlflow.masks.config import ExplainConfig, Task

# What says where and how fast to compute, or what to show, but not what comes out.
CIRCUMSTANCES = (
    *("device", "memory_budget", "progress", "shard_seconds"),
    *("report_instances", "time_unit", "sequence_name", "reminder_days", "events", "events_source"),
)

Limit = Annotated[float, Field(ge=0)]
_MOST_PERMUTATIONS = 100_000_000


def _once(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _sorted_set(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sorted(set(values)))


class StaySettings(Settings):
    """Which stays, and how they are explained"""

    task: Task | None = None
    """"classification" or "regression"; None: as the model was logged."""
    measured_only: bool = False
    """Only cells that were measured may be salient, not those that were filled in."""
    attention_area: Share = 0.1
    """Attention is the mean of the nested masks up to this area, on a logarithmic scale."""
    instances: Positive | None = 200
    """Stays of a window to explain, drawn by the seed; None for all."""
    predicted_instances: Count | None = 4000
    """Stays of a window, and of the reference, whose predictions and outcomes are compared, the explained ones among
    them; they need no mask. None for all, 0 for the explained ones alone."""
    minimum: Positive = 100
    """With fewer stays the verdict is inconclusive."""
    max_failures: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of stays that may fail; beyond it the verdict is inconclusive."""
    hash_ids: bool = False
    """Replace ids and patients by keyed hashes; the key is the variable DYNAMASK_ID_SALT."""


class ReferenceSettings(Settings):
    """The reference"""

    reference_instances: Positive | None = 500
    """The same as `instances` for the reference."""
    anchors: Count = 50
    """Stays of the reference that are refitted in every audit (the canary)."""
    noise_seeds: Count = 1
    """Other seeds with which the anchors are fitted once, for the noise floor."""
    reference: Literal["pinned", "rolling"] = "pinned"
    """"pinned" to the version, or "rolling": the last complete audit before the window."""
    canary_tolerance: Limit = 0.005
    """Share of attention that may move between two fits of the anchors."""
    canary_rounding: Limit = 3.0
    """An anchor's own shares may move so many times as far as the last bit of its inputs moves them."""


class AttentionSettings(Settings):
    """When a change of attention is a violation"""

    permutations: Annotated[int, Field(ge=1, le=_MOST_PERMUTATIONS)] = 9999
    """Of patients, for what a few do not settle."""
    alpha: Share = 0.05
    """Chance of any false alarm in a year of audits when nothing changes."""
    audits_per_year: Positive = 12
    """Over which alpha is spent."""
    effect: Share = 0.02
    """Share of attention that must have moved, between channels or between hours, to alarm; what counts is the lower
    95 % bound."""
    tolerance: Share = 0.06
    """Share of attention above which a move would matter: OK is proven if the upper 95 % bounds are below it. Where a
    window of `instances` stays cannot exclude so little, it is as much as 97.5 % of unchanged windows exclude, as the
    reference's own spread tells, up to .1."""
    locate_alpha: Share = 0.01
    """Chance of naming any channel, or any hour, that did not move."""
    block: Positive = 6
    """Hours in a block of the energy distance."""
    trend_window: Positive = 3
    """A weaker move alarms if the last so many windows together prove it."""
    trend_effect: Share = 0.0125
    """A weaker move alarms if the last windows together prove it: so weak."""
    quality_effect: Limit = 0.5
    """Change of area, entropy, CE or ACC, in standard deviations, that alarms."""
    trust_alpha: Share = 0.01
    """Of the trust gate: its level."""
    trust_minimum: Positive = 20
    """Of the trust gate: stays below which it does not speak."""


class VersionSettings(Settings):
    """When a new version is a violation"""

    version_lost: Limit = 0.95
    """A new version alarms if it gave up so much of an important channel's share on the same stays."""
    version_channel: Limit = 0.075
    """It also alarms if one channel's share moved so much; set it above what a few harmless retrains of your own
    move."""
    version_hours: Limit = 0.21
    """It also alarms if the attention between hours moved so much; set it above what a few harmless retrains of your
    own move."""


class InputSettings(Settings):
    """When a change of inputs or predictions warns"""

    input_level: Share = 0.05
    """False discovery rate of the list of inputs that moved."""
    important: Limit = 1.0
    """A channel matters, and its inputs may warn, if the prediction changes without it by so many times as much as
    without the average channel, in the reference window."""
    input_effect: Share = 0.15
    """Kolmogorov-Smirnov distance of an important channel's inputs, or of the predictions, that warns."""
    thresholds: Annotated[Many[float], AfterValidator(_sorted_set)] = (0.5,)
    """Of the predicted risk: the share of stays above each is watched."""
    risk_effect: Share = 0.02
    """Change of the mean predicted risk that warns."""
    alert_effect: Limit = 0.25
    """Change of the share above a threshold that warns, as a share of what it was."""
    value_effect: Limit = 0.2
    """Change of a mean predicted value that warns, in standard deviations."""
    performance_effect: Share = 0.02
    """Change of AUROC, AUPRC, Brier score or calibration that warns, where outcomes are known."""


class GroupSettings(Settings):
    """Subgroups and causes"""

    by: Annotated[Many[str], AfterValidator(_once)] = ()
    """Attributes of the stays by which subgroups are looked at, such as sex, age_group and unit."""
    group_minimum: Positive = 50
    """Stays of a subgroup, in each window, below which it is reported as too small."""
    slices: Annotated[Many[str], AfterValidator(_once)] | None = None
    """Attributes among which the slice is searched that explains a finding, "shift" for the shifts of the day; None:
    all that the dataset has."""
    events: str | None = None
    """The raw tables, as of `data build`: a fault is then traced to a code."""
    events_source: str = "mimic3"
    """What the raw tables are, as of `data build`."""


class OperationSettings(Settings):
    """How an audit is run and shown"""

    reminder_days: Positive = 90
    """Another notice of an episode that lasts is sent after so many days."""
    shard_seconds: Annotated[float, Field(gt=0)] = 300.0
    """Estimated duration of one shard."""
    report_instances: Count = 40
    """Stays shown one by one in the report."""
    time_unit: str = "hour"
    """What one step is called."""
    sequence_name: str = "stay"
    """What one sequence is called in sentences and pages: stay, cycle, run."""


class AuditConfig(
    OperationSettings,
    GroupSettings,
    InputSettings,
    VersionSettings,
    AttentionSettings,
    ReferenceSettings,
    StaySettings,
    ExplainConfig,
):
    """Settings of an audit; those of `ExplainConfig` and these.

    >>> AuditConfig(audits_per_year=6).levels["attention"] > AuditConfig().levels["attention"]
    True
    """

    @model_validator(mode="after")
    def _check_permutations(self) -> Self:
        try:
            needed = permutations_needed(self.alpha, self.audits_per_year, bool(self.by))
        except (OverflowError, ZeroDivisionError):  # a chance that no float can share out
            needed = _MOST_PERMUTATIONS + 1
        if needed > _MOST_PERMUTATIONS:
            raise ConfigError(
                f"Expected an alpha for which {_MOST_PERMUTATIONS:,} permutations are enough, but got {self.alpha} "
                f"over {self.audits_per_year} audits."
            )
        if self.permutations < needed:
            raise ConfigError(
                f"Expected at least {needed} permutations for alpha {self.alpha} over {self.audits_per_year} audits, "
                f"but got {self.permutations}."
            )
        return self

    @field_validator("target", mode="after")
    @classmethod
    def _check_target_text(cls, target: Any) -> Any:
        """Shards are fitted in other processes, and a verdict is computed again in another year: both read settings."""
        if callable(target):
            raise ConfigError(f"Expected the target of an audit as text or a number, but got {shown(target)}.")
        return target

    @property
    def levels(self) -> dict[str, float]:
        """The p-values that alarm, by what is tested: those of `spending`, and "groups"."""
        return levels(self.alpha, self.audits_per_year, bool(self.by))

    def fit_config(self, **changes: Any) -> ExplainConfig:
        """The part that `explain` takes."""
        return self.part(ExplainConfig, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Every setting, as JSON holds it."""
        plain: dict[str, Any] = json.loads(json.dumps(super().to_dict(), default=_spec))
        return plain

    @property
    def explainer_digest(self) -> str:
        """Of the settings on which masks depend. Masks of different digests must not be compared.

        Settings at the engine's default do not count: a release that adds one leaves the references valid, and if it
        changes what a default means, the canary tells.
        """
        given = self.to_dict()
        chosen = {
            name: given[name]
            for name, field in ExplainConfig.model_fields.items()
            if name not in CIRCUMSTANCES and getattr(self, name) != field.default
        }
        return digest(chosen | {name: given[name] for name in ("measured_only", "attention_area", "task", "seed")})

    @property
    def audit_digest(self) -> str:
        """Of the settings on which a verdict depends."""
        return digest({k: v for k, v in self.to_dict().items() if k not in CIRCUMSTANCES})


def _spec(value: Any) -> str:
    return str(getattr(value, "spec", value))


# Of an audit's own chance of a false alarm: attention in this window, in the last few windows together, the masks'
# quality, the predictions, what they are worth, their calibration in this window and in the last few together, the
# inputs of important channels, and those inputs within slices.
# Attention and quality also need a move of some size, which chance hardly ever makes: their part can be small.
SPENDING = {
    "attention": 0.2,
    "trend": 0.15,
    "quality": 0.05,
    "predictions": 0.15,
    "performance": 0.05,
    "calibration": 0.12,
    "calibration_trend": 0.08,
    "inputs": 0.12,
    "slices": 0.08,
}
GROUPS = 0.2  # of an audit's chance, if subgroups are looked at; the others share the rest as before


def levels(alpha: float, audits: int, groups: bool = False) -> dict[str, float]:
    """alpha_k = s_k alpha / audits, with shares s_k that add up to 1.

    The audits of a year share their reference and are not independent; by Boole's inequality the chance of any false
    alarm is at most alpha all the same.
    """
    if not 0 < alpha < 1 or audits < 1:
        raise ValueError(f"Expected alpha in (0, 1) and at least 1 audit a year, but got {alpha} and {audits}.")
    rest = 1 - GROUPS if groups else 1.0
    spent = {name: rest * share * alpha / audits for name, share in SPENDING.items()}
    return spent | {"groups": GROUPS * alpha / audits} if groups else spent


def permutations_needed(alpha: float, audits: int, groups: bool = False) -> int:
    """How many permutations can give p-values as small as the levels.

    The smallest of three p-values (attention) is at best 3 / (permutations + 1), one of two families (groups)
    2 / (permutations + 1); the others are adjusted by step-down, which costs nothing.
    """
    best = {"attention": 3, "trend": 3, "groups": 2}
    return max(math.ceil(best.get(name, 1) / level - 1e-9) - 1 for name, level in levels(alpha, audits, groups).items())

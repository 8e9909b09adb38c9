"""How to evaluate: the settings of the fit plus those of the evaluation, one set of keys everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, field_validator, model_validator

from dynamask_mlflow._paths import local_path
from dynamask_mlflow._settings import (
    Area,
    ConfigError,
    Count,
    Many,
    Names,
    Positive,
    Settings,
    Share,
    ascending,
    different,
)
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.target_spec import parse_target

CURVE_AREAS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # the scale of the masks, which hold a few per cent


class SampleSettings(Settings):
    """Which instances are explained, and against what"""

    enabled: bool = True
    """False switches the evaluator off."""
    instances: Positive | None = 64
    """How many instances to explain; None for all."""
    sampling: Literal["random", "class", "risk", "first"] = "random"
    """Which: "random"; "class" (in proportion to the predicted classes, each at least once); "risk" (evenly over the
    ranks of the predicted risk or value); "first"."""
    ids: Annotated[Names, AfterValidator(different)] | None = None
    """Exactly these instances, in this order, instead of a sample."""
    reference_from: Literal["model", "dataset"] = "model"
    """Against which other sequences answers are explained: "model" (those it was logged with; baselines where it has
    none) or "dataset" (those of the evaluated dataset)."""


class ScoreSettings(Settings):
    """What is measured"""

    methods: Annotated[Many[str], AfterValidator(different)] | None = None
    """Several methods at once, logged as `dynamask/<method>/...`; the first is also the main one."""
    curve_areas: Annotated[Many[Area], AfterValidator(ascending)] = CURVE_AREAS
    """Areas at which the curves of CE and ACC (of the squared error in regression) are drawn."""
    control_instances: Positive = 128
    """Curves, comprehensiveness and sufficiency of random cells are of at most so many instances, spread evenly over
    the sample; the shift at each mask's own area is always of all."""
    sanity_instances: Count = 0
    """Refit so many instances with randomised weights and log how alike the masks are (`dynamask/sanity_similarity`:
    near 0 is good, near 1 means that they ignore the model)."""
    more_targets: Many[str] = ()
    """Other targets to explain as well, for instance other horizons of a forecast; the report has a choice between
    them. Metrics are of `target` alone."""


class ReportSettings(Settings):
    """What the report shows"""

    images: Count = 8
    """Heat maps to store as PNG, of the first so many instances."""
    report_instances: Count = 1000
    """The report lists the first so many instances; its curves and profiles are of all."""
    threshold: Share = 0.5
    """The risk from which a reader is alarmed; drawn in the report of a binary classifier. A model that was logged with
    one of its own brings it."""
    title: str | None = None
    """Of the report."""
    time_unit: str | None = None
    """What one step is called in the report: "hour", ...; None: as the model was logged, or "step"."""


class PrivacySettings(Settings):
    """What leaves the process"""

    log_inputs: bool = False
    """Put the series into the report. Off: artifacts hold masks and ids, never raw values."""
    hash_ids: bool = False
    """Replace ids by keyed hashes; the key is the environment variable DYNAMASK_ID_SALT, which must be set."""
    min_group: Positive = 1
    """The profile has no number of fewer instances than this. Masks and table are still of each instance."""
    spool: str | None = None
    """Folder for results on their way to the server; None is the system's folder for temporary files."""

    @field_validator("spool", mode="after")
    @classmethod
    def _check_spool(cls, spool: str | None) -> str | None:
        if spool is not None:
            local_path(spool, "spool")
        return spool


class ChangeSettings(Settings):
    """What changed since an earlier time"""

    change_since: float | str | None = None
    """Also explain what changed since this time: one of the times where these are numbers, else a number of steps
    (negative: from the end). Logged as `dynamask_changes.json`, `dynamask/change.npz` and `dynamask/change.json`, see
    docs/change.md."""
    change_until: float | str | None = None
    """The later time; None is the end of each sequence."""
    change_padding: float | str | None = None
    """How a shorter sequence is filled up for the model: "carry", "shorter" or a number; None: as the model was
    logged."""


class EvaluationConfig(ChangeSettings, PrivacySettings, ReportSettings, ScoreSettings, SampleSettings, ExplainConfig):
    """Settings of the `dynamask` evaluator; those of `ExplainConfig` and these.

    >>> EvaluationConfig(instances=8, area=0.1).fit_config("paper").area
    0.1
    >>> EvaluationConfig.from_mapping({"hash_ids": "false"})
    Traceback (most recent call last):
    dynamask_mlflow._settings.ConfigError: Expected hash_ids to be true or false, but got 'false' (str).
    """

    @model_validator(mode="after")
    def _check_more_targets(self) -> Self:
        for target in self.more_targets:
            try:
                parse_target(target, self.class_names)
            except ValueError as error:
                raise ConfigError(f"In more_targets: {error}") from error
        return self

    @property
    def all_methods(self) -> tuple[str, ...]:
        """The methods to run, the main one first."""
        return self.methods or (self.method,)

    def fit_config(self, method: str) -> ExplainConfig:
        """The part that `explain` takes, for one of the methods."""
        return self.part(ExplainConfig, method=method)


def own_keys(config: Mapping[str, Any] | None) -> list[str]:
    """The keys of a configuration that can only be meant for this evaluator."""
    return [key for key in config or {} if key in EvaluationConfig.model_fields]

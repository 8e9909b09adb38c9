"""How to evaluate: the settings of the fit plus those of the evaluation, one set of keys everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from dynamask_mlflow._paths import local_path
from dynamask_mlflow._validation import ConfigError, check_mapping, check_types, shown
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.target_spec import parse_target

SAMPLINGS = ("random", "class", "risk", "first")
CURVE_AREAS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # the scale of the masks, which hold a few per cent
_DEVICE = re.compile(r"auto|(?:cpu|cuda|mps|xpu|hpu|xla|privateuseone)(?::\d{1,3})?")
_COUNTS = {
    "instances": 1,
    "control_instances": 1,
    "sanity_instances": 0,
    "images": 0,
    "report_instances": 0,
    "min_group": 1,
    "seed": 0,
    "steps": 1,
    "memory_budget": 1,
}
_LARGEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(ExplainConfig):
    """Settings of the `dynamask` evaluator; those of `ExplainConfig` and these.

    Attributes:
        enabled: False switches the evaluator off.
        instances: how many instances to explain; None for all.
        sampling: which: "random"; "class" (in proportion to the predicted classes, each at least once);
            "risk" (evenly over the ranks of the predicted risk or value); "first".
        ids: exactly these instances, in this order, instead of a sample.
        methods: several methods at once, logged as `dynamask/<method>/...`; the first is also the main one.
        curve_areas: areas at which the curves of CE and ACC (of the squared error in regression) are drawn.
        control_instances: curves, comprehensiveness and sufficiency of random cells are of at most so many instances,
            spread evenly over the sample; the shift at each mask's own area is always of all.
        sanity_instances: refit so many instances with randomised weights and log how alike the masks are
            (`dynamask/sanity_similarity`: near 0 is good, near 1 means that they ignore the model).
        images: heat maps to store as PNG, of the first so many instances.
        report_instances: the report lists the first so many instances; its curves and profiles are of all.
        log_inputs: put the series into the report. Off: artifacts hold masks and ids, never raw values.
        hash_ids: replace ids by keyed hashes; the key is the environment variable DYNAMASK_ID_SALT, which must be set.
        min_group: the profile has no number of fewer instances than this. Masks and table are still of each instance.
        more_targets: other targets to explain as well, for instance other horizons of a forecast; the report has a
            choice between them. Metrics are of `target` alone.
        threshold: the risk from which a reader is alarmed; drawn in the report of a binary classifier.
        change_since: also explain what changed since this time: one of the times where these are numbers, else a number
            of steps (negative: from the end). Logged as `dynamask_changes.json`, `dynamask/change.npz` and
            `dynamask/change.json`, see docs/change.md.
        change_until: the later time; None is the end of each sequence.
        change_padding: how a shorter sequence is filled up for the model: "carry", "shorter" or a number; None: as the
            model was logged.
        title: of the report.
        time_unit: what one step is called in the report: "hour", ...; None: as the model was logged, or "step".
        spool: folder for results on their way to the server; None is the system's folder for temporary files.
    """

    enabled: bool = True
    instances: int | None = 64
    sampling: str = "random"
    ids: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    curve_areas: tuple[float, ...] = CURVE_AREAS
    control_instances: int = 128
    sanity_instances: int = 0
    images: int = 8
    report_instances: int = 1000
    log_inputs: bool = False
    hash_ids: bool = False
    min_group: int = 1
    more_targets: tuple[str, ...] = ()
    threshold: float = 0.5
    change_since: float | str | None = None
    change_until: float | str | None = None
    change_padding: float | str | None = None
    title: str | None = None
    time_unit: str | None = None
    spool: str | None = None

    def __post_init__(self) -> None:
        if type(self.device).__name__ == "device":
            object.__setattr__(self, "device", str(self.device))
        for name in ("ids", "methods", "class_names"):
            values = getattr(self, name)
            if isinstance(values, str):
                raise ConfigError(f"Expected {name} to be a list, but got {values!r}.")
            if isinstance(values, list | tuple) and name != "methods":
                object.__setattr__(self, name, tuple(str(v) if isinstance(v, int) else v for v in values))
        check_types(self, leave=("operators",))
        given = self.operators if isinstance(self.operators, list | tuple) else (self.operators,)
        for operator in () if self.operators is None else given:
            if not isinstance(operator, str) and not callable(getattr(operator, "prepare", None)):
                raise ConfigError(f"Expected operators as specs such as 'blur:1', but got {shown(operator)}.")
        try:
            super().__post_init__()
        except ConfigError:
            raise
        except (TypeError, ValueError) as error:
            raise ConfigError(str(error)) from error
        self._check_lists()
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= _LARGEST:
                every = ", or None for all" if name == "instances" else ""
                raise ConfigError(f"Expected {name} >= {least}{every}, but got {value}.")
        if not 0 < self.threshold < 1:
            raise ConfigError(f"Expected threshold in (0, 1), but got {self.threshold}.")
        for target in self.more_targets:
            try:
                parse_target(target, self.class_names)
            except ValueError as error:
                raise ConfigError(f"In more_targets: {error}") from error
        if self.sampling not in SAMPLINGS:
            raise ConfigError(f"Expected sampling to be one of {SAMPLINGS}, but got {self.sampling!r}.")
        if not _DEVICE.fullmatch(self.device):
            raise ConfigError(f"Expected device to be 'auto' or a torch device as 'cuda:0', but got {self.device!r}.")
        if self.spool is not None:
            try:
                local_path(self.spool, "spool")
            except ValueError as error:
                raise ConfigError(str(error)) from error

    def _check_lists(self) -> None:
        for name in ("ids", "methods", "class_names", "curve_areas"):
            values = getattr(self, name)
            if values is not None and not values:
                raise ConfigError(f"Expected at least one of {name}, or None, but got none.")
        for name in ("ids", "methods"):
            values = getattr(self, name)
            if values is not None and len(set(values)) < len(values):
                raise ConfigError(f"Expected {name} without repetition, but got {shown(values)}.")
        object.__setattr__(self, "curve_areas", tuple(sorted(self.curve_areas)))
        if not all(0 < area <= 1 for area in self.curve_areas):
            raise ConfigError(f"Expected curve_areas in (0, 1], but got {shown(self.curve_areas)}.")

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> Self:
        """Build a configuration from any mapping; whatever is wrong with it is a `ConfigError`."""
        check_mapping(options)
        try:
            return super().from_mapping(options)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(str(error)) from error

    @property
    def all_methods(self) -> tuple[str, ...]:
        """The methods to run, the main one first."""
        return self.methods or (self.method,)

    def fit_config(self, method: str) -> ExplainConfig:
        """The part that `explain` takes, for one of the methods."""
        options = {f.name: getattr(self, f.name) for f in fields(ExplainConfig)}
        return ExplainConfig(**{**options, "method": method})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def own_keys(config: Mapping[str, Any] | None) -> list[str]:
    """The keys of a configuration that can only be meant for this evaluator."""
    known = {f.name for f in fields(EvaluationConfig)}
    return [key for key in config or {} if key in known]

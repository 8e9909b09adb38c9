"""What a logged model carries beside its weights: task, names, statistics, explanation settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dynamask_mlflow._validation import check_types
from dynamask_mlflow.masks.config import TASKS, ExplainConfig, reject_unknown_keys

FILE_NAME = "dynamask.json"
OUTPUTS = {"classification": ("label", "probability"), "regression": ("value",)}


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Stored as `dynamask.json` in the model's folder.

    Attributes:
        task: "classification" or "regression".
        output: what `predict` gives: "label" (the default, as MLflow's evaluators want it), "probability";
            "value" for regression.
        steps, channels: the shape (T, d) of one input.
        channel_names: d names, in the order of the network's inputs.
        times: T labels of the steps, if there are any.
        class_names, time_unit: what the classes and one step are called: ("survives", "dies"), "hour".
        channel_labels, units: d names as a reader knows them, "Potassium (lab)", and units, "mmol/L", for the report.
        preprocessing: statistics of the preprocessing (JSON-able). They are carried, not applied: `predict`
            takes what the network was trained on. Scaling that shall be applied belongs into the network.
        explain: default settings of explanations: keys of `ExplainConfig`.
    """

    task: str
    output: str = ""
    steps: int
    channels: int
    channel_names: tuple[str, ...] | None = None
    times: tuple[Any, ...] | None = None
    class_names: tuple[str, ...] | None = None
    time_unit: str | None = None
    channel_labels: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None
    preprocessing: Mapping[str, Any] | None = None
    explain: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"Expected task to be one of {TASKS}, but got {self.task!r}.")
        if not self.output:
            object.__setattr__(self, "output", OUTPUTS[self.task][0])
        if self.output not in OUTPUTS[self.task]:
            raise ValueError(
                f"Expected output to be one of {OUTPUTS[self.task]} for {self.task}, but got {self.output!r}."
            )
        if self.class_names is not None:
            object.__setattr__(self, "class_names", tuple(self.class_names))
        of_channels = dict.fromkeys(("channel_names", "channel_labels", "units"), self.channels)
        for name, size in {**of_channels, "times": self.steps}.items():
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, tuple(values))
                if len(values) != size:
                    raise ValueError(f"Expected {size} {name}, but got {len(values)}.")
        ExplainConfig.from_mapping(self.explain)
        try:
            json.dumps([self.preprocessing, dict(self.explain), self.times])
        except TypeError as error:
            raise ValueError(f"Expected preprocessing, explain and times that JSON can hold, but {error}.") from error

    @property
    def padding(self) -> str | None:
        """How a shorter sequence is filled up for `explain_change`: "carry" where all channels were filled forward."""
        rules = (self.preprocessing or {}).get("fill")
        return "carry" if rules and all(rule == "forward" for rule in rules) else None

    def save(self, folder: str | os.PathLike[str]) -> None:
        text = json.dumps(asdict(self), indent=2)
        (Path(folder) / FILE_NAME).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ModelSettings:
        path = Path(folder) / FILE_NAME
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"Expected settings of a dynamask model at {path}, but {error}.") from error
        if not isinstance(stored, dict):
            raise ValueError(f"Expected settings of a dynamask model at {path}, but got {type(stored).__name__}.")
        reject_unknown_keys(cls, stored)
        try:
            settings = cls(**stored)
            check_types(settings)
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"Expected settings of a dynamask model at {path}, but they are malformed.") from error
        return settings

    def config(self, **options: Any) -> ExplainConfig:
        """The model's default explanation settings, overridden by `options`."""
        return ExplainConfig.from_mapping({**self.explain, **options})

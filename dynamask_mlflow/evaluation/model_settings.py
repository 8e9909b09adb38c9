"""What a logged model carries beside its weights: task, names, statistics, explanation settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from dynamask_mlflow._settings import ConfigError, Many, Settings, Share
from dynamask_mlflow.masks.config import ExplainConfig, Task

FILE_NAME = "dynamask.json"
PADDINGS = ("carry", "shorter")
OUTPUTS = {"classification": ("label", "probability"), "regression": ("value",)}


class ModelSettings(Settings):
    """Stored as `dynamask.json` in the model's folder.

    >>> ModelSettings(task="classification", steps=48, channels=32).output
    'label'
    """

    task: Task
    """"classification" or "regression"."""
    output: str = ""
    """What `predict` gives: "label" (the default, as MLflow's evaluators want it), "probability"; "value" for
    regression."""
    steps: int
    """T of the shape (T, d) of one input."""
    channels: int
    """d of the shape (T, d) of one input."""
    channel_names: Many[str] | None = None
    """d names, in the order of the network's inputs."""
    times: Many[Any] | None = None
    """T labels of the steps, if there are any."""
    class_names: Many[str] | None = None
    """What the classes are called: ("survives", "dies")."""
    time_unit: str | None = None
    """What one step is called: "hour"."""
    channel_labels: Many[str] | None = None
    """d names as a reader knows them, "Potassium (lab)", for the report."""
    units: Many[str] | None = None
    """d units, "mmol/L", for the report."""
    preprocessing: Mapping[str, Any] | None = None
    """Statistics of the preprocessing (JSON-able). They are carried, not applied: `predict` takes what the network was
    trained on. Scaling that shall be applied belongs into the network."""
    explain: Mapping[str, Any] = Field(default_factory=dict)
    """Default settings of explanations: keys of `ExplainConfig`."""
    padding: str | float | Many[float] | None = None
    """How a shorter sequence was filled up in training, for `explain_change`: "carry" (the last values stand),
    "shorter" (the network takes any length), or one number, or d numbers, that fill the end."""
    threshold: Share | None = None
    """The risk from which the model's users are alarmed, for a classifier of two classes."""

    @model_validator(mode="before")
    @classmethod
    def _fill_output(cls, given: dict[str, Any]) -> dict[str, Any]:
        known = OUTPUTS.get(str(given.get("task")))
        return {**given, "output": known[0]} if known and not given.get("output") else given

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.output not in OUTPUTS[self.task]:
            raise ConfigError(
                f"Expected output to be one of {OUTPUTS[self.task]} for {self.task}, but got {self.output!r}."
            )
        of_channels = dict.fromkeys(("channel_names", "channel_labels", "units"), self.channels)
        for name, size in {**of_channels, "times": self.steps}.items():
            values = getattr(self, name)
            if values is not None and len(values) != size:
                raise ConfigError(f"Expected {size} {name}, but got {len(values)}.")
        ExplainConfig.from_mapping(self.explain)
        given = self.padding
        fits = (
            given in PADDINGS if isinstance(given, str) else not isinstance(given, tuple) or len(given) == self.channels
        )
        if not fits:
            raise ConfigError(
                f"Expected padding to be one of {PADDINGS}, a number or {self.channels} numbers, but got {given!r}."
            )
        try:
            json.dumps([self.preprocessing, dict(self.explain), self.times])
        except TypeError as error:
            raise ConfigError(f"Expected preprocessing, explain and times that JSON can hold, but {error}.") from error
        return self

    @property
    def prefix_padding(self) -> str | float | tuple[float, ...] | None:
        """How a shorter sequence is filled up: as stated, else "carry" where all channels were filled forward."""
        if self.padding is not None:
            return self.padding
        rules = (self.preprocessing or {}).get("fill")
        return "carry" if rules and all(rule == "forward" for rule in rules) else None

    def save(self, folder: str | os.PathLike[str]) -> None:
        text = json.dumps(self.to_dict(), indent=2)
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
        return cls.from_mapping(stored)

    def config(self, **options: Any) -> ExplainConfig:
        """The model's default explanation settings, overridden by `options`."""
        return ExplainConfig.from_mapping({**self.explain, **options})

"""What a logged model carries beside its weights: settings, names and units of its data, reference sequences."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from dynamask_mlflow._files import atomic_file
from dynamask_mlflow._npz import load_arrays
from dynamask_mlflow._settings import ConfigError, Many, Settings, Share
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.config import ExplainConfig, Task

_logger = logging.getLogger(__name__)

SETTINGS_FILE, REFERENCE_FILE = "dynamask.json", "reference.npz"
MOST_REFERENCES = 300
REFERENCE_KINDS = ("sequences", "mean")
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

    @property
    def explain_defaults(self) -> dict[str, Any]:
        """The settings of explanations that the model brings, with the names of its classes for `target`.

        >>> ModelSettings(task="classification", steps=9, channels=2, class_names=("lives", "dies")).explain_defaults
        {'class_names': ('lives', 'dies')}
        """
        names = {} if self.class_names is None else {"class_names": self.class_names}
        return {**names, **self.explain}

    def save(self, folder: str | os.PathLike[str]) -> None:
        text = json.dumps(self.to_dict(), indent=2)
        (Path(folder) / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ModelSettings:
        path = Path(folder) / SETTINGS_FILE
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"Expected settings of a dynamask model at {path}, but {error}.") from error
        if not isinstance(stored, dict):
            raise ValueError(f"Expected settings of a dynamask model at {path}, but got {type(stored).__name__}.")
        return cls.from_mapping(stored)

    def config(self, **options: Any) -> ExplainConfig:
        """The model's default explanation settings, overridden by `options`."""
        return ExplainConfig.from_mapping({**self.explain_defaults, **options})


def as_the_model_names_them(sequences: Sequences, settings: ModelSettings | None) -> Sequences:
    """The model's channel names where the dataset has none of its own; never another shape or a mere permutation."""
    if settings is None:
        return sequences
    shape, wanted = sequences.x.shape[1:], (settings.steps, settings.channels)
    if shape != wanted:
        raise ValueError(f"Expected sequences of shape (T, d) = {wanted}, as the model takes them, but got {shape}.")
    if settings.channel_names is None:
        return sequences
    ours, theirs = sequences.channel_names, settings.channel_names
    if ours == tuple(f"channel_{i}" for i in range(len(ours))):
        sequences = replace(sequences, channel_names=theirs)
    elif ours != theirs and set(ours) == set(theirs):
        place = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        raise ValueError(
            "Expected the channels in the order in which the model takes them, but channel "
            f"{place} is {ours[place]!r} instead of {theirs[place]!r}."
        )
    elif ours != theirs:
        _logger.warning("dynamask: the dataset's channels %s are not those of the model, %s.", ours, theirs)
    return sequences


@dataclass(frozen=True, eq=False)
class Labels:
    """Names and units of an evaluation's page.

    Attributes:
        class_names, time_unit: of the outputs and of one step.
        channel_labels: d names as a reader knows them. units: d, "" where there is none.
        mean, std: (d,) x std + mean are the raw values.
    """

    class_names: tuple[str, ...] | None = None
    time_unit: str = "step"
    channel_labels: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None
    mean: NDArray[np.float64] | None = None
    std: NDArray[np.float64] | None = None

    def raw(self, x: NDArray[Any]) -> NDArray[Any]:
        """Values (..., d) in the units of the data, where the model carries mean and std; else as they are."""
        return x if self.mean is None or self.std is None else (x * self.std + self.mean).astype(np.float32)


def labels_of(
    settings: ModelSettings | None,
    config: EvaluationConfig,
    channel_names: Sequence[str],
    own_names: tuple[str, ...] | None = None,
) -> Labels:
    """The labels of a model, where its channels are those of the data; what the configuration says comes first.

    `own_names` are the classes as the model itself answers with them, which are taken where nothing else is said.
    """
    if settings is None:
        return Labels(config.class_names or own_names, config.time_unit or "step")
    known = settings.channel_names == tuple(channel_names)
    mean, std = _scale(settings) if known else (None, None)
    return Labels(
        class_names=config.class_names or settings.class_names or own_names,
        time_unit=config.time_unit or settings.time_unit or "step",
        channel_labels=settings.channel_labels if known else None,
        units=settings.units if known and mean is not None else None,
        mean=mean,
        std=std,
    )


def _scale(settings: ModelSettings) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    stored = settings.preprocessing or {}
    try:
        mean, std = (np.asarray(stored[name], dtype=np.float64) for name in ("mean", "std"))
    except (KeyError, TypeError, ValueError):
        return None, None
    fits = mean.shape == std.shape == (settings.channels,) and np.isfinite(mean).all() and (std > 0).all()
    return (mean, std) if fits else (None, None)


def reference_set(reference: ArrayLike, kind: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """(M, T, d): at most MOST_REFERENCES sequences, evenly spaced over those given, or their mean alone.

    Args:
        reference: (N, T, d) sequences such as the model was trained on, or their mean (T, d).
        kind: "sequences", or "mean", which keeps no single sequence.
        shape: (T, d) of the model.
    """
    if kind not in REFERENCE_KINDS:
        raise ValueError(f"Expected reference_kind to be one of {REFERENCE_KINDS}, but got {kind!r}.")
    values = np.asarray(reference, dtype=np.float32)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[1:] != tuple(shape) or not len(values):
        raise ValueError(f"Expected reference of shape (M, {shape[0]}, {shape[1]}), but got {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError("Expected finite reference sequences, but some values are NaN or infinite.")
    if kind == "mean":
        return np.asarray(values.mean(axis=0, keepdims=True), dtype=np.float32)
    rows = np.unique(np.linspace(0, len(values) - 1, min(MOST_REFERENCES, len(values))).round().astype(np.intp))
    return np.ascontiguousarray(values[rows])


def save_reference(values: NDArray[np.float32], folder: str | os.PathLike[str]) -> None:
    with atomic_file(Path(folder) / REFERENCE_FILE) as file:
        np.savez_compressed(file, reference=values)


def load_reference(folder: str | os.PathLike[str]) -> NDArray[Any] | None:
    """What `save_reference` wrote; None where the model has none."""
    path = Path(folder) / REFERENCE_FILE
    if not path.is_file():
        return None
    arrays = load_arrays(path)
    if set(arrays) != {"reference"} or arrays["reference"].ndim != 3:
        raise ValueError(f"Expected reference sequences (M, T, d) at {path}, but got {sorted(arrays)}.")
    return arrays["reference"]

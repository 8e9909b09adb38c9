"""What every method returns: fitted masks, the ordering of the cells, the error curve, and how it was fitted."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._files import atomic_file
from dynamask_mlflow._npz import load_arrays
from dynamask_mlflow.masks.change_ranking import change_ranking

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 3

FloatArray = NDArray[np.float32]

DIRECTIONS = {1: "raised", -1: "lowered", 0: "unchanged"}
"""What `Masks.direction` means."""

_CELLS = ("scores", "binary", "attributions", "answer_attributions", "deletion_scores", "spread")
_ROWS = ("errors", "area", "direction", "algorithm", "channel_spread", "static_masks", "static_attributions")


@dataclass(frozen=True, eq=False)
class Masks:
    """Masks of N instances of T steps and d channels.

    Attributes:
        masks: (N, T, d) float32 in [0, 1]: the coefficients. For the default method a coefficient is the probability
            that the cell is salient.
        scores: (N, T, d) float32, an ordering of the cells: the higher, the more salient.
        areas: (A,) the grid of areas.
        errors: (N, A) in [0, 1]: the error when that share of the cells is kept, as a share of the empty mask's.
        area: (N,) the share of the cells in the mask of whole cells.
        diagnostics: per instance, name -> (N,) array, for instance `converged`, `dead_gradient`, `constant_prediction`,
            `answer`, `reference_answer`.
        config: how the masks were fitted (JSON-able): the settings, the target, the seed, the versions.
        binary: (N, T, d) bool: the mask of whole cells, for the default method the cut of greatest expected F1. Where a
            method has none, the cells of a coefficient of at least .5.
        attributions: (N, T, d) float32 or None: signed contributions in the target's own units (logits, or the value's
            units) that sum to `answer - reference_answer`. Positive cells raise the target score.
        answer_attributions: (N, T, d) float32 or None: contributions to the model's own answer under the first operator
            alone, the one that removes cells: positive cells speak for the predicted class.
        deletion_scores: (N, T, d) float32 or None: the same values, handed out in the order in which cells, removed
            together, turn the answer.
        direction: (N,) int8: whether the target score was raised (1) or lowered (-1) from its reference answer; 0 where
            there is nothing to explain.
        algorithm: (N,) str: what made each ordering.
        spread: (N, T, d) float32 or None: standard deviation of the coefficient under other operators.
        channel_spread: (N, d) float32 or None: standard deviation of a channel's share of the mask.
        static_masks, static_attributions: (N, s) float32 or None: coefficients and contributions of the static features
            that the model takes, named by `config["static"]`. Contributions of cells and features sum to the departure.
    """

    masks: FloatArray
    scores: FloatArray
    areas: NDArray[np.float64]
    errors: NDArray[np.float64]
    area: NDArray[np.float64]
    diagnostics: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    binary: NDArray[np.bool_] = None  # type: ignore[assignment]  # filled in below
    attributions: FloatArray | None = None
    answer_attributions: FloatArray | None = None
    deletion_scores: FloatArray | None = None
    direction: NDArray[np.int8] = None  # type: ignore[assignment]
    algorithm: NDArray[np.str_] = None  # type: ignore[assignment]
    spread: FloatArray | None = None
    channel_spread: FloatArray | None = None
    static_masks: FloatArray | None = None
    static_attributions: FloatArray | None = None

    def __post_init__(self) -> None:
        n = len(self.masks)
        if self.masks.ndim != 3 or self.scores.shape != self.masks.shape:
            raise ValueError(
                f"Expected masks and scores of one shape (N, T, d), but got {self.masks.shape} and {self.scores.shape}."
            )
        if self.binary is None:
            object.__setattr__(self, "binary", self.masks >= 0.5)
        if self.direction is None:
            object.__setattr__(self, "direction", np.zeros(n, dtype=np.int8))
        if self.algorithm is None:
            object.__setattr__(self, "algorithm", np.full(n, str(self.config.get("method", "unknown"))))
        for name in _CELLS:
            values = getattr(self, name)
            if values is not None and values.shape != self.masks.shape:
                raise ValueError(f"Expected {name} of shape {self.masks.shape}, but got {values.shape}.")
        rows = {"direction": (n,), "algorithm": (n,), "channel_spread": (n, self.masks.shape[2])}
        for name, shape in rows.items():
            values = getattr(self, name)
            if values is not None and values.shape != shape:
                raise ValueError(f"Expected {name} of shape {shape}, but got {values.shape}.")
        unknown = set(np.unique(self.direction).tolist()) - set(DIRECTIONS)
        if unknown:
            raise ValueError(f"Expected directions of {sorted(DIRECTIONS)}, but got {sorted(unknown)}.")
        if self.errors.shape != (n, len(self.areas)) or self.area.shape != (n,):
            raise ValueError(
                f"Expected errors ({n}, {len(self.areas)}) and area ({n},), "
                f"but got {self.errors.shape} and {self.area.shape}."
            )

    def __len__(self) -> int:
        return len(self.masks)

    @property
    def target(self) -> str:
        """What was explained, as `explain` was asked: "auto", "class:1", "step:5", ..."""
        return str(self.config.get("target", "auto"))

    @property
    def deletion_ranking(self) -> FloatArray:
        """Which cells to remove first to turn the model's answer: the order searched for it, else the scores."""
        return self.scores if self.deletion_scores is None else self.deletion_scores

    @property
    def change_ranking(self) -> FloatArray:
        """Which cells move the answer most, whichever way, one after the other."""
        if self.deletion_scores is None or self.answer_attributions is None:
            return self.scores
        return change_ranking(self.answer_attributions, self.deletion_scores, self.diagnostics.get("answer_margin"))

    def __getitem__(self, index: Any) -> Self:
        """The masks of some instances: an int, a slice, or an array of positions or booleans."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        return self._with_rows(lambda values: values[rows])

    def _with_rows(self, take: Any) -> Self:
        given: dict[str, Any] = {name: getattr(self, name) for name in ("masks", *_CELLS, *_ROWS)}
        taken: dict[str, Any] = {name: None if values is None else take(values) for name, values in given.items()}
        return type(self)(
            areas=self.areas,
            diagnostics={name: take(values) for name, values in self.diagnostics.items()},
            config=self.config,
            **taken,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Masks]) -> Masks:
        """Join shards that were fitted with one configuration and target, in the order given."""
        if not parts:
            raise ValueError("Expected at least one part to concatenate, but got none.")
        first = parts[0]
        for part in parts[1:]:
            if not np.array_equal(part.areas, first.areas) or part.config != first.config:
                raise ValueError(
                    "Expected parts fitted with one configuration and one target, but they differ in "
                    f"{', '.join(_differences(part, first))}."
                )

        def joined(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            return None if any(value is None for value in values) else np.concatenate(values)

        shared = [name for name in first.diagnostics if all(name in part.diagnostics for part in parts)]
        return cls(
            areas=first.areas,
            diagnostics={name: np.concatenate([part.diagnostics[name] for part in parts]) for name in shared},
            config=first.config,
            **{name: joined(name) for name in ("masks", *_CELLS, *_ROWS)},
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write an npz without pickle; the file appears whole or not at all."""
        target = Path(path)
        meta = {
            "schema_version": SCHEMA_VERSION,
            "config": dict(self.config),
            "diagnostics": list(self.diagnostics),
        }
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("diagnostics", "config")}
        arrays = {name: values for name, values in named.items() if values is not None}
        arrays["meta"] = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), dtype=np.uint8)
        arrays |= {f"diagnostics/{name}": np.asarray(values) for name, values in self.diagnostics.items()}
        with atomic_file(target) as file:
            np.savez_compressed(file, **arrays)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Masks:
        """Read what `save` wrote."""
        try:
            stored = load_arrays(path)
            meta = json.loads(stored.pop("meta").tobytes())
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise ValueError(f"Expected a file of masks at {path}, but it cannot be read: {error}.") from error
        if meta.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"Expected masks of schema version {SCHEMA_VERSION}, but {path} has {meta.get('schema_version')}."
            )
        diagnostics = {name: stored.pop(f"diagnostics/{name}") for name in meta["diagnostics"]}
        known = {f.name for f in fields(cls)}
        return cls(
            diagnostics=diagnostics,
            config=meta["config"],
            **{name: values for name, values in stored.items() if name in known},
        )

    def to_frame(
        self,
        ids: Sequence[Any] | None = None,
        channel_names: Sequence[str] | None = None,
        times: Sequence[Any] | None = None,
    ) -> pd.DataFrame:
        """One row a cell: id, time, channel, mask, score, and attribution where it is known."""
        import pandas as pd

        n, steps, channels = self.masks.shape
        labels = {
            "id": (n, ids if ids is not None else range(n)),
            "time": (steps, times if times is not None else range(steps)),
            "channel": (channels, channel_names if channel_names is not None else range(channels)),
        }
        for name, (length, values) in labels.items():
            if len(values) != length:
                raise ValueError(f"Expected {length} labels for {name}, but got {len(values)}.")
        index = pd.MultiIndex.from_product([list(v) for _, v in labels.values()], names=list(labels))
        cells: dict[str, NDArray[Any]] = {"mask": self.masks, "salient": self.binary, "score": self.scores}
        if self.attributions is not None:
            cells["attribution"] = self.attributions
        if self.spread is not None:
            cells["spread"] = self.spread
        frame = pd.DataFrame({name: values.reshape(-1) for name, values in cells.items()}, index=index)
        return frame.reset_index()

    def to_shap(self, x: NDArray[Any] | None = None, channel_names: Sequence[str] | None = None) -> Any:
        """A `shap.Explanation` of the attributions, for shap's plots.

        Its base values are the reference answers, to which the values of an instance add up to its answer. shap has two
        axes beside time: `explanation[:, t]` are the channels at step t.

        Args:
            x: (N, T, d) the inputs, shown beside the values.
            channel_names: d names.
        """
        if self.attributions is None:
            raise ValueError("Expected masks with attributions, but this method gives none; method='nested' does.")
        try:
            import shap
        except ImportError as error:
            raise ImportError("Expected shap to be installed, but it is not: `pip install shap`.") from error
        return shap.Explanation(
            values=self.attributions,
            base_values=np.asarray(self.diagnostics["reference_answer"]),
            data=None if x is None else np.asarray(x),
            feature_names=None if channel_names is None else list(channel_names),
        )


def _differences(one: Masks, other: Masks) -> list[str]:
    keys = sorted({*one.config, *other.config})
    found = [key for key in keys if one.config.get(key) != other.config.get(key)]
    return found if np.array_equal(one.areas, other.areas) else [*found, "areas"]

"""What every method returns: fitted masks, the ordering of the cells, the error curve, and how it was fitted."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._files import whole_file
from dynamask_mlflow.masks.influence import influence_order

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 2

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Masks:
    """Masks of N instances of T steps and d channels.

    Attributes:
        masks: (N, T, d) float32 in [0, 1], the mask at the chosen area of each instance.
        scores: (N, T, d) float32, an ordering of the cells: the smaller the area at which a cell enters, the higher.
        areas: (A,) the grid of areas.
        errors: (N, A) the error at each area, as a share of the error of the empty mask.
        area: (N,) the area chosen for each instance.
        diagnostics: per instance, name -> (N,) array, for instance `converged`, `dead_gradient`, `constant_prediction`,
            `plateau`, `empty_error`.
        config: how the masks were fitted (JSON-able): the settings, the seed, the versions.
        worth: (N, T, d) float32 or None: what the answer loses when a cell is removed, in the answer's own units
            (the logit of the predicted class minus the best other). Positive cells speak for the answer,
            negative ones against it.
        removal_order: (N, T, d) float32 or None: the same values, handed out anew in the order in which cells,
            removed together, turn the answer.
    """

    masks: FloatArray
    scores: FloatArray
    areas: NDArray[np.float64]
    errors: NDArray[np.float64]
    area: NDArray[np.float64]
    diagnostics: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    worth: FloatArray | None = None
    removal_order: FloatArray | None = None

    def __post_init__(self) -> None:
        n = len(self.masks)
        if self.masks.ndim != 3 or self.scores.shape != self.masks.shape:
            raise ValueError(
                f"Expected masks and scores of one shape (N, T, d), but got {self.masks.shape} and {self.scores.shape}."
            )
        for name, values in self._optional().items():
            if values.shape != self.masks.shape:
                raise ValueError(f"Expected {name} of shape {self.masks.shape}, but got {values.shape}.")
        if self.errors.shape != (n, len(self.areas)) or self.area.shape != (n,):
            raise ValueError(
                f"Expected errors ({n}, {len(self.areas)}) and area ({n},), "
                f"but got {self.errors.shape} and {self.area.shape}."
            )

    def __len__(self) -> int:
        return len(self.masks)

    def _optional(self) -> dict[str, FloatArray]:
        named = {"worth": self.worth, "removal_order": self.removal_order}
        return {name: values for name, values in named.items() if values is not None}

    @property
    def removal(self) -> FloatArray:
        """Which cells to remove first to turn the answer: the order fitted for it, else worth, else the scores."""
        if self.removal_order is not None:
            return self.removal_order
        return self.scores if self.worth is None else self.worth

    @property
    def influence(self) -> FloatArray:
        """Which cells move the answer most, whichever way, one after the other: by worth, or by the scores."""
        if self.worth is None:
            return self.scores
        return influence_order(self.worth, self.removal, self.diagnostics.get("margin"))

    def __getitem__(self, index: Any) -> Self:
        """The masks of some instances: an int, a slice, or an array of positions or booleans."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        return type(self)(
            masks=self.masks[rows],
            scores=self.scores[rows],
            areas=self.areas,
            errors=self.errors[rows],
            area=self.area[rows],
            diagnostics={name: values[rows] for name, values in self.diagnostics.items()},
            config=self.config,
            **{name: values[rows] for name, values in self._optional().items()},
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Masks]) -> Masks:
        """Join shards that were fitted with one configuration, in the order given."""
        if not parts:
            raise ValueError("Expected at least one part to concatenate, but got none.")
        first = parts[0]
        for part in parts[1:]:
            if not np.array_equal(part.areas, first.areas) or part.config != first.config:
                raise ValueError("Expected parts fitted with one configuration, but they differ in areas or settings.")
        return cls(
            masks=np.concatenate([p.masks for p in parts]),
            scores=np.concatenate([p.scores for p in parts]),
            areas=first.areas,
            errors=np.concatenate([p.errors for p in parts]),
            area=np.concatenate([p.area for p in parts]),
            diagnostics={k: np.concatenate([p.diagnostics[k] for p in parts]) for k in first.diagnostics},
            config=first.config,
            **{name: np.concatenate([p._optional()[name] for p in parts]) for name in first._optional()},
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write an npz without pickle; the file appears whole or not at all."""
        target = Path(path)
        meta = {
            "schema_version": SCHEMA_VERSION,
            "config": dict(self.config),
            "diagnostics": list(self.diagnostics),
        }
        arrays = {
            "masks": self.masks,
            "scores": self.scores,
            "areas": self.areas,
            "errors": self.errors,
            "area": self.area,
            "meta": np.frombuffer(json.dumps(meta, sort_keys=True).encode(), dtype=np.uint8),
        }
        arrays |= self._optional()
        arrays |= {f"diagnostics/{name}": np.asarray(values) for name, values in self.diagnostics.items()}
        with whole_file(target) as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Masks:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                stored = {name: file[name] for name in file.files}
            meta = json.loads(stored["meta"].tobytes())
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise ValueError(f"Expected a file of masks at {path}, but it cannot be read: {error}.") from error
        if meta.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"Expected masks of schema version {SCHEMA_VERSION}, but {path} has {meta.get('schema_version')}."
            )
        return cls(
            masks=stored["masks"],
            scores=stored["scores"],
            areas=stored["areas"],
            errors=stored["errors"],
            area=stored["area"],
            diagnostics={name: stored[f"diagnostics/{name}"] for name in meta["diagnostics"]},
            config=meta["config"],
            worth=stored.get("worth"),
            removal_order=stored.get("removal_order"),
        )

    def to_frame(
        self,
        ids: Sequence[Any] | None = None,
        channel_names: Sequence[str] | None = None,
        times: Sequence[Any] | None = None,
    ) -> pd.DataFrame:
        """One row a cell: id, time, channel, mask, score, and worth where it is known."""
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
        cells = {"mask": self.masks, "score": self.scores}
        if self.worth is not None:
            cells["worth"] = self.worth
        frame = pd.DataFrame({name: values.reshape(-1) for name, values in cells.items()}, index=index)
        return frame.reset_index()

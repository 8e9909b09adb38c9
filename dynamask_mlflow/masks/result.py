"""What every method returns: fitted masks, the ordering of the cells, the error curve, and how it was fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.masks.change_ranking import change_ranking
from dynamask_mlflow.masks.instance_result import InstanceResult, cell_frame, labels_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float32]

DIRECTIONS = {1: "raised", -1: "lowered", 0: "unchanged"}
"""What `Masks.direction` means."""

_CELLS = ("scores", "binary", "attributions", "answer_attributions", "deletion_scores", "spread")


@dataclass(frozen=True, eq=False, repr=False)
class Masks(InstanceResult):
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
        channel_spread: (N, d) float32 or None: standard deviation of a channel's contribution (the sum of its
            attributions) over the baselines, in the target's units.
        static_masks, static_attributions: (N, s) float32 or None: coefficients and contributions of the static features
            that the model takes, named by `config["static"]`. Contributions of cells and features sum to the departure.
    """

    kind: ClassVar[str] = "masks"
    schema_version: ClassVar[int] = 3
    shared: ClassVar[tuple[str, ...]] = ("areas",)

    masks: FloatArray
    scores: FloatArray
    areas: NDArray[np.float64]
    errors: NDArray[np.float64]
    area: NDArray[np.float64]
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

    def __repr__(self) -> str:
        return self._described(self.binary, self.direction)

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

    def to_frame(
        self,
        ids: Sequence[Any] | None = None,
        channel_names: Sequence[str] | None = None,
        times: Sequence[Any] | None = None,
    ) -> pd.DataFrame:
        """One row a cell: id, time, channel, mask, score, and attribution where it is known."""
        columns = {
            "mask": self.masks,
            "salient": self.binary,
            "score": self.scores,
            "attribution": self.attributions,
            "spread": self.spread,
        }
        return cell_frame(columns, ids, channel_names, times).reset_index()

    def plot(
        self,
        index: int = 0,
        values: str = "attributions",
        *,
        channel_names: Sequence[str] | None = None,
        times: Sequence[Any] | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the cells of one instance with matplotlib: channels down, time across.

        Args:
            index: which of the N instances.
            values: "attributions" (red raised the target score, blue lowered it), "masks", "scores" or "binary".
            channel_names: d names.
            times: T labels.
            ax: where to draw; by default a new figure.

        Returns:
            The axes.
        """
        from dynamask_mlflow.masks.plot import PLOTTED, plot_cells

        if values not in PLOTTED or getattr(self, values) is None:
            known = [name for name in PLOTTED if getattr(self, name) is not None]
            raise ValueError(f"Expected values to be one of {known}, but got {values!r}.")
        channels, steps = (
            labels_of(name, given, size)
            for name, given, size in (
                ("channel", channel_names, self.masks.shape[2]),
                ("time", times, self.masks.shape[1]),
            )
        )
        return plot_cells(getattr(self, values)[index], values, channels, steps, ax)

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

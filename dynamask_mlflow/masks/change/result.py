"""The change of an answer between two times, and what brought it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.masks.instance_result import InstanceResult, cell_frame, labels_of

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_CELLS = ("contributions", "masks", "binary", "scores", "spread")


@dataclass(frozen=True, eq=False, repr=False)
class Change(InstanceResult):
    """Changes of N instances of T steps and d channels.

    Attributes:
        contributions: (N, T, d) float32: signed, in the target's units (logits for a class). With `elapsed` they sum to
            `change`. Cells that were known before are 0.
        elapsed: (N,) what the answer moved by the passage of time alone, with nothing new: 0 for models of a fixed
            window; models that answer at each step or take lengths may have any.
        before, after: (N,) the target score at `since` and at `until`.
        since, until: (N,) how many steps were known then. `since` is 0 where two sequences are compared.
        masks: (N, T, d) float32 in [0, 1]: the probability that a cell brought the change.
        binary: (N, T, d) bool: the mask of whole cells.
        scores: (N, T, d) float32: the ranking of the cells.
        direction: (N,) int8: raised (1), lowered (-1), or nothing to explain (0).
        outputs_before, outputs_after: (N, C) probabilities of the classes, or values.
        spread: (N, T, d) float32 or None: how far a coefficient moves under the other baseline.
        diagnostics: name -> (N,): `remainder`, the share of the change that the integral missed, spread over the cells;
            `moved_from_level`, whether the masks are of the move from the mean level before `since`, which was greater
            than the change and went the other way; `hold`, `converged`, ... of the masks.
        config: how it was made (JSON-able).
    """

    kind: ClassVar[str] = "changes"
    schema_version: ClassVar[int] = 1

    contributions: Floats
    elapsed: Doubles
    before: Doubles
    after: Doubles
    since: NDArray[np.int64]
    until: NDArray[np.int64]
    masks: Floats
    binary: NDArray[np.bool_]
    scores: Floats
    direction: NDArray[np.int8]
    outputs_before: Doubles
    outputs_after: Doubles
    spread: Floats | None = None

    def __post_init__(self) -> None:
        shape = self.contributions.shape
        if len(shape) != 3:
            raise ValueError(f"Expected contributions of shape (N, T, d), but got {shape}.")
        for name, values in self._arrays().items():
            wanted = shape if name in _CELLS else shape[:1]
            if values is not None and values.shape[: len(wanted)] != wanted:
                raise ValueError(f"Expected {name} of shape {wanted}, but got {values.shape}.")

    def __len__(self) -> int:
        return len(self.contributions)

    def __repr__(self) -> str:
        return self._described(self.binary, self.direction)

    @property
    def change(self) -> Doubles:
        """(N,): after - before, in the target's units."""
        return np.asarray(self.after - self.before)

    @property
    def by_channel(self) -> Doubles:
        """(N, d): the contribution of each channel."""
        return np.asarray(self.contributions.sum(axis=1, dtype=np.float64))

    @property
    def by_step(self) -> Doubles:
        """(N, T): the contribution of each step."""
        return np.asarray(self.contributions.sum(axis=2, dtype=np.float64))

    @property
    def new_cells(self) -> NDArray[np.bool_]:
        """(N, T): the steps that came in between `since` and `until`."""
        steps = np.arange(self.contributions.shape[1])
        return np.asarray((steps >= self.since[:, None]) & (steps < self.until[:, None]))

    def to_frame(
        self,
        ids: Sequence[Any] | None = None,
        channel_names: Sequence[str] | None = None,
        times: Sequence[Any] | None = None,
    ) -> pd.DataFrame:
        """One row a new cell: id, time, channel, contribution, mask, salient, score."""
        columns = {
            "contribution": self.contributions,
            "mask": self.masks,
            "salient": self.binary,
            "score": self.scores,
            "spread": self.spread,
        }
        frame = cell_frame(columns, ids, channel_names, times)
        shown = np.broadcast_to(self.new_cells[:, :, None], self.contributions.shape).reshape(-1)
        return frame[shown].reset_index()

    def summary(
        self,
        ids: Sequence[Any] | None = None,
        channel_names: Sequence[str] | None = None,
        most: int = 3,
    ) -> pd.DataFrame:
        """One row an instance: the answer before and after, its change, and the `most` channels that moved it most."""
        import pandas as pd

        n, _, channels = self.contributions.shape
        names, by_channel = labels_of("channel", channel_names, channels), self.by_channel
        order = np.argsort(-np.abs(by_channel), axis=1, kind="stable")[:, :most]
        moved = [
            ", ".join(f"{names[c]} {row[c]:+.2f}" for c in few) for few, row in zip(order, by_channel, strict=True)
        ]
        columns = {
            "id": labels_of("id", ids, n),
            "since": self.since,
            "until": self.until,
            "before": self.before,
            "after": self.after,
            "change": self.change,
            "elapsed": self.elapsed,
            "moved_by": moved,
        }
        return pd.DataFrame(columns)

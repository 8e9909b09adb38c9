"""Raw events of one channel, code by code: what was charted under which item id, before any value was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics import Bools, Floats
from dynamask_mlflow.audit.verdict import percent

_NEW = 0.1  # share of the stays from which on a code that was never used before is worth a word
_OTHER = 0.9  # chance that a stay now has a higher mean, or a lower one, than a stay of the reference
_FEW = 15  # stays of each window with a code, to speak of its values


@dataclass(frozen=True)
class Item:
    """A code whose use changed, or whose values did.

    Attributes:
        before, now: shares of the stays that have it, in the reference and now.
        medians: of the stays' means in the reference and now, if nearly all of them moved one way.
        quartiles: of the stays' means in the reference and now, where enough stays have the code in both.
    """

    code: str
    before: float
    now: float
    medians: tuple[float, float] | None = None
    quartiles: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    @property
    def changed(self) -> bool:
        """Whether its use or nearly all of its values changed."""
        return self.medians is not None or min(self.before, self.now) == 0

    def sentence(self) -> str:
        """Item 223762 is new: in 40 % of the stays."""
        if self.medians is not None:
            return (
                f"Under item {self.code} the median of the stays' means is {self.medians[1]:.4g}, "
                f"before {self.medians[0]:.4g}."
            )
        if self.before == 0:
            return f"Item {self.code} is new: it is in {percent(self.now)} of the stays."
        if self.now == 0:
            return f"Item {self.code} is gone: it was in {percent(self.before)} of the stays."
        return f"Item {self.code} is in {percent(self.now)} of the stays, before in {percent(self.before)}."


@dataclass(frozen=True, eq=False)
class ItemRows:
    """One row a stay and code: (m,) ids of the stays, codes, and means of the values as they were charted.

    Attributes:
        compared: the codes that came or went, and those whose values can be compared.
    """

    ids: NDArray[np.str_]
    codes: NDArray[np.str_]
    means: Floats
    compared: tuple[Item, ...] = ()

    def join(self, ids: Sequence[str], now: Bools) -> tuple[NDArray[np.intp], Floats, dict[str, Bools]]:
        """Rows of the given stays: whose they are, where each mean lies among the reference's of its code, slices."""
        place = {name: row for row, name in enumerate(ids)}
        kept = np.array([row for row, name in enumerate(self.ids.tolist()) if name in place], dtype=np.intp)
        stay = np.array([place[self.ids[row]] for row in kept], dtype=np.intp)
        codes, means = self.codes[kept], self.means[kept]
        scores = np.full(len(kept), np.nan)
        for code in np.unique(codes):
            own = codes == code
            before = np.sort(means[own & ~now[stay]])
            if len(before):
                sides = [np.searchsorted(before, means[own], side=side) for side in ("left", "right")]
                scores[own] = (sides[0] + sides[1]) / (2 * len(before))
        return stay, scores, {f"item {code}": codes == code for code in np.unique(codes).tolist()}

    def of(self, ids: NDArray[np.str_]) -> ItemRows:
        """The rows of some stays."""
        kept = np.isin(self.ids, ids)
        return ItemRows(self.ids[kept], self.codes[kept], self.means[kept])

    def with_use(self, reference: Sequence[str], current: Sequence[str]) -> ItemRows:
        """The same, with the codes that came or went between two sets of stays, and the values of the others."""
        found = []
        for code in np.unique(self.codes).tolist():
            having = set(self.ids[self.codes == code].tolist())
            before, now = (len(having & set(part)) / max(len(part), 1) for part in (reference, current))
            if min(before, now) == 0 and max(before, now) >= _NEW:
                found.append(Item(code, before, now))
                continue
            first, second = self._of_code(code, reference), self._of_code(code, current)
            if min(len(first), len(second)) >= _FEW:
                both = [tuple(float(v) for v in np.quantile(part, [0.25, 0.5, 0.75])) for part in (first, second)]
                found.append(Item(code, before, now, _medians(first, second), (both[0], both[1])))
        return ItemRows(self.ids, self.codes, self.means, tuple(found))

    def _of_code(self, code: str, ids: Sequence[str]) -> Floats:
        return np.asarray(self.means[(self.codes == code) & np.isin(self.ids, list(ids))])


def _medians(first: Floats, second: Floats) -> tuple[float, float] | None:
    """Of both, if nearly all of the second lie on one side of the first."""
    ordered = np.sort(first)
    sides = [np.searchsorted(ordered, second, side=side) for side in ("left", "right")]
    higher = float((sides[0] + sides[1]).mean() / (2 * len(first)))
    return (float(np.median(first)), float(np.median(second))) if max(higher, 1 - higher) >= _OTHER else None


def read_items(source: Any, features: str, channel: str, ids: Sequence[str]) -> ItemRows:
    """Means of the raw values of a channel by stay and code.

    Args:
        source: as `dynamask_mlflow.data.open_source` gives it. features: the feature set of the dataset.
        ids: the stays that are asked for.
    """
    from dynamask_mlflow.data.engine import Engine
    from dynamask_mlflow.data.features import load_feature_set
    from dynamask_mlflow.data.pipeline import before_predictions, register_cohort

    chosen = load_feature_set(features)
    place = chosen.channel_names.index(channel)
    with Engine("512MB", 1) as engine:
        try:
            stays, _ = source.stays(engine)
            stays = before_predictions(stays, chosen.hours)
            wanted = stays[stays["stay_id"].astype(str).isin(set(ids))].reset_index(drop=True)
            codes, _ = source.codes(engine, chosen)
            own = codes.only(place)
            cohort = register_cohort(engine, wanted, chosen.hours)
            parts = []
            for label, sql in source.events(engine, cohort, own):
                parts.append(
                    engine.frame(
                        f"SELECT stay_row, CAST(code AS VARCHAR) AS code, avg(value) AS mean FROM ({sql}) "
                        "WHERE value IS NOT NULL AND micros IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2",
                        label,
                    )
                )
        finally:
            source.close()
    names = wanted["stay_id"].astype(str).to_numpy()
    rows = np.concatenate([part["stay_row"].to_numpy(dtype=np.intp) for part in parts])
    return ItemRows(
        ids=np.asarray(names[rows], dtype=np.str_),
        codes=np.concatenate([part["code"].to_numpy(dtype=str) for part in parts]).astype(np.str_),
        means=np.concatenate([part["mean"].to_numpy(dtype=np.float64) for part in parts]),
    )

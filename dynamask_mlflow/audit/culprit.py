"""From a finding to its place: the smallest slice of the stays, of the day or of the charted codes that explains it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from dynamask_mlflow.audit.comparison import ComparisonResult
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.explained_window import ExplainedWindow, joined_attributes, members
from dynamask_mlflow.audit.items import Item, ItemRows
from dynamask_mlflow.audit.statistics import LEVELS, UNKNOWN, Bools, Floats, Rows, Slice, change_point, smallest_slice
from dynamask_mlflow.audit.verdict import FAR, Violation, percent
from dynamask_mlflow.audit.windows import SHIFTS

ALPHA = 0.05  # chance of naming any slice that is none
MOST = 3  # channels that are placed
LookUp = Callable[[str], ItemRows | None]


@dataclass(frozen=True)
class Culprit:
    """Where a finding sits.

    Attributes:
        what: what moved: a channel's values or gaps, the predictions, or the attention.
        found: the slice that explains it, or None: it is everywhere, or not known.
        within: a smaller slice of that slice, if it explains what is in there.
        since: the day from which on it is so, if that is within the window.
        items: the channel's codes: new or gone ones, and the values of those that enough stays have.
        searched: False if only its codes were looked at.
    """

    what: str
    channel: str | None
    found: Slice | None
    within: Slice | None = None
    since: str | None = None
    items: tuple[Item, ...] = ()
    searched: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The slice's names, and of the slice within it."""
        return tuple(" = ".join(each.names) for each in (self.found, self.within) if each is not None)

    def sentence(self) -> str:
        """What moved sits in unit MICU, since 2026-09-03: ..."""
        if self.found is None:
            since = f" It begins on {self.since}." if self.since else ""
            text = f"No slice of the stays explains the change of {self.what}: it is everywhere, or too small to place."
            return f"{text}{since}"
        place = " and ".join(
            " (the same stays as ".join(each.names) + ")" * (len(each.names) - 1) for each in self._both()
        )
        since = f", since {self.since}" if self.since else ""
        first = self._both()[-1]
        return (
            f"The change of {self.what} sits in {place}{since}: {self._size(first.inside)} there, "
            f"{self._size(self.found.outside)} outside it "
            f"({percent(self.found.share)} of the window; adjusted for all slices searched)."
        )

    def code_sentence(self) -> str | None:
        """Codes of Temp: item 678 is gone: it was in 40 % of the stays; ..."""
        found = [item.sentence().rstrip(".") for item in self.items if item.changed]
        if not found:
            return None
        return f"Codes of {self.channel}: {'; '.join(text[:1].lower() + text[1:] for text in found)}."

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `asdict` gave, as JSON holds it."""
        places = {name: _slice(stored[name]) for name in ("found", "within")}
        return cls(**{**stored, **places, "items": tuple(map(_item, stored["items"]))})

    def _size(self, change: float) -> str:
        """Inputs are given by their place within the reference, from 0 to 100; predictions and shares in points."""
        if abs(change) < 0.005:
            return "nothing"
        return f"{100 * change:+.0f} {'points' if self.channel is None else 'percentile points'}"

    def _both(self) -> list[Slice]:
        return [each for each in (self.found, self.within) if each is not None]


def culprits_json(culprits: Sequence[Culprit]) -> str:
    return json.dumps([asdict(culprit) for culprit in culprits], indent=1)


def _slice(stored: Mapping[str, Any] | None) -> Slice | None:
    return None if stored is None else Slice(**{**stored, "names": tuple(stored["names"])})


def _item(stored: Mapping[str, Any]) -> Item:
    medians, quartiles = stored["medians"], stored["quartiles"]
    return Item(
        **{
            **stored,
            "medians": None if medians is None else tuple(medians),
            "quartiles": None if quartiles is None else tuple(map(tuple, quartiles)),
        }
    )


def find_culprits(
    result: ComparisonResult,
    violations: Sequence[Violation],
    reference: ExplainedWindow,
    current: ExplainedWindow,
    config: AuditConfig,
    *,
    days: Mapping[str, str] | None = None,
    items: LookUp | None = None,
) -> tuple[Culprit, ...]:
    """Search, if there are findings to be explained and something to search in; those that could be placed come first.

    Args:
        days: stay -> day of admission, of the current window. items: the charted codes of a channel, where raw events
            are at hand.
    """
    if not (reference.attributes and current.attributes):
        return ()
    found = [
        _find(subject, result, (reference, current), config, days or {}, items)
        for subject in _subjects(result, violations, config)
    ]
    looked = [
        Culprit(f"{channel} ({kind})", channel, None, items=table.compared, searched=False)
        for kind, channel in _far(result, violations, config)
        if items is not None and (table := items(channel)) is not None
    ]
    placed = sorted((each for each in found if each is not None), key=lambda each: each.found is None)
    return (*placed, *looked)


def _find(
    subject: tuple[str, str | None],
    result: ComparisonResult,
    windows: tuple[ExplainedWindow, ExplainedWindow],
    config: AuditConfig,
    days: Mapping[str, str],
    items: LookUp | None,
) -> Culprit | None:
    (kind, channel), (reference, current) = subject, windows
    table = items(channel) if items is not None and channel is not None else None
    rows, owners = _rows(kind, channel, result, reference, current, None if kind == "gaps" else table)
    compared = table.compared if table is not None else ()
    what = {"predictions": "the predictions", "attention": "the attention"}.get(kind, f"{channel} ({kind})")
    if rows is None or rows.current.all() or not rows.current.any():
        return None
    found = smallest_slice(rows, ALPHA, config.seed)
    within = None
    inside = np.ones(len(rows.scores), dtype=bool)
    if found is not None:
        inside = rows.slices[found.names[0]]
        within = smallest_slice(rows.within(inside), ALPHA, config.seed)
    since = _since(rows.scores, inside & rows.current, owners, days, config.seed)
    return Culprit(what, channel, found, within, since, compared)


def _subjects(
    result: ComparisonResult, violations: Sequence[Violation], config: AuditConfig
) -> list[tuple[str, str | None]]:
    """What to place: inputs that warned, else the one that moved furthest, else the predictions, else the attention."""
    kinds = {violation.kind for violation in violations}
    if not kinds & {"attention", "trend", "predictions", "performance", "inputs", "subgroup"}:
        return []
    furthest: dict[str, str] = {}
    moved = _moved_inputs(result, config)
    for place, kind in sorted(moved, key=lambda each: -moved[each]):
        furthest.setdefault(result.channel_names[place], kind)
    warned = {violation.subject for violation in violations if violation.kind == "inputs"}
    chosen = [name for name in furthest if name in warned][:MOST] or list(furthest)[:1]
    if chosen:
        return [(furthest[name], name) for name in chosen]
    return [("predictions" if kinds & {"predictions", "performance"} else "attention", None)]


def _far(result: ComparisonResult, violations: Sequence[Violation], config: AuditConfig) -> list[tuple[str, str]]:
    """Channels that moved far, though not so that they are placed: their codes may tell why."""
    placed = {channel for _, channel in _subjects(result, violations, config)}
    found: dict[str, str] = {}
    if not placed - {None}:
        return []
    for (place, kind), size in sorted(_moved_inputs(result, config).items(), key=lambda each: -each[1]):
        name = result.channel_names[place]
        if size >= FAR and name not in placed:
            found.setdefault(name, kind)
    return [(kind, name) for name, kind in found.items()][: max(MOST - len(placed), 0)]


def _moved_inputs(result: ComparisonResult, config: AuditConfig) -> dict[tuple[int, str], float]:
    """(channel, "values" or "gaps") -> how far it moved: in the whole window, or in a slice."""
    found: dict[tuple[int, str], float] = {}
    for each in result.slice_inputs:
        if each.p_value <= config.input_level:
            key = (each.channel, each.kind)
            found[key] = max(each.gap * each.share, found.get(key, 0.0))
    inputs = result.inputs
    if inputs is not None:
        for kind, gap, q in (
            ("values", inputs.value_gap, inputs.value_q),
            ("gaps", inputs.missing_gap, inputs.missing_q),
        ):
            for place in np.flatnonzero(q <= config.input_level):
                found[int(place), kind] = float(gap[place])
    return found


def _rows(
    kind: str,
    channel: str | None,
    result: ComparisonResult,
    reference: ExplainedWindow,
    current: ExplainedWindow,
    table: ItemRows | None,
) -> tuple[Rows | None, list[str]]:
    """Rows at the finest grain at hand: stays by code, stays by shift, or stays. Also whose rows they are."""
    parts = (reference, current)
    now = np.arange(len(reference) + len(current)) >= len(reference)
    patients = np.concatenate([part.patients for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    stay = np.arange(len(now))
    extra: dict[str, Bools] = {}
    if table is not None:
        stay, scores, extra = table.join([str(name) for name in ids], now)
    elif kind == "values" and channel is not None and all(part.shift_codes.shape[1:] > (0,) for part in parts):
        stay, scores, extra = _by_shift(result.channel_names.index(channel), parts)
    else:
        scores = _by_stay(kind, channel, result, parts)
    known = np.isfinite(scores)
    slices = {
        f"{name} {value}": own[stay][known]
        for name, column in joined_attributes(parts).items()
        for value, own in members(column).items()
    }
    slices |= {name: member[known] for name, member in extra.items()}
    if known.sum() < 2:
        return None, []
    rows = Rows(scores[known], now[stay][known], patients[stay][known], slices)
    return rows, [str(name) for name in ids[stay][known]]


def _by_stay(kind: str, channel: str | None, result: ComparisonResult, parts: Sequence[ExplainedWindow]) -> Floats:
    if kind == "predictions":
        return np.concatenate([part.numbers["risk"] for part in parts])
    if channel is None:
        # Attention along the direction in which its mean moved.
        shares = np.concatenate([part.by_channel for part in parts])
        shift = np.zeros(shares.shape[1]) if result.drift is None else result.drift.channel_shift
        return np.asarray(shares @ shift / max(float(np.linalg.norm(shift)), 1e-12))
    place = result.channel_names.index(channel) + (len(result.channel_names) if kind == "gaps" else 0)
    return _scores(np.concatenate([part.codes[:, place] for part in parts]))


def _by_shift(place: int, parts: Sequence[ExplainedWindow]) -> tuple[np.ndarray, Floats, dict[str, Bools]]:
    """One row a stay and shift of the day."""
    channels = len(parts[0].channel_names)
    codes = np.concatenate([part.shift_codes[:, place::channels] for part in parts])
    stay = np.repeat(np.arange(len(codes)), len(SHIFTS))
    number = np.tile(np.arange(len(SHIFTS)), len(codes))
    return stay, _scores(codes.reshape(-1)), {f"shift {name}": number == i for i, name in enumerate(SHIFTS)}


def _scores(codes: np.ndarray) -> Floats:
    return np.where(codes == UNKNOWN, np.nan, codes / (LEVELS - 1))


def _since(scores: Floats, chosen: Bools, owners: Sequence[str], days: Mapping[str, str], seed: int) -> str | None:
    by_stay: dict[str, list[float]] = {}  # rows of one stay are no evidence of their own
    for row in np.flatnonzero(chosen).tolist():
        if owners[row] in days:
            by_stay.setdefault(owners[row], []).append(float(scores[row]))
    if not by_stay:
        return None
    means = np.array([np.mean(own) for own in by_stay.values()])
    when = change_point(means, [days[stay] for stay in by_stay], ALPHA, seed)
    return None if when is None else str(when)

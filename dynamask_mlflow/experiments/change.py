"""Planted onsets in the synthetic hospital: is what raised the risk since hour 24 found?

Each test stay with a planted deterioration is asked what changed between hour 24 and hour 48. Deteriorations that
matter begin after hour 24, so the onset's cells are what changed. The other methods explain both states and subtract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow import metrics as m
from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.data.hospital.truth import Truth
from dynamask_mlflow.experiments.arena.scoring import calibration_error
from dynamask_mlflow.experiments.change_models import ARCHITECTURES, change_model
from dynamask_mlflow.experiments.hospital_data import hospital_stays
from dynamask_mlflow.experiments.table import as_markdown
from dynamask_mlflow.masks.change.explain_change import explain_change
from dynamask_mlflow.masks.change.prefixes import AnswerAfter, PrefixRule
from dynamask_mlflow.masks.change.result import Change
from dynamask_mlflow.masks.explain import explain
from dynamask_mlflow.training.scores import auroc

CHOOSING_SEEDS, REPORTED_SEEDS = (0, 1), (100, 101)
SINCE, UNTIL = 24, 48
NOTABLE, UNREAD = 1.0, 0.1
OURS, IG, MASKS, LATER = "ours", "difference of two IG maps", "difference of two masks", "mask of the later answer"
METHODS = (OURS, IG, MASKS, LATER)

Cells = NDArray[np.bool_]
_BEGIN, _END = "<!-- change: begin -->", "<!-- change: end -->"


@dataclass(frozen=True)
class Trial:
    """One architecture on the onsets of one hospital.

    Attributes:
        model_auroc: of the model on the test stays, at hour 48.
        onsets: how many were asked about.
        change: mean size of the change, in logits.
        sum_error: the largest |contributions + elapsed - change| as a share of the change.
        remainder: the largest share of a change that the integral missed before it was spread.
        elapsed: mean size of what time alone moved, as a share of the mean size of the change.
        auprc: method -> mean AUPRC of the onset's cells among the new cells.
        risen: how many of the risks rose. auprc_risen: the same of those alone; else something else moved the answer.
        moved, auprc_moved: onsets that moved the answer by at least `NOTABLE` log-odds, and ours on those alone.
        unread: channels of the onsets that the model hardly reads: taken back to hour 24 they move the answer by less
            than `UNREAD` log-odds on average.
        precision, recall: of the mask of whole cells. calibration: expected calibration error of the coefficients.
    """

    architecture: str
    seed: int
    model_auroc: float
    onsets: int
    change: float
    sum_error: float
    remainder: float
    elapsed: float
    auprc: Mapping[str, float]
    risen: int
    auprc_risen: Mapping[str, float]
    moved: int
    auprc_moved: float
    unread: tuple[str, ...]
    precision: float
    recall: float
    calibration: float


@dataclass(frozen=True, eq=False)
class _Onsets:
    """Stays with an onset: x (N, T, d), its cells, and the cells that count."""

    x: NDArray[np.float32]
    cells: Cells
    counted: Cells


def run_change(
    architectures: Sequence[str] = tuple(ARCHITECTURES),
    seeds: Sequence[int] = REPORTED_SEEDS,
    instances: int | None = None,
    quick: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> list[Trial]:
    """Train each architecture on the hospital of each seed, and ask about its onsets, `instances` at most."""
    unknown = [name for name in architectures if name not in ARCHITECTURES]
    if unknown:
        raise ValueError(f"Expected architectures of {', '.join(ARCHITECTURES)}, but got {unknown[0]!r}.")
    trials = []
    for seed in seeds:
        stays, truth = hospital_stays(seed, quick)
        onsets = _onsets(stays.part("test"), truth, instances)
        for name in architectures:
            trials.append(_trial(name, stays, onsets, seed, quick))
            found = ", ".join(f"{method} {value:.3f}" for method, value in trials[-1].auprc.items())
            report(f"{name}, seed {seed}, {len(onsets.x)} onsets: {found}")
    return trials


def _onsets(test: StayDataset, truth: Truth, instances: int | None) -> _Onsets:
    """Stays whose onset shows between the two hours. Channels that never change in a stay take no part."""
    planted = truth.salient_cells(test)
    planted[:, :SINCE] = planted[:, UNTIL:] = False
    rows = np.flatnonzero(planted.any(axis=(1, 2)))[:instances]
    if not len(rows):
        raise ValueError("Expected test stays with a planted onset, but there are none.")
    x, cells = test.x[rows], planted[rows]
    counted = (np.ptp(x, axis=1, keepdims=True) > 0) | cells
    counted[:, :SINCE] = counted[:, UNTIL:] = False
    return _Onsets(x, cells, counted)


def _trial(name: str, stays: StayDataset, onsets: _Onsets, seed: int, quick: bool) -> Trial:
    model = change_model(name, stays, seed, quick)
    per_step = ARCHITECTURES[name]
    padding = None if per_step else "carry"
    change = explain_change(model, onsets.x, since=SINCE, until=UNTIL, padding=padding, progress=False)
    rule = PrefixRule("none", per_step=True) if per_step else PrefixRule("carry")
    rankings = {OURS: [change.scores], **_others(model, rule, onsets, change)}
    missing = np.abs(change.contributions.sum(axis=(1, 2), dtype=np.float64) + change.elapsed - change.change)
    hits = (change.binary & onsets.cells).sum(axis=(1, 2))
    return Trial(
        architecture=name,
        seed=seed,
        model_auroc=_auroc(model, stays.part("test")),
        onsets=len(onsets.x),
        change=float(np.abs(change.change).mean()),
        sum_error=float((missing / np.maximum(np.abs(change.change), 1e-6)).max()),
        remainder=float(change.diagnostics["remainder"].max()),
        elapsed=float(np.abs(change.elapsed).mean() / np.abs(change.change).mean()),
        auprc=_best(rankings, onsets, np.ones(len(onsets.x), dtype=np.bool_)),
        risen=int((change.change > 0).sum()),
        auprc_risen=_best(rankings, onsets, change.change > 0),
        moved=int((np.abs(change.change) >= NOTABLE).sum()),
        auprc_moved=_best({OURS: [change.scores]}, onsets, np.abs(change.change) >= NOTABLE)[OURS],
        unread=_unread(AnswerAfter(model, UNTIL, rule), rule, onsets, stays.channel_names),
        precision=float(np.mean(hits / np.maximum(change.binary.sum(axis=(1, 2)), 1))),
        recall=float(np.mean(hits / onsets.cells.sum(axis=(1, 2)))),
        calibration=calibration_error(change.masks, onsets.cells, onsets.counted),
    )


def _others(model: nn.Module, rule: PrefixRule, onsets: _Onsets, change: Change) -> dict[str, list[NDArray[Any]]]:
    """Rankings by explanations of both states, each in several readings; the best one is counted, truth in hand."""
    import torch

    x = torch.from_numpy(onsets.x)
    before = rule.nothing_new(x, torch.full((len(x),), SINCE))
    # A window of fixed length is explained as the model sees it; answers at each step are asked at their own step.
    asked = [AnswerAfter(model, UNTIL, rule), AnswerAfter(model, SINCE if rule.per_step else UNTIL, rule)]
    states = tuple(zip(asked, (x, before), strict=True))
    way = change.direction[:, None, None]
    ig = [explain(reader, state, method="ig_signed", progress=False).scores for reader, state in states]
    later, earlier = (explain(reader, state, progress=False) for reader, state in states)
    assert later.attributions is not None
    assert earlier.attributions is not None
    return {
        IG: [np.abs(ig[0]) - np.abs(ig[1]), np.abs(ig[0] - ig[1]), way * (ig[0] - ig[1]), way * (ig[1] - ig[0])],
        MASKS: [
            later.masks - earlier.masks,
            np.abs(later.masks - earlier.masks),
            later.scores - earlier.scores,
            np.abs(later.attributions - earlier.attributions),
            way * (later.attributions - earlier.attributions),
        ],
        LATER: [later.scores],
    }


def _unread(reader: nn.Module, rule: PrefixRule, onsets: _Onsets, names: Sequence[str]) -> tuple[str, ...]:
    """Channels of the onsets that hardly move the answer when they alone are taken back to the earlier hour."""
    import torch

    def risk(x: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = reader(x).flatten(1)
        return logits[:, 1] - logits[:, 0]

    x = torch.from_numpy(onsets.x)
    before = rule.nothing_new(x, torch.full((len(x),), SINCE))
    found = []
    for channel in np.flatnonzero(onsets.cells.any(axis=(0, 1))):
        rows = torch.from_numpy(np.flatnonzero(onsets.cells[:, :, channel].any(axis=1)))
        back = x[rows].clone()
        back[:, :, channel] = before[rows][:, :, channel]
        if float((risk(x[rows]) - risk(back)).mean().abs()) < UNREAD:
            found.append(names[int(channel)])
    return tuple(found)


def _best(rankings: Mapping[str, list[NDArray[Any]]], onsets: _Onsets, rows: Cells) -> dict[str, float]:
    """The mean AUPRC of each method's best reading over some of the onsets."""
    return {
        method: max(
            float(np.nanmean(m.auprc(scores[rows], onsets.cells[rows], onsets.counted[rows]))) for scores in readings
        )
        for method, readings in rankings.items()
    }


def _auroc(model: nn.Module, test: StayDataset) -> float:
    import torch

    known = ~np.isnan(test.labels)
    with torch.no_grad():
        logits = model(torch.from_numpy(test.x[known]))
    logits = logits[:, UNTIL - 1] if logits.ndim == 3 else logits
    return auroc(logits.softmax(-1)[:, 1].double().numpy(), test.labels[known])


def change_table(trials: Sequence[Trial]) -> list[list[str]]:
    """One row an architecture, means over its hospitals weighted by onsets."""
    head = ["model", "onsets", "model AUROC", *(f"AUPRC, {method}" for method in METHODS)]
    head += ["precision", "recall", "ECE", "sum is off by at most", "time alone"]
    table = [head]
    for name in dict.fromkeys(trial.architecture for trial in trials):
        those = [trial for trial in trials if trial.architecture == name]
        weights = [trial.onsets for trial in those]

        def mean(values: Sequence[float], weights: Sequence[int] = weights) -> str:
            return f"{np.average(values, weights=weights):.3f}".removeprefix("0")

        row = [name, str(sum(weights)), mean([trial.model_auroc for trial in those])]
        row += [mean([trial.auprc[method] for trial in those]) for method in METHODS]
        row += [mean([getattr(trial, key) for trial in those]) for key in ("precision", "recall", "calibration")]
        row += [f"{100 * max(trial.sum_error for trial in those):.1g} %", mean([trial.elapsed for trial in those])]
        table.append(row)
    return table


def notes(trials: Sequence[Trial], command: str) -> list[str]:
    """What the table leaves out."""
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(trial.seed for trial in trials))
    remainder = 100 * max(trial.remainder for trial in trials)
    asked, risen = sum(trial.onsets for trial in trials), sum(trial.risen for trial in trials)
    return [
        f"Made by `{command}`: hospitals and models of the seeds {seeds}.",
        f"Of {asked} answers {risen} rose; on those alone: "
        + "; ".join(f"{name}: {_of_risen(trials, name)}" for name in dict.fromkeys(t.architecture for t in trials))
        + ".",
        "By hospital: " + "; ".join(_of_hospital(trial) for trial in trials) + ".",
        f"The integral alone misses at most {remainder:.2g} % of a change; that part is spread over the cells.",
    ]


def _of_hospital(trial: Trial) -> str:
    ours, later, moved = (
        f"{value:.3f}".removeprefix("0") for value in (trial.auprc[OURS], trial.auprc[LATER], trial.auprc_moved)
    )
    unread = f", hardly reads {', '.join(trial.unread)}" if trial.unread else ""
    return (
        f"{trial.architecture}, {trial.seed}: {ours} (later mask {later}; {moved} on the {trial.moved} of "
        f"{trial.onsets} onsets that moved the answer by {NOTABLE:g} log-odds or more{unread})"
    )


def _of_risen(trials: Sequence[Trial], name: str) -> str:
    those = [trial for trial in trials if trial.architecture == name]
    weights = [trial.risen for trial in those]
    means = {method: np.average([t.auprc_risen[method] for t in those], weights=weights) for method in METHODS}
    return ", ".join(f"{method} {mean:.3f}".replace(" 0.", " .") for method, mean in means.items())


def update_page(path: Path, trials: Sequence[Trial], command: str) -> None:
    """Replace what stands between the marks of the table in a Markdown file."""
    text = path.read_text(encoding="utf-8")
    before, mark, rest = text.partition(_BEGIN)
    _, closing, after = rest.partition(_END)
    if not mark or not closing:
        raise ValueError(f"Expected the marks {_BEGIN} and {_END} in {path}, but they are not there.")
    body = as_markdown(change_table(trials)) + "\n\n" + "\n".join(f"- {note}" for note in notes(trials, command))
    path.write_text(f"{before}{_BEGIN}\n{body}\n{_END}{after}", encoding="utf-8")

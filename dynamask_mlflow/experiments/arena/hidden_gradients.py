"""What hiding the gradients costs: the same network, explained by gradients and by forward passes alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dynamask_mlflow import metrics
from dynamask_mlflow.evaluation.explain_and_score import Explained, Explainer, explain_and_score
from dynamask_mlflow.evaluation.scoring import Controls, Eraser, Predict
from dynamask_mlflow.evaluation.sequences import as_sequences
from dynamask_mlflow.experiments.arena.case import arena_case
from dynamask_mlflow.experiments.arena.outcome import existing, method_digest
from dynamask_mlflow.experiments.arena.rows import ROWS, Row
from dynamask_mlflow.experiments.arena.scoring import Bins, calibration_bins, pooled
from dynamask_mlflow.experiments.cache import cached_json
from dynamask_mlflow.experiments.protocol import Case
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.forward_only import ForwardOnly

ONE_EVENT = ("flat", "lowvar", "level-shift", "frequency-burst")
"""Tasks with one event in each sequence."""
_MEASURED = 3  # which numbers the cache holds


@dataclass(frozen=True, eq=False)
class HiddenGradients:
    """One row of the arena over its seeds.

    Attributes:
        by_gradients, forward: AUPRC of the ranking, a mean for each seed.
        ce, ce_random: CE without the first cells of the forward fit's deletion ordering, as many as its mask has, and
            without as many random ones, for each seed.
        ce_gradients, ce_planted: the same of the fit by gradients, and CE without the planted cells.
        passes: forward passes an instance. seconds: CPU seconds an instance, (gradients, forward).
        bins: of the forward coefficients.
    """

    row: str
    by_gradients: tuple[float, ...]
    forward: tuple[float, ...]
    ce: tuple[float, ...]
    ce_random: tuple[float, ...]
    ce_gradients: tuple[float, ...]
    ce_planted: tuple[float, ...]
    passes: float
    seconds: tuple[float, float]
    bins: Bins

    @property
    def share(self) -> float:
        """AUPRC by forward passes over that by gradients."""
        return float(np.mean(self.forward) / np.mean(self.by_gradients))

    @property
    def seeds_above_random(self) -> int:
        return sum(own > other for own, other in zip(self.ce, self.ce_random, strict=True))


def one_event_rows() -> list[Row]:
    return [row for row in ROWS if row.family in ONE_EVENT]


def compare_hidden(
    rows: Sequence[Row], seeds: Sequence[int], instances: int, budget: int, report: Callable[[str], None]
) -> list[HiddenGradients]:
    """Each row with and without its gradients; what was computed before by the same code is kept."""
    found = []
    for row in rows:
        outcomes = []
        for seed in seeds:
            settings = {"row": row.name, "seed": seed, "instances": instances, "budget": budget}
            settings |= {"code": method_digest("forward"), "measured": _MEASURED}
            outcomes.append(
                cached_json("hidden-gradients", settings, partial(_outcome, row.name, seed, instances, budget))
            )
        found.append(_row(row.name, outcomes))
        shown, hidden = np.mean(found[-1].by_gradients), np.mean(found[-1].forward)
        above = f"CE above random's on {found[-1].seeds_above_random} of {len(seeds)} seeds"
        report(f"{row.name}: gradients {shown:.3f}, forward passes {hidden:.3f}, {above}")
    return found


def _row(name: str, outcomes: Sequence[Any]) -> HiddenGradients:
    def each(key: str) -> tuple[float, ...]:
        return tuple(float(outcome[key]) for outcome in outcomes)

    bins = [Bins(*(np.asarray(outcome["bins"][k]) for k in ("count", "total", "salient"))) for outcome in outcomes]
    return HiddenGradients(
        row=name,
        by_gradients=each("gradients"),
        forward=each("forward"),
        ce=each("ce"),
        ce_random=each("ce_random"),
        ce_gradients=each("ce_gradients"),
        ce_planted=each("ce_planted"),
        passes=max(each("passes")),
        seconds=(float(np.mean(each("seconds_gradients"))), float(np.mean(each("seconds_forward")))),
        bins=pooled(bins),
    )


def _outcome(row: str, seed: int, instances: int, budget: int) -> dict[str, Any]:
    case = arena_case(row, seed, instances)
    shown, first = explained_with_scores(case, case.model, seed, budget)
    hidden, second = explained_with_scores(case, ForwardOnly(partial(_answers, case.model)), seed, budget)
    truth, exists = np.broadcast_to(np.asarray(case.truth), case.x.shape), existing(case)
    bins = calibration_bins(hidden.main.masks.masks, truth, exists)
    return {
        "gradients": float(np.nanmean(metrics.auprc(shown.main.masks.scores, truth, exists))),
        "forward": float(np.nanmean(metrics.auprc(hidden.main.masks.scores, truth, exists))),
        "ce": ce_by_deletion(case, hidden),
        "ce_random": float(np.nanmean(hidden.main.scores.each["ce/random"])),
        "ce_gradients": ce_by_deletion(case, shown),
        "ce_planted": _ce_of_planted(case, hidden, truth & exists),
        "passes": float(hidden.main.masks.diagnostics["forward_passes"].max()),
        "seconds_gradients": first,
        "seconds_forward": second,
        "bins": {name: getattr(bins, name).tolist() for name in ("count", "total", "salient")},
    }


def _answers(network: nn.Module, x: NDArray[np.float32]) -> NDArray[np.float32]:
    with torch.no_grad():
        return np.asarray(network(torch.from_numpy(x)).numpy())


def explained_with_scores(case: Case, network: Any, seed: int, budget: int) -> tuple[Explained, float]:
    """Masks with their scores, and CPU seconds of the fit for each instance."""
    sequences = as_sequences(case.x, lengths=case.lengths)
    explainer = Explainer(network, case.task, ExplainConfig(seed=seed, forward_budget=budget, progress=False))
    begin = time.process_time()
    explainer.masks_of(sequences)
    seconds = (time.process_time() - begin) / len(case.x)
    return explain_and_score({"own": explainer}, sequences, Controls((0.1,), seed)), seconds


def ce_by_deletion(case: Case, found: Explained) -> float:
    """CE without the cells that cost the answer most, as many as the mask has: the ordering that CE asks about."""
    masks, exists = found.main.masks, existing(case)
    predict = _predict_of(case)
    eraser = Eraser(found.sample, found.outputs, predict, case.task, masks.scores, exists, masks.deletion_ranking)
    (after,) = eraser.answers([eraser.costliest(masks.area)])
    return float(np.nanmean(eraser.shift(after)["ce"]))


def _ce_of_planted(case: Case, found: Explained, truth: NDArray[np.bool_]) -> float:
    """CE without all planted cells: where it is below that of random cells, CE does not see the evidence."""
    eraser = Eraser(found.sample, found.outputs, _predict_of(case), case.task, truth.astype(np.float64), existing(case))
    shifts, _ = eraser.removed(truth.mean((1, 2)) / np.maximum(existing(case).mean((1, 2)), 1e-9))
    return float(np.nanmean(shifts["ce"]))


def _predict_of(case: Case) -> Predict:
    explainer = Explainer(case.model, case.task, ExplainConfig(progress=False))
    return explainer.predict


def hidden_table(found: Sequence[HiddenGradients]) -> list[list[str]]:
    """Heading first, then a row each, then the means."""
    auprc, ce = ["AUPRC: gradients", "forward passes", "share"], ["CE: forward", "gradients", "planted", "random"]
    table = [["row", *auprc, *ce, "seeds above random", "CPU s an instance: gradients", "forward passes"]]
    for each in found:
        values = (each.by_gradients, each.forward, each.ce, each.ce_gradients, each.ce_planted, each.ce_random)
        means = [f"{np.mean(some):.3f}" for some in values]
        above = f"{each.seeds_above_random} of {len(each.ce)}"
        seconds = [f"{value:.2f}" for value in each.seconds]
        table.append([each.row, *means[:2], f"{each.share:.2f}", *means[2:], above, *seconds])
    shown, hidden = (float(np.mean([np.mean(getattr(e, name)) for e in found])) for name in ("by_gradients", "forward"))
    counted = f"{sum(each.seeds_above_random for each in found)} of {sum(len(each.ce) for each in found)}"
    table.append(["all", f"{shown:.3f}", f"{hidden:.3f}", f"{hidden / shown:.2f}", *[""] * 4, counted, "", ""])
    return table


def calibration_of(found: Sequence[HiddenGradients]) -> float:
    """Expected calibration error of the coefficients by forward passes, over all rows."""
    return pooled([each.bins for each in found]).error

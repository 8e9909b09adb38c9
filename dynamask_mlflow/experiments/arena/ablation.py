"""Each part of the default left out in turn: what it costs on the arena."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from dynamask_mlflow.experiments.arena.case import arena_case
from dynamask_mlflow.experiments.arena.outcome import OURS, explained, judged, method_digest
from dynamask_mlflow.experiments.arena.rows import ROWS, Row
from dynamask_mlflow.experiments.cache import cached_json
from dynamask_mlflow.experiments.table import as_markdown
from dynamask_mlflow.masks import (
    channel_statistics,
    contest,
    departure,
    gradient_scores,
    operators,
    ordering,
    path_attribution,
    sequence_answer,
)
from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.errors import ModelError

METRICS = ("auprc", "f1", "brier")
EMPTY_MASK = {"auprc": 0.0, "f1": 0.0, "brier": 1.0}
"""What a row counts on which the model gives NaN under every baseline of a variant."""


@dataclass(frozen=True)
class Variant:
    """The default with one part changed: attributes of modules or classes that are replaced."""

    name: str
    changes: tuple[tuple[Any, str, Any], ...] = ()

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, attribute, value in self.changes:
                stack.enter_context(patch.object(owner, attribute, value))
            yield


def _nothing_explained(values: Tensor, widths: tuple[float, ...], exists: Tensor | None = None) -> Tensor:
    return torch.zeros(len(widths), len(values), dtype=values.dtype, device=values.device)


def _all_widths_alike(values: Tensor, widths: tuple[float, ...], exists: Tensor | None = None) -> Tensor:
    return torch.ones(len(widths), len(values), dtype=values.dtype, device=values.device)


def _absolute_neutral_rule(x: Tensor, exists: Tensor | None) -> tuple[Tensor, Tensor]:
    median = channel_statistics.time_median(x, exists)
    return median, torch.full_like(median, 2.0)


def _always(present: Tensor, challenger: Tensor) -> Tensor:
    return torch.ones_like(present)


def _alike(present: Tensor, challenger: Tensor) -> Tensor:
    return torch.full_like(present, 0.5)


def _counted_alike(self: departure.Departure) -> Tensor:
    counted = self.usable.to(self.score.dtype)
    return counted / counted.sum(0).clamp(min=1e-12)


def _attributions_averaged_first(
    attributions: Tensor, variation: Tensor, weights: Tensor, exists: Tensor | None = None
) -> Tensor:
    share = weights[:, :, None, None]
    mean, size = (added_up(share * values)[None] for values in (attributions, variation))
    return gradient_scores.gradient_scores(mean, size, torch.ones_like(weights[:1]), exists)


def _what_cancels_is_lost(
    attributions: Tensor, variation: Tensor, weights: Tensor, exists: Tensor | None = None
) -> Tensor:
    return gradient_scores.gradient_scores(attributions, attributions.abs(), weights, exists)


VARIANTS: tuple[Variant, ...] = (
    Variant("default"),
    Variant("gradients alone", ((ordering, "TOLERANCE", math.inf),)),
    Variant("no nested fit", ((ordering, "FIT_BELOW", -2.0),)),
    Variant("nested fit for all", ((ordering, "FIT_BELOW", 2.0),)),
    Variant("every instance is challenged", ((ordering, "TOLERANCE", -1.0),)),
    Variant("no contest: the challenger always wins", ((ordering, "challenger_weight", _always),)),
    Variant("no contest: both count alike", ((ordering, "challenger_weight", _alike),)),
    Variant("no lead needed", ((contest, "LEAD", 0.0),)),
    Variant("no noise baseline", ((departure, "NOISE_FACTOR", -math.inf),)),
    Variant("no smoothing", ((gradient_scores, "explained_by_neighbours", _nothing_explained),)),
    Variant("all widths alike", ((gradient_scores, "explained_by_neighbours", _all_widths_alike),)),
    Variant("cells against count nothing", ((gradient_scores, "AGAINST", 0.0),)),
    Variant("cells against count fully", ((gradient_scores, "AGAINST", 1.0),)),
    Variant("cells against a value count by half", ((sequence_answer, "AGAINST_OF_VALUES", 0.5),)),
    Variant(
        "attributions averaged before their roots",
        ((path_attribution, "gradient_scores", _attributions_averaged_first),),
    ),
    Variant("what cancels along the way is lost", ((path_attribution, "gradient_scores", _what_cancels_is_lost),)),
    Variant("absolute rule of the neutral baseline", ((operators, "robust_spread", _absolute_neutral_rule),)),
    Variant("time mean alone", ((sequence_answer, "OPERATORS", ("time_mean",)),)),
    Variant("neutral alone", ((sequence_answer, "OPERATORS", ("neutral",)),)),
    Variant("baselines count alike", ((departure.Departure, "weights", property(_counted_alike)),)),
    Variant("two levels", ((sequence_answer, "LEVELS", 2),)),
    Variant("even masks in place of random ones", ((path_attribution, "_random_mask", path_attribution._even_mask),)),
)


@dataclass(frozen=True, eq=False)
class Ablation:
    """means: variant -> metric -> mean over rows; worst: variant -> the row that loses most AUPRC, and by how much."""

    rows: tuple[str, ...]
    means: dict[str, dict[str, float]]
    worst: dict[str, tuple[str, float]]


def run_ablation(
    seeds: Sequence[int],
    instances: int,
    report: Callable[[str], None] = lambda line: None,
    rows: Sequence[Row] | None = None,
) -> Ablation:
    """Every variant on the rows that answer once a sequence."""
    chosen = [row for row in rows or ROWS if row.family != "per-step"]
    found: dict[str, dict[str, dict[str, float]]] = {variant.name: {} for variant in VARIANTS}
    for row in chosen:
        for variant in VARIANTS:
            scores = [_scores(variant, row.name, seed, instances) for seed in seeds]
            found[variant.name][row.name] = {name: float(np.mean([s[name] for s in scores])) for name in METRICS}
        report(f"{row.name}: default AUPRC {found['default'][row.name]['auprc']:.3f}")
    means = {
        variant: {name: float(np.mean([row[name] for row in by_row.values()])) for name in METRICS}
        for variant, by_row in found.items()
    }
    worst = {}
    for name, by_row in found.items():
        losses = {row: found["default"][row]["auprc"] - scores["auprc"] for row, scores in by_row.items()}
        worst[name] = max(losses.items(), key=lambda loss: loss[1])
    return Ablation(tuple(row.name for row in chosen), means, worst)


def _scores(variant: Variant, row: str, seed: int, instances: int) -> dict[str, float]:
    settings = {"variant": variant.name, "row": row, "seed": seed, "instances": instances, "code": method_digest(OURS)}

    def compute() -> dict[str, float]:
        case = arena_case(row, seed, instances)
        try:
            with variant.applied():
                scores = judged(case, explained(case, OURS, seed))
        except ModelError:
            return EMPTY_MASK
        return {name: float(np.nanmean(scores[name])) for name in METRICS}

    result: dict[str, float] = cached_json("arena-ablation", settings, compute)
    return result


INTRODUCTION = """# Ablation: each part of the default left out

AUPRC of the planted cells, F1 of the mask and Brier score of the coefficients, means over the arena's rows with one
answer a sequence ([arena](arena.md)), and the row that loses most AUPRC. Coefficients keep the weights that were fitted
to the default's orderings. A row on which the model gives NaN under every baseline of a variant counts as an empty
mask."""


def ablation_page(ablation: Ablation, seeds: Sequence[int], instances: int, command: str) -> str:
    """The whole page."""
    made = f"Seeds {', '.join(map(str, seeds))}, {instances} instances a row and seed, written by"
    return f"{INTRODUCTION}\n\n{made}\n\n```\n{command}\n```\n\n{as_markdown(ablation_table(ablation))}\n"


def ablation_table(ablation: Ablation) -> list[list[str]]:
    head = ["variant", "AUPRC", "difference", "mask F1", "Brier", "loses most on", "by"]
    usual = ablation.means["default"]["auprc"]
    body = []
    for variant, means in ablation.means.items():
        row, loss = ablation.worst[variant]
        lost = [row, f"{loss:.3f}"] if loss > 0.005 else ["-", "-"]
        ranking = [f"{means['auprc']:.3f}", f"{means['auprc'] - usual:+.3f}"]
        body.append([variant, *ranking, f"{means['f1']:.3f}", f"{means['brier']:.3f}", *lost])
    return [head, *body]

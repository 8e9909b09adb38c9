"""Every part of the default earns its place: without it a floor is missed.

Each mutant leaves out or inverts one part; the case names a floor of `floors.py` that then does not hold.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from floors import FLOORS, nature
from natures import RECIPES, calibration_error, doubt, f1, quality, rank_correlation
from torch import Tensor

from dynamask_mlflow.masks import (
    coefficients,
    departure,
    descent,
    every_step,
    nested_contestant,
    ordering,
    path_attribution,
    sequence_answer,
)
from dynamask_mlflow.masks.channel_statistics import time_median
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.operators import Neutral, fade_to
from dynamask_mlflow.masks.path_attribution import PathAttributions
from dynamask_mlflow.masks.perturbation_objective import PerturbationObjective
from dynamask_mlflow.masks.ranking import Order
from dynamask_mlflow.masks.target import TargetScore

Patch = pytest.MonkeyPatch


def class_against_the_best_other(patch: Patch) -> None:
    def margin(self: TargetScore, outputs: Tensor) -> Tensor:
        logits = outputs[..., 0, :]
        chosen = self.chosen.expand(logits.shape[:-1])[..., None]
        return logits.gather(-1, chosen)[..., 0] - logits.scatter(-1, chosen, -torch.inf).amax(-1)

    patch.setattr(TargetScore, "of_outputs", margin)


def never_against_the_class(patch: Patch) -> None:
    opened = Departure.open

    def for_the_class(*args: object, **options: object) -> Departure:
        found = opened(*args, **options)  # type: ignore[arg-type]
        turn = found.target.for_answer * found.direction
        return replace(
            found,
            direction=found.target.for_answer,
            score=turn * found.score,
            baseline_scores=turn * found.baseline_scores,
        )

    patch.setattr(Departure, "open", for_the_class)


def zero_unless_the_median_is_beyond_four(patch: Patch) -> None:
    def prepare(_: Neutral, batch, step):  # type: ignore[no-untyped-def]
        median = time_median(batch.x, batch.exists)
        baseline = torch.where(median.abs() > 4, median, torch.zeros_like(median))
        return fade_to(batch.x, baseline.expand_as(batch.x))

    patch.setattr(Neutral, "prepare", prepare)


def no_segments(patch: Patch) -> None:
    patch.setattr(ordering, "TOLERANCE", np.inf)


def one_side_of_a_value(patch: Patch) -> None:
    patch.setattr(sequence_answer, "AGAINST_OF_VALUES", 0.5)


def challenger_always_wins(patch: Patch) -> None:
    patch.setattr(ordering, "TOLERANCE", -1.0)
    patch.setattr(ordering, "challenger_weight", lambda present, _: torch.ones_like(present))


def challenger_never_wins(patch: Patch) -> None:
    patch.setattr(ordering, "challenger_weight", lambda present, _: torch.zeros_like(present))


def no_noise(patch: Patch) -> None:
    def never(_: str, outputs: Tensor, *__: object) -> Tensor:
        return torch.zeros(len(outputs), dtype=torch.bool)

    patch.setattr(departure, "_noise_replaces", never)


def baselines_count_alike(patch: Patch) -> None:
    def alike(self: Departure) -> Tensor:
        counted = self.usable.to(self.score.dtype)
        return counted / counted.sum(0).clamp(min=1)

    patch.setattr(Departure, "weights", property(alike))


def cells_of_at_least_one_half(patch: Patch) -> None:
    patch.setattr(sequence_answer, "best_cut", lambda chance: (chance >= 0.5).to(chance.dtype))


def a_twentieth_of_the_cells(patch: Patch) -> None:
    def share(chance: Tensor) -> Tensor:
        flat = chance.flatten(1)
        least = flat.topk(max(1, round(0.05 * flat.shape[1]))).values[:, -1:]
        return (flat >= least).to(chance.dtype).view_as(chance)

    patch.setattr(sequence_answer, "best_cut", share)


def coefficients_of_zero_and_one(patch: Patch) -> None:
    usual = coefficients.coefficients
    patch.setattr(sequence_answer, "coefficients", lambda *args: coefficients.best_cut(usual(*args)))


def coefficients_by_rank(patch: Patch) -> None:
    def ranks(order: Order, *_: object) -> Tensor:
        return (1 - order.entry()).clamp(min=0)

    patch.setattr(sequence_answer, "coefficients", ranks)


def no_descent(patch: Patch) -> None:
    patch.setattr(every_step, "USUAL", replace(every_step.USUAL, steps=1))


def no_class_attribution(patch: Patch) -> None:
    patch.setattr(every_step._Fit, "follows_classes", property(lambda _: False))


def no_mean_shift(patch: Patch) -> None:
    def without(gradient: Tensor, mask: Tensor, temperature: float) -> Tensor:
        return gradient * mask * (1 - mask) / temperature

    patch.setattr(descent, "score_gradient", without)
    patch.setattr(nested_contestant, "score_gradient", without)


def no_normaliser(patch: Patch) -> None:
    prepare = PerturbationObjective.prepare

    def unscaled(*args: object) -> PerturbationObjective:
        objective = prepare(*args)  # type: ignore[arg-type]
        return replace(objective, normaliser=torch.ones_like(objective.normaliser))

    patch.setattr(PerturbationObjective, "prepare", unscaled)


@pytest.mark.parametrize(
    ("mutate", "name", "measure"),
    [
        (class_against_the_best_other, "shared evidence", "ranking"),
        (never_against_the_class, "risk", "ranking"),
        (never_against_the_class, "risk below one half", "cells"),
        (zero_unless_the_median_is_beyond_four, "off zero", "ranking"),
        (no_segments, "segment", "ranking"),
        (no_segments, "one event", "ranking"),
        (one_side_of_a_value, "both signs", "ranking"),
        (one_side_of_a_value, "both signs", "cells"),
        (challenger_always_wins, "several events", "ranking"),
        (challenger_always_wins, "spikes", "cells"),
        (challenger_never_wins, "segment", "ranking"),
        (challenger_never_wins, "one event", "cells"),
        (no_noise, "absence", "ranking"),
        (baselines_count_alike, "constant level", "ranking"),
        (baselines_count_alike, "constant level", "brier"),
        (cells_of_at_least_one_half, "segment", "cells"),
        (a_twentieth_of_the_cells, "several events", "cells"),
        (coefficients_of_zero_and_one, "risk", "brier"),
        (coefficients_by_rank, "redundancy", "brier"),
        (no_descent, "faint cells", "ranking"),
        (no_class_attribution, "classes at every step", "ranking"),
        (no_mean_shift, "faint cells", "ranking"),
        (no_normaliser, "faint cells", "cells"),
        (no_normaliser, "classes at every step", "cells"),
    ],
)
def test_without_it_a_floor_is_missed(
    mutate: Callable[[Patch], None], name: str, measure: str, monkeypatch: Patch
) -> None:
    known = nature(name)
    mutate(monkeypatch)
    found, floor = (getattr(values, measure) for values in (quality(known.explained(), known.truth), FLOORS[name]))
    assert found > floor if measure == "brier" else found < floor


@pytest.mark.parametrize("mutate", [coefficients_of_zero_and_one, coefficients_by_rank])
def test_uncalibrated_coefficients_are_noticed(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    known = [nature(name) for name in RECIPES]
    mutate(monkeypatch)
    masks = [each.explained() for each in known]
    assert calibration_error([(mask, each.truth) for mask, each in zip(masks, known, strict=True)]) > 0.12
    doubts = np.concatenate([doubt(mask) for mask in masks])
    errors = np.concatenate([1 - f1(mask, each.truth) for mask, each in zip(masks, known, strict=True)])
    assert rank_correlation(doubts, errors) < 0.3


def test_sums_that_do_not_come_out_are_noticed(monkeypatch: Patch) -> None:
    known = nature("risk")

    def missed() -> float:
        masks = known.explained()
        wanted = masks.diagnostics["answer"] - masks.diagnostics["reference_answer"]
        return float(np.abs(masks.attributions.sum((1, 2)) / wanted - 1).max())

    assert missed() < 1e-4
    usual = path_attribution.path_attributions

    def without_remainder(opened: Departure, levels: int, random_masks: int) -> PathAttributions:
        paths = usual(opened, levels, random_masks)
        return replace(paths, missed=torch.zeros_like(paths.missed))

    monkeypatch.setattr(sequence_answer, "path_attributions", without_remainder)
    assert missed() > 1e-3

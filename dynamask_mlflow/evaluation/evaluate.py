"""The work of the evaluator, without MLflow: choose a sample, explain and score it, check it for sanity."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.explain_and_score import (
    Explained,
    Explainer,
    MethodRun,
    Rows,
    explain_and_score,
    predicted_labels,
    risk,
)
from dynamask_mlflow.evaluation.model_settings import reference_set
from dynamask_mlflow.evaluation.privacy import hashed, reason_of, warn_of_short_salt
from dynamask_mlflow.evaluation.scoring import Controls, Floats, answers_every_step
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.masks.target_spec import ONE_LABEL

if TYPE_CHECKING:
    import torch

    from dynamask_mlflow.evaluation.changes import Changes

# When most reference answers lie outside the usual range of a sample of at least so many answers, a warning says so.
_USUAL, _MOSTLY, _LEAST = (0.05, 0.95), 0.5, 8
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Masks of a sample, and their scores.

    Attributes:
        task: "classification" or "regression".
        sample: the instances that could be explained.
        outputs: the network's probabilities or values for them.
        runs: method -> its masks and scores, the main method first.
        failures: id -> what went wrong, for the other sampled instances.
        seconds: of the whole, and in parts: name -> seconds.
        sanity: likeness of the masks to those of the same network with randomised weights.
        random_outputs: whether the network answers the same question differently each time.
        views: target -> masks of it, for the other targets that were asked for.
        changes: what changed since a time, if that was asked.
    """

    task: str
    sample: Sequences
    outputs: Floats
    runs: Mapping[str, MethodRun]
    failures: Mapping[str, str]
    seconds: Mapping[str, float]
    sanity: float | None = None
    random_outputs: bool = False
    views: Mapping[str, Masks] = field(default_factory=dict)
    changes: Changes | None = None

    @property
    def main(self) -> MethodRun:
        return next(iter(self.runs.values()))

    @property
    def per_step(self) -> bool:
        return answers_every_step(self.outputs, self.task, self.sample.x.shape[1])


def evaluate_masks(
    network: torch.nn.Module,
    sequences: Sequences,
    *,
    task: str,
    config: EvaluationConfig,
    reference: NDArray[Any] | None = None,
) -> Evaluation:
    """Explain a sample of the sequences and score the masks. Instances that fail are left out and named.

    `reference` are sequences (M, T, d) that answers are explained against, unless the settings ask for the dataset's.
    """
    _check_names(config)
    if config.reference_from == "dataset":
        reference = _of_dataset(sequences)
    config = _with_static_baseline(config, sequences)
    explainers = {
        method: Explainer(network, task, config.fit_config(method), reference) for method in config.all_methods
    }
    main = explainers[config.all_methods[0]]
    begin = time.perf_counter()
    chosen = choose_rows(sequences, config, lambda: _all_outputs(main, sequences), task)
    sampled = sequences.take(chosen)
    sampling = time.perf_counter() - begin
    controls = Controls(config.curve_areas, config.seed, config.control_instances)
    explained = explain_and_score(explainers, sampled, controls)
    if reference is None:
        _warn_of_extreme_baselines(explained.main.masks)
    _warn_of_no_departure(explained.main.masks)
    _warn_of_several_labels(sequences, explained.outputs, task)
    noisy = main.has_random_outputs(explained.sample.take(np.arange(len(explained.sample))[:2]))
    if noisy:
        _logger.warning("dynamask: the network's outputs are random: the same input gives another answer each time.")
    start = time.perf_counter()
    sanity = _sanity(main, explained, config)
    clock = dict(explained.seconds)
    clock["predict"] += sampling
    clock["sanity"] = time.perf_counter() - start
    start = time.perf_counter()
    views = _views(main, explained, config)
    clock["more_targets"] = time.perf_counter() - start
    clock["total"] = time.perf_counter() - begin
    if explained.failures:
        _warn_of_failures(explained.failures, sampled, config.hash_ids)
    named = {sampled.ids[row]: reason_of(error) for row, error in sorted(explained.failures.items())}
    return Evaluation(task, explained.sample, explained.outputs, explained.runs, named, clock, sanity, noisy, views)


def choose_rows(sequences: Sequences, config: EvaluationConfig, outputs: Callable[[], Floats], task: str) -> Rows:
    """Positions of the instances to explain. `outputs` is called only where the choice depends on it.

    Outputs are probabilities or values of all instances, NaN where the model failed.
    """
    if config.ids is not None:
        return _by_id(sequences.ids, config.ids, config.hash_ids)
    n = len(sequences)
    count = n if config.instances is None else min(config.instances, n)
    rng = np.random.default_rng(config.seed)
    if count == n or config.sampling == "first":
        return np.arange(count)
    if config.sampling == "random":
        return np.sort(rng.permutation(n)[:count])
    y = outputs()
    if config.sampling == "class" and task == "classification":
        return _in_proportion(predicted_labels(y), count, rng)
    # One from each of `count` equal bins of the ranks; ties and failures (last) in random order.
    order = np.lexsort((rng.random(n), risk(y, task)))
    edges = np.linspace(0, n, count + 1).astype(np.intp)
    return np.sort(order[rng.integers(edges[:-1], edges[1:])])


def _by_id(known: tuple[str, ...], wanted: tuple[str, ...], secret: bool = False) -> Rows:
    position = {name: row for row, name in enumerate(known)}
    missing = [name for name in wanted if name not in position]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
        named = "" if secret else f": {shown}"
        raise ValueError(
            f"Expected ids of the dataset, but {len(missing)} of {len(wanted)} are not among its {len(known)}{named}."
        )
    return np.array([position[name] for name in wanted], dtype=np.intp)


def _in_proportion(labels: NDArray[np.int64], count: int, rng: np.random.Generator) -> Rows:
    """Largest remainders, but every class at least once while there is room for it."""
    classes, sizes = np.unique(labels, return_counts=True)
    exact = count * sizes / sizes.sum()
    quota = np.floor(exact).astype(np.int64)
    if count >= len(classes):
        quota = np.maximum(quota, 1)
    while quota.sum() > count:  # the raised minima are taken from the class furthest above its share
        quota[np.argmax(np.where(quota > 1, quota - exact, -np.inf))] -= 1
    while quota.sum() < count:
        quota[np.argmax(np.where(quota < sizes, exact - quota, -np.inf))] += 1
    chosen = [
        rng.permutation(np.flatnonzero(labels == label))[:size] for label, size in zip(classes, quota, strict=True)
    ]
    return np.sort(np.concatenate(chosen)).astype(np.intp)


def _check_names(config: EvaluationConfig) -> None:
    """A wrong name should not be found out after an hour of fits."""
    from dynamask_mlflow.masks.operators import parse_operators
    from dynamask_mlflow.masks.registry import find_method

    require_device(config.device)
    if config.hash_ids:
        warn_of_short_salt()
    for method in config.all_methods:
        find_method(method)
    if config.operators is not None:
        parse_operators(config.operators)


def _of_dataset(sequences: Sequences) -> NDArray[np.float32]:
    if sequences.lengths is not None:
        raise ConfigError(
            "Expected sequences of one length for reference_from='dataset', but these have lengths: what stands in the "
            "padding is no sequence to explain against. Log the model with `log_model(..., reference=...)` instead."
        )
    return reference_set(sequences.x, "sequences", sequences.x.shape[1:])


def _warn_of_extreme_baselines(masks: Masks) -> None:
    """Say so where a model without gradients takes most baselines for more extreme than the data.

    A flat line is unlike anything that random convolutions or trees were fitted to. Where its answer lies beyond those
    to the data, every answer has moved the same way from it, and the direction says nothing about the instance.
    """
    if "reference_answer" not in masks.diagnostics or len(masks) < _LEAST or "forward passes" not in masks.algorithm:
        return
    answers, references = masks.diagnostics["answer"], masks.diagnostics["reference_answer"]
    low, high = np.quantile(answers, _USUAL)
    if np.mean((references < low) | (references > high)) > _MOSTLY:
        _logger.warning(
            "dynamask: the model's answers to the baselines (%.3g, the median) lie outside nine tenths of its answers "
            "to the sample (%.3g to %.3g). Flat lines are more extreme for it than the data, so that direction and "
            "ranking can be those of the baselines. Explain against other sequences: reference_from='dataset'.",
            np.median(references),
            low,
            high,
        )


def _warn_of_no_departure(masks: Masks) -> None:
    """Say so where there is nothing to explain in any instance: a mask of no cells looks like a finding."""
    if not masks.direction.any():
        _logger.warning(
            "dynamask: the model's answer to each of the %d sampled instances is that to its baselines, so that no "
            "cell is salient. Is the model trained, and the output the one that was meant (output_key)?",
            len(masks),
        )


def _warn_of_several_labels(sequences: Sequences, outputs: Floats, task: str) -> None:
    """Say so where targets (N, C) name several of the outputs at once, or none, which are then read as classes."""
    targets = sequences.targets
    if task != "classification" or targets is None or targets.ndim != 2 or targets.shape[1:] != outputs.shape[1:]:
        return
    if targets.dtype.kind in "biuf" and bool((targets.sum(axis=1) != 1).any()):
        _logger.warning(
            "dynamask: the targets name several of the %d outputs at once, or none, but outputs are read as classes "
            "that exclude each other. To explain one label, %s.",
            targets.shape[1],
            ONE_LABEL,
        )


def _with_static_baseline(config: EvaluationConfig, sequences: Sequences) -> EvaluationConfig:
    """Static features fade to their mean over the dataset, unless the settings say otherwise."""
    names = sequences.side.static_names()
    if config.static_baseline is not None or not names:
        return config
    return config.with_options(
        static_baseline={name: np.atleast_1d(sequences.extras[name].mean(axis=0)).tolist() for name in names}
    )


def _all_outputs(explainer: Explainer, sequences: Sequences) -> Floats:
    """Predictions for all instances, NaN where there is none."""
    done = explainer.predict_each(sequences)
    first = done.parts[0][1]
    joined = np.full((len(sequences), *first.shape[1:]), np.nan)
    for rows, part in done.parts:
        joined[rows] = part
    return joined


def _sanity(explainer: Explainer, explained: Explained, config: EvaluationConfig) -> float | None:
    count = min(config.sanity_instances, len(explained.sample))
    if not count:
        return None
    from dynamask_mlflow.evaluation.sanity import randomized_weights, rank_similarity

    rows = np.arange(count)
    some = explained.sample.take(rows)
    with randomized_weights(explainer.network, config.seed):
        blind, good, _ = explainer.masks_of_each(some, rows)
    return rank_similarity(explained.main.masks.scores[:count][good], blind.scores, some.eligible[good])


def _views(explainer: Explainer, explained: Explained, config: EvaluationConfig) -> dict[str, Masks]:
    """Masks of the other targets; a target that cannot be explained for all instances is left out."""
    found = {}
    rows = np.arange(len(explained.sample))
    for target in config.more_targets:
        asked = replace(explainer, config=explainer.config.with_options(target=target))
        masks, good, failures = asked.masks_of_each(explained.sample, rows)
        if good.all():
            found[target] = masks
        else:
            reason = reason_of(next(iter(failures.values())))
            _logger.warning("dynamask: the target %s is left out: %s", target, reason)
    return found


def _warn_of_failures(failures: Mapping[int, Exception], sampled: Sequences, hash_ids: bool) -> None:
    row, error = next(iter(sorted(failures.items())))
    _logger.warning(
        "dynamask: %d of %d sampled instances could not be explained and are left out; the first is %r: %s",
        len(failures),
        len(sampled),
        hashed(sampled.ids[row]) if hash_ids else sampled.ids[row],
        reason_of(error),
    )


def require_device(device: str) -> None:
    """Raise `ConfigError` unless torch can compute there."""
    from dynamask_mlflow.masks.black_box import resolve_device

    if resolve_device(device).type == "meta":
        raise ConfigError(f"Expected a device that computes, but got {device!r}.")

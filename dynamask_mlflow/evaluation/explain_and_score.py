"""The work of an evaluation, without MLflow: predict, sample, fit, score."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.device import require_device
from dynamask_mlflow.evaluation.erasure import Floats, answers_every_step
from dynamask_mlflow.evaluation.isolation import isolate
from dynamask_mlflow.evaluation.privacy import hashed, reason_of, warn_of_short_salt
from dynamask_mlflow.evaluation.sampling import choose_rows
from dynamask_mlflow.evaluation.sanity import random_outputs
from dynamask_mlflow.evaluation.scoring import Scores, score
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.result import Masks

if TYPE_CHECKING:
    import torch

_logger = logging.getLogger(__name__)

Rows = NDArray[np.intp]

_AT_ONCE = 128  # instances in one forward pass: more are no faster and take more memory


@dataclass(frozen=True, eq=False)
class MethodRun:
    """One method on the sample."""

    masks: Masks
    scores: Scores
    seconds: float

    def error_curve(self) -> NDArray[np.float64]:
        """Median error at each area of the method's own grid, as a share of the empty mask's error.

        The median, because a share of next to nothing (a prediction that hardly moves) can be any number.
        """
        errors = self.masks.errors
        known = np.isfinite(errors).any(axis=0)
        median = np.full(errors.shape[1], np.nan)
        median[known] = np.nanmedian(np.where(np.isfinite(errors), errors, np.nan)[:, known], axis=0)
        return median


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Masks of a sample, and what they are worth.

    Attributes:
        task: "classification" or "regression".
        sample: the instances that could be explained.
        outputs: the network's probabilities or values for them.
        runs: method -> its masks and scores, the main method first.
        failures: id -> what went wrong, for the other sampled instances.
        seconds: of the whole, and in parts: name -> seconds.
        sanity: likeness of the masks to those of the same network with randomised weights.
        random_outputs: whether the network answers the same question differently each time.
    """

    task: str
    sample: Sequences
    outputs: Floats
    runs: Mapping[str, MethodRun]
    failures: Mapping[str, str]
    seconds: Mapping[str, float]
    sanity: float | None = None
    random_outputs: bool = False

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

    `reference` are sequences (M, T, d) that answers are explained against.
    """
    from dynamask_mlflow.masks.black_box import predict
    from dynamask_mlflow.masks.operators import parse_operators
    from dynamask_mlflow.masks.registry import find_method

    require_device(config.device)
    if config.hash_ids:
        warn_of_short_salt()
    for method in config.all_methods:  # a wrong name should not be found out after an hour of fits
        find_method(method)
    if config.operators is not None:
        parse_operators(config.operators)
    reading = config.output  # whether the network gives logits or probabilities; found out once

    begin = time.perf_counter()
    clock: dict[str, float] = {}

    def outputs_of(x: NDArray[np.float32]) -> Floats:
        return predict(network, x, task=task, output=reading, device=config.device, batch_size=_AT_ONCE)

    def all_outputs() -> Floats:
        done = isolate(lambda rows: outputs_of(sequences.x[rows]), np.arange(len(sequences)))
        first = done.parts[0][1]
        joined = np.full((len(sequences), *first.shape[1:]), np.nan)
        for rows, part in done.parts:
            joined[rows] = part
        return joined

    chosen = choose_rows(sequences, config, all_outputs, task)
    sampled = sequences.take(chosen)
    predicted = isolate(lambda rows: outputs_of(sampled.x[rows]), np.arange(len(sampled)))
    failures = dict(predicted.failures)
    kept = predicted.rows
    outputs = np.concatenate([part for _, part in predicted.parts])
    noisy = random_outputs(network, sampled.x[kept[:2]], config.device)
    if noisy:
        _logger.warning("dynamask: the network's outputs are random: the same input gives another answer each time.")
    clock["predict"] = time.perf_counter() - begin

    fits: dict[str, Masks] = {}
    for method in config.all_methods:
        start = time.perf_counter()
        fits[method], good, failed = _fit(network, sampled, kept, task, config, method, reference)
        clock[f"fit/{method}"] = time.perf_counter() - start
        failures |= failed
        if failed:
            fits = {name: masks[good] for name, masks in fits.items() if name != method} | {method: fits[method]}
            outputs, kept = outputs[good], kept[good]

    start = time.perf_counter()
    sample = sampled.take(kept)
    reading = _reading(network, sample, task, config)
    runs = {}
    for method, masks in fits.items():
        scores = score(
            masks,
            sample,
            outputs,
            outputs_of,
            task=task,
            curve_areas=config.curve_areas,
            seed=config.seed,
            control_instances=config.control_instances,
        )
        runs[method] = MethodRun(masks, scores, clock[f"fit/{method}"])
    clock["score"] = time.perf_counter() - start
    start = time.perf_counter()
    sanity = _sanity(network, sample, next(iter(fits.values())), task, config, reference)
    clock["sanity"] = time.perf_counter() - start
    clock["total"] = time.perf_counter() - begin
    if failures:
        _warn_of_failures(failures, sampled, config.hash_ids)
    named = {sampled.ids[row]: reason_of(error) for row, error in sorted(failures.items())}
    return Evaluation(task, sample, outputs, runs, named, clock, sanity, noisy)


def _fit(
    network: torch.nn.Module,
    sampled: Sequences,
    rows: Rows,
    task: str,
    config: EvaluationConfig,
    method: str,
    reference: NDArray[Any] | None,
) -> tuple[Masks, NDArray[np.bool_], dict[int, Exception]]:
    """Masks of the rows that could be fitted, which of `rows` these are, and what happened to the others."""
    from dynamask_mlflow.masks.explain import explain

    fit_config = config.fit_config(method)

    def job(some: Rows) -> Masks:
        part = sampled.take(some)
        masks = explain(
            network,
            part.x,
            task=task,
            lengths=part.lengths,
            observed=part.observed,
            reference=reference,
            config=fit_config,
        )
        finite = np.isfinite(masks.masks).all(axis=(1, 2)) & np.isfinite(masks.scores).all(axis=(1, 2))
        if not finite.all():
            raise FloatingPointError(f"{int((~finite).sum())} masks hold values that are not finite")
        return masks

    done = isolate(job, rows)
    good = np.isin(rows, done.rows)
    parts = [masks for _, masks in done.parts]
    return parts[0] if len(parts) == 1 else Masks.concatenate(parts), good, done.failures


def _sanity(
    network: torch.nn.Module,
    sample: Sequences,
    masks: Masks,
    task: str,
    config: EvaluationConfig,
    reference: NDArray[Any] | None,
) -> float | None:
    count = min(config.sanity_instances, len(sample))
    if not count:
        return None
    from dynamask_mlflow.evaluation.sanity import randomized_weights, rank_similarity

    rows = np.arange(count)
    some = sample.take(rows)
    with randomized_weights(network, config.seed):
        blind, good, _ = _fit(network, some, rows, task, config, config.all_methods[0], reference)
    return rank_similarity(masks.scores[:count][good], blind.scores, some.eligible[good])


def _reading(network: torch.nn.Module, sample: Sequences, task: str, config: EvaluationConfig) -> str:
    import torch

    from dynamask_mlflow.masks.black_box import frozen, open_black_box, resolve_device

    if task == "regression" or config.output != "auto":
        return config.output
    device = resolve_device(config.device)
    with frozen(network, device):
        return open_black_box(network, torch.as_tensor(sample.x[:4], device=device), task).output


def _warn_of_failures(failures: Mapping[int, Exception], sampled: Sequences, hash_ids: bool) -> None:
    row, error = next(iter(sorted(failures.items())))
    _logger.warning(
        "dynamask: %d of %d sampled instances could not be explained and are left out; the first is %r: %s",
        len(failures),
        len(sampled),
        hashed(sampled.ids[row]) if hash_ids else sampled.ids[row],
        reason_of(error),
    )

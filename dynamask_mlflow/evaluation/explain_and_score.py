"""Predict, fit masks, measure them: the one path that evaluator, audits, demo and experiments share. No MLflow."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.scoring import Controls, Floats, Scores, score
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.result import Masks

if TYPE_CHECKING:
    import torch

_logger = logging.getLogger(__name__)
Rows = NDArray[np.intp]
Result = TypeVar("Result")

_AT_ONCE = 128  # instances in one forward pass: more are no faster and take more memory


@dataclass(frozen=True, eq=False)
class Explainer:
    """A network and how it is asked.

    Attributes:
        network: a torch module or callable on (B, T, d).
        task: "classification" or "regression".
        config: settings of the fit, with the method.
        reference: (M, T, d) sequences that answers are explained against.
    """

    network: torch.nn.Module
    task: str
    config: ExplainConfig
    reference: NDArray[Any] | None = None

    def predict(self, x: NDArray[np.float32], sample: Sequences, removed: NDArray[np.bool_] | None = None) -> Floats:
        """Probabilities (N, C) or (N, T, C), or values.

        Args:
            x: (N, T, d): the sample's own, or perturbations of it, one after the other.
            sample: what else the network is given.
            removed: (N, T, d) cells that were never measured.
        """
        from dynamask_mlflow.masks.predict import predict

        return predict(
            self.network,
            x,
            task=self.task,
            side=sample.side,
            removed=removed,
            config=self.config,
            batch_size=_AT_ONCE,
        )

    def predict_each(self, sequences: Sequences) -> Isolated[Floats]:
        """Predictions, and the instances that have none."""

        def job(rows: Rows) -> Floats:
            part = sequences.take(rows)
            return self.predict(part.x, part)

        return isolate(job, np.arange(len(sequences)))

    def masks_of(self, sequences: Sequences) -> Masks:
        """Masks with finite values.

        Raises:
            FloatingPointError: if a mask holds anything else.
        """
        from dynamask_mlflow.masks.explain import explain

        masks = explain(
            self.network,
            sequences.given_x,
            task=self.task,
            lengths=sequences.lengths,
            observed=sequences.observed,
            extras=sequences.extras,
            reference=self.reference,
            config=self.config,
        )
        finite = np.isfinite(masks.masks).all(axis=(1, 2)) & np.isfinite(masks.scores).all(axis=(1, 2))
        if not finite.all():
            raise FloatingPointError(f"{int((~finite).sum())} masks hold values that are not finite")
        return masks

    def masks_of_each(self, sequences: Sequences, rows: Rows) -> tuple[Masks, NDArray[np.bool_], dict[int, Exception]]:
        """Masks of the rows that could be fitted, which of `rows` these are, and what happened to the others."""
        done = isolate(lambda some: self.masks_of(sequences.take(some)), rows)
        parts = [masks for _, masks in done.parts]
        return parts[0] if len(parts) == 1 else Masks.concatenate(parts), np.isin(rows, done.rows), done.failures

    def with_known_output(self, sample: Sequences) -> Self:
        """The same, with logits and probabilities distinguished once: perturbed inputs must not change the reading."""
        from dynamask_mlflow.masks.binding import open_bound
        from dynamask_mlflow.masks.black_box import frozen, resolve_device

        if self.task == "regression" or self.config.output != "auto":
            return self
        device = resolve_device(self.config.device)
        with frozen(self.network, device):
            opened, _ = open_bound(sample.bind(self.network, self.config), self.task, "auto", device)
        return replace(self, config=self.config.with_options(output=opened.output))

    def has_random_outputs(self, sample: Sequences) -> bool:
        """Whether two forward passes on the same input differ by more than rounding."""
        import torch

        from dynamask_mlflow.masks.black_box import frozen, resolve_device
        from dynamask_mlflow.masks.model_output import read_output

        where = resolve_device(self.config.device)
        binding, rows = sample.bind(self.network, self.config), torch.arange(len(sample))
        model, asked = binding.model_of(rows, where), binding.inputs_of(rows, where)
        with frozen(self.network, where), torch.no_grad():
            first, second = (read_output(model(asked)).detach().clone() for _ in range(2))
        return first.shape != second.shape or not torch.allclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True)


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
class Explained:
    """Instances with their predictions, masks and scores.

    Attributes:
        sample: the instances that could be explained, and `rows`, where they were.
        outputs: probabilities or values for them.
        runs: method -> its masks and scores, in the order that was asked for.
        failures: row -> what went wrong, for the other instances.
        seconds: of the steps: "predict", "fit/<method>", "score".
    """

    sample: Sequences
    rows: Rows
    outputs: Floats
    runs: Mapping[str, MethodRun]
    failures: Mapping[int, Exception]
    seconds: Mapping[str, float]

    @property
    def main(self) -> MethodRun:
        return next(iter(self.runs.values()))


def explain_and_score(
    explainers: Mapping[str, Explainer], sequences: Sequences, controls: Controls | None = None
) -> Explained:
    """Explain every instance by every method and score the masks.

    Instances on which any method fails are left out of all of them and named; an error is raised only if all fail.

    Args:
        explainers: name of the method -> how to ask; all have the same network and task.
        sequences: N instances of T steps and d channels.
        controls: curves and random cells to compare with; None: each mask's own numbers alone.

    Returns:
        Explained: masks and scores of the instances that every method could explain.

    Example:
        >>> import numpy as np, torch
        >>> from dynamask_mlflow.evaluation.sequences import as_sequences
        >>> from dynamask_mlflow.masks.config import ExplainConfig
        >>> x = np.random.default_rng(0).normal(size=(4, 6, 3))
        >>> explainer = Explainer(lambda x: x[:, :, 0].sum(1, keepdim=True), "regression", ExplainConfig())
        >>> found = explain_and_score({"nested": explainer}, as_sequences(x))
        >>> sorted(found.main.scores.each)[:3]
        ['answer_shift', 'area', 'certainty']
        >>> bool(found.main.masks.binary[:, :, 1:].any())
        False
    """
    first = next(iter(explainers.values()))
    clock: dict[str, float] = {}
    start = time.perf_counter()
    predicted = first.predict_each(sequences)
    failures, rows = dict(predicted.failures), predicted.rows
    outputs = np.concatenate([part for _, part in predicted.parts])
    clock["predict"] = time.perf_counter() - start

    fits: dict[str, Masks] = {}
    for name, explainer in explainers.items():
        start = time.perf_counter()
        masks, good, failed = explainer.masks_of_each(sequences, rows)
        clock[f"fit/{name}"] = time.perf_counter() - start
        if failed:
            failures |= failed
            fits = {other: found[good] for other, found in fits.items()}
            outputs, rows = outputs[good], rows[good]
        fits[name] = masks

    start = time.perf_counter()
    sample = sequences.take(rows)
    asked = first.with_known_output(sample)
    runs = {
        name: MethodRun(masks, score(masks, sample, outputs, asked.predict, asked.task, controls), clock[f"fit/{name}"])
        for name, masks in fits.items()
    }
    clock["score"] = time.perf_counter() - start
    return Explained(sample, rows, outputs, runs, failures, clock)


@dataclass(frozen=True)
class Isolated(Generic[Result]):
    """Results in order, each with the rows it is for, and what happened to the other rows."""

    parts: list[tuple[Rows, Result]]
    failures: dict[int, Exception]

    @property
    def rows(self) -> Rows:
        return np.concatenate([np.empty(0, dtype=np.intp), *(rows for rows, _ in self.parts)])


def isolate(job: Callable[[Rows], Result], rows: Rows) -> Isolated[Result]:
    """Run `job` on rows whose results do not depend on each other; raises only if every single one fails."""
    parts: list[tuple[Rows, Result]] = []
    failures: dict[int, Exception] = {}

    # A stack, not a function that calls itself: that would be a cycle, and hold all results until they are collected.
    waiting = [rows]
    while waiting:
        some = waiting.pop()
        try:
            parts.append((some, job(some)))
        except Exception as error:
            if len(some) == 1:
                failures[int(some[0])] = error
                continue
            half = len(some) // 2
            waiting += [some[half:], some[:half]]
    if not parts:
        first = next(iter(failures.values()))
        if len({str(error) for error in failures.values()}) > 1:
            _logger.warning("All %d instances failed, for different reasons; the first is raised.", len(rows))
        raise first
    return Isolated(parts, failures)


def predicted_labels(probabilities: Floats) -> NDArray[np.int64]:
    """One class for each instance (of the mean over the steps); -1 where the model failed."""
    mean = probabilities if probabilities.ndim == 2 else probabilities.mean(axis=1)
    return np.where(np.isfinite(mean).all(axis=-1), np.nan_to_num(mean).argmax(axis=-1), -1)


def risk(y: Floats, task: str) -> NDArray[np.float64]:
    """One number for each instance: the probability of not being in class 0, or the mean value."""
    wide = y.reshape(len(y), -1, y.shape[-1]) if y.ndim > 1 else y[:, None, None]
    values = 1 - wide[..., 0] if task == "classification" else wide.mean(axis=-1)
    return np.asarray(values.mean(axis=-1), dtype=np.float64)

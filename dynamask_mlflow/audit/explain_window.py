"""Explain stays and keep what an audit needs of them. No MLflow, no files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._provenance import runtime_of
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.statistics import attention, shares
from dynamask_mlflow.evaluation.explain_and_score import (
    Explained,
    Explainer,
    explain_and_score,
    predicted_labels,
    risk,
)
from dynamask_mlflow.evaluation.privacy import reason_of
from dynamask_mlflow.evaluation.scoring import Eraser, removes_mask
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.black_box import resolve_device
from dynamask_mlflow.masks.result import Masks

if TYPE_CHECKING:
    import torch

PIECE = 1000  # stays whose masks are held at a time: memory does not grow with the shard


def explain_window(
    network: torch.nn.Module,
    sequences: Sequences,
    patients: NDArray[np.str_],
    *,
    task: str,
    config: AuditConfig,
    keep: int = 0,
    reference: NDArray[Any] | None = None,
) -> ExplainedWindow:
    """Fit masks and measure them; stays that fail are left out and named. All failing leaves none.

    Args:
        patients: (N,) whose stays they are.
        keep: how many masks to keep.
        reference: (M, T, d) sequences that the model was logged with, to explain answers against.
    """
    explainer = Explainer(network, task, config.fit_config(), reference)
    parts = []
    for rows in np.array_split(np.arange(len(sequences)), max(1, -(-len(sequences) // PIECE))):
        piece = sequences.take(rows)
        kept = max(0, keep - int(rows[0]))
        parts.append(_measure(explainer, piece, patients[rows], config, kept))
    return ExplainedWindow.concatenate(parts, keep)


def predict_window(
    network: torch.nn.Module, sequences: Sequences, patients: NDArray[np.str_], *, task: str, config: AuditConfig
) -> ExplainedWindow:
    """Predict without a mask, which costs next to nothing; the shares of attention are NaN."""
    begin = time.perf_counter()
    explainer = Explainer(network, task, config.fit_config())
    keep_mask = config.measured_only or sequences.observed_is_input(network, explainer.config)
    try:
        answers = explainer.predict_each(sequences if keep_mask else replace(sequences, observed=None))
    except Exception as error:  # every single stay failed
        failures = {name: reason_of(error) for name in sequences.ids}
        return _nothing(sequences, failures, time.perf_counter() - begin)
    failures = {sequences.ids[row]: reason_of(error) for row, error in answers.failures.items()}
    outputs = np.concatenate([part for _, part in answers.parts])
    return replace(
        _nothing(sequences, failures, time.perf_counter() - begin, len(answers.rows)),
        ids=np.asarray(sequences.ids, dtype=np.str_)[answers.rows],
        patients=patients[answers.rows].astype(np.str_),
        numbers={"risk": risk(outputs, task), **_classes(outputs, task)},
    )


def _measure(
    explainer: Explainer, sequences: Sequences, patients: NDArray[np.str_], config: AuditConfig, keep: int
) -> ExplainedWindow:
    begin = time.perf_counter()
    # A network that takes the mask of measured cells is always given it.
    keep_mask = config.measured_only or sequences.observed_is_input(explainer.network, explainer.config)
    candidates = sequences if keep_mask else replace(sequences, observed=None)
    try:
        explained = explain_and_score({"audit": explainer}, candidates)
    except Exception as error:
        failures = {name: reason_of(error) for name in sequences.ids}
        return _nothing(sequences, failures, time.perf_counter() - begin)
    sample, outputs, masks = explained.sample, explained.outputs, explained.main.masks
    where = np.asarray(sample.eligible)
    weights = attention(masks.scores, config.attention_area, where)
    idle = np.asarray(masks.diagnostics.get("dead_gradient", np.zeros(len(sample), dtype=bool)), dtype=bool)
    weights[idle] = 0
    p, h = shares(weights)
    total = weights.sum(axis=(1, 2), keepdims=True)
    owners = patients[explained.rows].astype(np.str_)
    asked = explainer.with_known_output(sample)
    predicted_risk = risk(outputs, explainer.task)
    values, missing = input_summary(sequences.take(explained.rows))
    return ExplainedWindow(
        ids=np.asarray(sample.ids, dtype=np.str_),
        patients=owners,
        by_channel=p,
        by_time=h,
        numbers={
            "risk": predicted_risk,
            **_classes(outputs, explainer.task),
            **_faithfulness(asked, explained, weights, owners),
        },
        values=values,
        missing=missing,
        codes=np.zeros((len(sample), 0), dtype=np.int8),
        effects=_channel_effects(asked, sample, predicted_risk),
        attention=(weights / np.where(total > 0, total, 1)).sum(axis=0),
        masks=masks.masks[:keep].astype(np.float32),
        failures={sequences.ids[row]: reason_of(error) for row, error in explained.failures.items()},
        channel_names=sample.channel_names,
        times=sample.times,
        record={
            "config": dict(masks.config),
            "shown": list(sample.ids[:keep]),
            "seconds": time.perf_counter() - begin,
            "runtime": runtime_of(explainer.network, resolve_device(explainer.config.device)),
        },
    )


def input_summary(sequences: Sequences) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(N, d) mean of the measured cells, NaN where there are none, and (N, d) share of cells not measured."""
    seen = np.asarray(sequences.eligible)
    count = seen.sum(axis=1)
    total = np.where(seen, sequences.x, 0.0).sum(axis=1, dtype=np.float64)
    steps = sequences.x.shape[1] if sequences.lengths is None else sequences.lengths[:, None]
    return np.where(count > 0, total / np.maximum(count, 1), np.nan), 1.0 - count / steps


def _faithfulness(
    explainer: Explainer, explained: Explained, weights: NDArray[np.float64], patients: NDArray[np.str_]
) -> dict[str, NDArray[np.float64]]:
    """Size of the mask, and how far predictions move without the cells of the own mask, of another patient's, and of
    the others' mean map.
    """
    sample, masks, task = explained.sample, explained.main.masks, explainer.task
    each, n = explained.main.scores.each, len(explained.sample)
    measure_name = "squared_error" if task == "regression" else "ce"

    def moved(shifts: Mapping[str, NDArray[np.float64]], after: NDArray[Any]) -> NDArray[np.float64]:
        departed = departure_lost(masks, explained.outputs, after, task)
        return shifts[measure_name] if departed is None else departed

    other = _somebody_else(patients)
    controls = {
        "other": (masks.scores[np.maximum(other, 0)], other < 0),
        "mean_map": ((weights.sum(axis=0) - weights) / max(n - 1, 1), np.full(n, n < 2)),
    }
    found = {
        "area": each["area"],
        "entropy": each["entropy_normalized"],
        "own": moved(each, explained.main.scores.without),
        **{name: each[name] for name in (measure_name, "acc") if name in each},
    }
    for name, (ranking, unknown) in controls.items():
        eraser = Eraser(
            sample, explained.outputs, explainer.predict, task, ranking, sample.eligible, missing=removes_mask(masks)
        )
        found[name] = np.where(unknown, np.nan, moved(*eraser.removed(masks.area)))
    return found


def departure_lost(masks: Masks, outputs: NDArray[Any], after: NDArray[Any], task: str) -> NDArray[np.float64] | None:
    """(N,): how far the target score fell back, in the direction of its departure; None where it is not one number.

    A risk below one half that is raised falls back although its class does not change, which CE would count as nothing.
    """
    chosen = masks.diagnostics.get("target_class")
    if chosen is None or outputs.ndim != 2:
        return None
    rows = np.arange(len(outputs))
    if task == "classification":
        log_before, log_after = (np.log(np.clip(p, 1e-7, 1.0)) for p in (outputs, after))
        others = outputs.shape[1] - 1
        scores = [p[rows, chosen] - (p.sum(axis=1) - p[rows, chosen]) / others for p in (log_before, log_after)]
    elif outputs.shape[1] == 1:
        scores = [outputs[:, 0], after[:, 0]]
    else:
        return None
    return np.asarray(masks.direction * (scores[0] - scores[1]), dtype=np.float64)


def _channel_effects(explainer: Explainer, sample: Sequences, whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, d): how the prediction changes when a channel is 0 throughout, which is its mean: what rests on it.

    Attention says where a mask looks first, this how far the prediction would go; inputs that moved matter by this.
    """
    x = sample.x
    effects = np.zeros((len(x), x.shape[2]))
    for channel in range(x.shape[2]):
        without = x.copy()
        without[:, :, channel] = 0
        effects[:, channel] = risk(explainer.predict(without, sample), explainer.task) - whole
    return effects


def _classes(outputs: NDArray[Any], task: str) -> dict[str, NDArray[np.float64]]:
    """The predicted class, where there are more than two; of two the risk suffices."""
    if task != "classification" or outputs.shape[-1] <= 2:
        return {}
    return {"class": predicted_labels(outputs).astype(np.float64)}


def _somebody_else(patients: NDArray[np.str_]) -> NDArray[np.intp]:
    """For each stay the next one, in a circle, that belongs to another patient; -1 if there is none."""
    n = len(patients)
    chosen = np.full(n, -1, dtype=np.intp)
    for step in range(1, n):
        partner = (np.arange(n) + step) % n
        free = (chosen < 0) & (patients[partner] != patients)
        chosen[free] = partner[free]
        if (chosen >= 0).all():
            break
    return chosen


def _nothing(sequences: Sequences, failures: dict[str, str], seconds: float, stays: int = 0) -> ExplainedWindow:
    """So many stays without a mask."""
    _, steps, channels = sequences.x.shape
    empty = np.zeros(0, dtype=np.float64)
    names = ("area", "entropy", "risk", "ce", "acc", "own", "other", "mean_map")
    return ExplainedWindow(
        ids=np.zeros(0, dtype=np.str_),
        patients=np.zeros(0, dtype=np.str_),
        by_channel=np.full((stays, channels), np.nan),
        by_time=np.full((stays, steps), np.nan),
        numbers=dict.fromkeys(names, empty),
        values=np.full((stays, channels), np.nan),
        missing=np.full((stays, channels), np.nan),
        codes=np.zeros((stays, 0), dtype=np.int8),
        effects=np.full((stays, channels), np.nan),
        attention=np.zeros((steps, channels)),
        masks=np.zeros((0, steps, channels), dtype=np.float32),
        failures=failures,
        channel_names=sequences.channel_names,
        times=sequences.times,
        record={"shown": [], "seconds": seconds},
    )

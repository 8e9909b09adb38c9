"""Explain stays and keep what an audit needs of them. No MLflow, no files."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.measured import Measured
from dynamask_mlflow.audit.runtime import runtime_of
from dynamask_mlflow.audit.statistics import attention, shares
from dynamask_mlflow.evaluation.erasure import Eraser
from dynamask_mlflow.evaluation.isolation import isolate
from dynamask_mlflow.evaluation.sampling import predicted_labels, risk
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.result import Masks

if TYPE_CHECKING:
    import torch

Rows = NDArray[np.intp]
PIECE = 1000  # stays whose masks are held at a time: memory does not grow with the shard


def measure(
    network: torch.nn.Module,
    sequences: Sequences,
    patients: NDArray[np.str_],
    *,
    task: str,
    config: AuditConfig,
    keep: int = 0,
    reference: NDArray[Any] | None = None,
) -> Measured:
    """Fit masks and measure them; stays that fail are left out and named. All failing leaves none.

    Args:
        patients: (N,) whose stays they are.
        keep: how many masks to keep.
        reference: (M, T, d) sequences that the model was logged with, to explain answers against.
    """
    parts = []
    for rows in np.array_split(np.arange(len(sequences)), max(1, -(-len(sequences) // PIECE))):
        piece = sequences if len(rows) == len(sequences) else sequences.take(rows)
        kept = max(0, keep - int(rows[0]))
        parts.append(_measure(network, piece, patients[rows], task, config, kept, reference))
    return Measured.concatenate(parts, keep)


def _measure(
    network: torch.nn.Module,
    sequences: Sequences,
    patients: NDArray[np.str_],
    task: str,
    config: AuditConfig,
    keep: int,
    reference: NDArray[Any] | None,
) -> Measured:
    from dynamask_mlflow.masks.black_box import predict
    from dynamask_mlflow.masks.explain import explain

    begin = time.perf_counter()
    sample = sequences if config.measured_only else replace(sequences, observed=None)

    def outputs_of(x: NDArray[np.float32]) -> NDArray[Any]:
        return predict(network, x, task=task, output=config.output, device=config.device)

    def job(rows: Rows) -> tuple[NDArray[Any], Masks]:
        part = sample.take(rows)
        outputs = outputs_of(part.x)
        if not np.isfinite(outputs).all():
            raise FloatingPointError("the model's answer is not finite")
        masks = explain(
            network,
            part.x,
            task=task,
            lengths=part.lengths,
            observed=part.observed,
            reference=reference,
            config=config.fit_config(),
        )
        return outputs, masks

    try:
        done = isolate(job, np.arange(len(sample)))
    except Exception as error:
        failures = {name: _message(error) for name in sequences.ids}
        return _nothing(sequences, failures, time.perf_counter() - begin)
    rows = done.rows
    outputs = np.concatenate([part[0] for _, part in done.parts])
    masks = Masks.concatenate([part[1] for _, part in done.parts])
    good = sample.take(rows)
    where = np.asarray(good.eligible)
    weights = attention(masks.scores, config.attention_area, where)
    idle = np.asarray(masks.diagnostics.get("dead_gradient", np.zeros(len(rows), dtype=bool)), dtype=bool)
    weights[idle] = 0
    p, h = shares(weights)
    total = weights.sum(axis=(1, 2), keepdims=True)
    owners = patients[rows]
    numbers = {
        "area": masks.area.astype(np.float64),
        "entropy": metrics.entropy(masks.masks, where) / (where.sum(axis=(1, 2)) * np.log(2)),
        "risk": risk(outputs, task),
        **_classes(outputs, task),
        **_worth(good, outputs, outputs_of, task, masks, weights, where, owners),
    }
    values, missing = input_summary(sequences.take(rows))
    return Measured(
        ids=np.asarray(good.ids, dtype=np.str_),
        patients=owners.astype(np.str_),
        by_channel=p,
        by_time=h,
        numbers=numbers,
        values=values,
        missing=missing,
        codes=np.zeros((len(rows), 0), dtype=np.int8),
        effects=_channel_effects(good.x, risk(outputs, task), outputs_of, task),
        attention=(weights / np.where(total > 0, total, 1)).sum(axis=0),
        masks=masks.masks[:keep].astype(np.float32),
        failures={sample.ids[row]: _message(error) for row, error in done.failures.items()},
        channel_names=good.channel_names,
        times=good.times,
        record={
            "config": dict(masks.config),
            "shown": list(good.ids[:keep]),
            "seconds": time.perf_counter() - begin,
            "runtime": runtime_of(network, config.device),
        },
    )


def input_summary(sequences: Sequences) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(N, d) mean of the measured cells, NaN where there are none, and (N, d) share of cells not measured."""
    seen = np.asarray(sequences.eligible)
    count = seen.sum(axis=1)
    total = np.where(seen, sequences.x, 0.0).sum(axis=1, dtype=np.float64)
    steps = sequences.x.shape[1] if sequences.lengths is None else sequences.lengths[:, None]
    return np.where(count > 0, total / np.maximum(count, 1), np.nan), 1.0 - count / steps


def _worth(
    sample: Sequences,
    outputs: NDArray[Any],
    outputs_of: Any,
    task: str,
    masks: Masks,
    weights: NDArray[np.float64],
    where: NDArray[np.bool_],
    patients: NDArray[np.str_],
) -> dict[str, NDArray[np.float64]]:
    """How far predictions move without the cells of the own mask, another patient's, and the others' mean map."""
    n = len(sample)
    other = _somebody_else(patients)
    rivals = {
        "own": masks.scores,
        "other": masks.scores[np.maximum(other, 0)],
        "mean_map": (weights.sum(axis=0) - weights) / max(n - 1, 1),
    }
    unknown = {"own": np.zeros(n, dtype=bool), "other": other < 0, "mean_map": np.full(n, n < 2)}
    found: dict[str, NDArray[np.float64]] = {}
    measure_name = "squared_error" if task == "regression" else "ce"
    for name, ranking in rivals.items():
        eraser = Eraser(sample, outputs, outputs_of, task, ranking, where)
        shifts, after = eraser.removed(masks.area)
        departed = departure_lost(masks, outputs, after, task)
        moved = shifts[measure_name] if departed is None else departed
        found[name] = np.where(unknown[name], np.nan, moved)
        if name == "own":
            found |= {measure: shifts[measure] for measure in (measure_name, "acc") if measure in shifts}
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


def _channel_effects(x: NDArray[np.float32], whole: NDArray[np.float64], outputs_of: Any, task: str) -> Any:
    """(N, d): how the prediction changes when a channel is 0 throughout, which is its mean: what rests on it.

    Attention says where a mask looks first, this how far the prediction would go; inputs that moved matter by this.
    """
    effects = np.zeros((len(x), x.shape[2]))
    for channel in range(x.shape[2]):
        without = x.copy()
        without[:, :, channel] = 0
        effects[:, channel] = risk(outputs_of(without), task) - whole
    return effects


def _classes(outputs: NDArray[Any], task: str) -> dict[str, NDArray[np.float64]]:
    """The predicted class, where there are more than two; of two the risk tells."""
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


def _nothing(sequences: Sequences, failures: dict[str, str], seconds: float) -> Measured:
    _, steps, channels = sequences.x.shape
    empty = np.zeros(0, dtype=np.float64)
    names = ("area", "entropy", "risk", "ce", "acc", "own", "other", "mean_map")
    return Measured(
        ids=np.zeros(0, dtype=np.str_),
        patients=np.zeros(0, dtype=np.str_),
        by_channel=np.zeros((0, channels)),
        by_time=np.zeros((0, steps)),
        numbers=dict.fromkeys(names, empty),
        values=np.zeros((0, channels)),
        missing=np.zeros((0, channels)),
        codes=np.zeros((0, 0), dtype=np.int8),
        effects=np.zeros((0, channels)),
        attention=np.zeros((steps, channels)),
        masks=np.zeros((0, steps, channels), dtype=np.float32),
        failures=failures,
        channel_names=sequences.channel_names,
        times=sequences.times,
        record={"shown": [], "seconds": seconds},
    )


def _message(error: Exception) -> str:
    """What went wrong, without numbers: a model's error may quote a patient's values."""
    text = re.sub(r"[-+]?\d[\d.,e+-]*", "#", " ".join(str(error).split()))
    return f"{type(error).__name__}: {text}"[:200]

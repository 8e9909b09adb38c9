"""What one method makes of one row and seed, kept in the cache so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import dynamask_mlflow
from dynamask_mlflow import metrics as m
from dynamask_mlflow.experiments.arena import ig_readings as ig
from dynamask_mlflow.experiments.arena import scoring
from dynamask_mlflow.experiments.arena.case import arena_case
from dynamask_mlflow.experiments.cache import cached_json
from dynamask_mlflow.experiments.protocol import Case
from dynamask_mlflow.masks.result import Masks

OURS = "ours"
BEST_IG = "ig-best"
Outcome = Mapping[str, Any]


def outcome(row: str, seed: int, instances: int, method: str) -> Outcome:
    """Scores of a method on a row and seed.

    Args:
        method: "ours" (the package's defaults), "ig-best" (eight readings of integrated gradients, see `ig_readings`)
            or any registered method.

    Returns:
        For "ig-best" reading -> scores; else the scores of `judged`; {"failure": reason} where the method or the model
        raised a ValueError.
    """
    settings = {"row": row, "seed": seed, "instances": instances, "method": method, "code": method_digest(method)}
    found: Outcome = cached_json("arena-outcome", settings, lambda: _outcome(row, seed, instances, method))
    return found


def _outcome(row: str, seed: int, instances: int, method: str) -> Outcome:
    case = _case(row, seed, instances)
    start = time.process_time()
    try:
        if method == BEST_IG:
            readings = ig.ig_readings(case.model, case.x, case.task, case.lengths)
            cost = (time.process_time() - start) / len(case.x) / len(ig.BASELINES)
            facts = {**_facts(case), "cpu_seconds": cost}
            return {name: {**_ranking_scores(case, scores), **facts} for name, scores in readings.items()}
        masks = explained(case, method, seed)
        cost = (time.process_time() - start) / len(case.x)
        return {**judged(case, masks), **_facts(case), "cpu_seconds": cost}
    except ValueError as error:
        return {"failure": str(error)}


@lru_cache(maxsize=2)
def _case(row: str, seed: int, instances: int) -> Case:
    return arena_case(row, seed, instances)


def explained(case: Case, method: str, seed: int) -> Masks:
    """The masks of a case by a method, as a user would call it."""
    from dynamask_mlflow.masks.explain import explain
    from dynamask_mlflow.saliency import background

    options: dict[str, Any] = {} if method == OURS else {"method": method}
    with nullcontext() if case.background is None else background(case.background):
        return explain(case.model, case.x, task=case.task, lengths=case.lengths, seed=seed, progress=False, **options)


def judged(case: Case, masks: Masks) -> Outcome:
    """Every score of the arena for one case: lists over instances, and what is to be pooled over rows."""
    truth, exists = _truth(case), existing(case)
    mask = scoring.mask_scores(masks.binary, truth, exists)
    coefficients = np.clip(masks.masks, 0, 1)
    bins = scoring.calibration_bins(coefficients, truth, exists)
    return {
        **_ranking_scores(case, masks.scores),
        "precision": mask.precision.tolist(),
        "recall": mask.recall.tolist(),
        "f1": mask.f1.tolist(),
        "size": np.asarray(masks.binary & exists).sum((1, 2)).tolist(),
        "brier": scoring.brier(coefficients, truth, exists).tolist(),
        "doubt": scoring.doubt(coefficients, exists).tolist(),
        "bins": {"count": bins.count.tolist(), "total": bins.total.tolist(), "salient": bins.salient.tolist()},
    }


def _ranking_scores(case: Case, scores: NDArray[Any]) -> Outcome:
    truth, exists = _truth(case), existing(case)
    cuts = scoring.cut_f1(scores, truth, exists)
    found: dict[str, Any] = {
        "auprc": m.auprc(scores, truth, exists).tolist(),
        "auroc": m.auroc(scores, truth, exists).tolist(),
        "cut_f1": float(cuts.max()),
        "rule_f1": scoring.rule_f1(scores, truth, exists).tolist(),
    }
    if case.task == "classification":
        found |= _perturbation(case, scores, exists)
    return found


def _perturbation(case: Case, scores: NDArray[Any], exists: NDArray[np.bool_]) -> Outcome:
    """ERASER's scores, which need no truth, and the predicted class of each instance that has one answer."""

    def probabilities(x: NDArray[Any]) -> NDArray[Any]:
        with torch.no_grad():
            logits = ig.two_sided(case.model(torch.from_numpy(np.asarray(x, dtype=np.float32))))
        return np.asarray(logits.softmax(-1).numpy())

    before = probabilities(case.x)
    found: dict[str, Any] = {"class": before.argmax(-1).tolist()} if before.ndim == 2 else {}
    for name, measure in (("comprehensiveness", m.comprehensiveness), ("sufficiency", m.sufficiency)):
        values = measure(probabilities, case.x, scores, observed=exists, multiclass=True)
        found[name] = np.where(np.isfinite(values), values, 0.0).tolist()
    return found


def _facts(case: Case) -> Outcome:
    return {name: float(value) for name, value in case.facts.items()}


def _truth(case: Case) -> NDArray[np.bool_]:
    if case.truth is None:
        raise ValueError("Expected a case whose salient cells are known, but it has none.")
    return np.broadcast_to(case.truth, case.x.shape)


def existing(case: Case) -> NDArray[np.bool_]:
    """(N, T, d) the cells that take part in scores: no padding, and none that the case leaves out."""
    there = np.ones(case.x.shape, dtype=np.bool_) if case.counted is None else case.counted
    if case.lengths is None:
        return there
    inside = np.arange(case.x.shape[1])[None] < case.lengths[:, None]
    return np.asarray(there & inside[..., None])


@cache
def method_digest(method: str) -> str:
    """A digest of the code that a result depends on: when it changes, the result is computed anew."""
    package = Path(dynamask_mlflow.__file__).parent
    files = sorted((package / "experiments" / "arena").glob("*.py"))
    files = [file for file in files if file.name in _JUDGES]
    if method in _ENGINE:
        files += sorted((package / "masks").glob("**/*.py"))
    elif method != BEST_IG:
        files += sorted((package / "saliency").glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


_ENGINE = (OURS, "nested", "forward", "paper")
_GENERATORS = ("data.py", "events.py", "held_out.py", "literature.py", "per_step.py", "values.py")
_JUDGES = (*_GENERATORS, "ig_readings.py", "outcome.py", "scoring.py")

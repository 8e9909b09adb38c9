"""Influence of the perturbation operator (appendix): do masks fitted with pi^g, pi^m and pi^p agree?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from dynamask_mlflow import metrics as m
from dynamask_mlflow.experiments.cases import state_case
from dynamask_mlflow.experiments.protocol import Case, Experiment
from dynamask_mlflow.experiments.registry import STATE_PRESETS
from dynamask_mlflow.experiments.state import StateSetting
from dynamask_mlflow.masks.result import Masks

OPERATORS = {"g": "blur:1", "m": "moving_average:3", "p": "past_average:6"}
COLUMNS: Mapping[str, str] = {
    **{f"agreement_{a}{b}": f"agreement {a}, {b}" for a, b in combinations(OPERATORS, 2)},
    **{f"auroc_{name}": f"AUROC {name}" for name in OPERATORS},
}


def perturbation_experiment(setting: StateSetting | None = None) -> Experiment:
    return Experiment(
        name="perturbation",
        title="Influence of the perturbation operator, on the state experiment",
        make_case=partial(state_case, setting=setting),
        score=agreement_scores,
        columns=COLUMNS,
        seeds=3,
        instances=34,
        quick_seeds=1,
        presets=STATE_PRESETS,
        explain=explain_by_operator,
    )


def explain_by_operator(model: Any, x: Any, **options: Any) -> Masks:
    """The masks of all instances by the first operator, then by the second, then by the third."""
    from dynamask_mlflow.masks.explain import explain

    parts = [explain(model, x, **{**options, "operators": (spec,)}) for spec in OPERATORS.values()]
    return Masks.concatenate([replace(part, config={}) for part in parts])


def agreement_scores(case: Case, masks: Masks) -> Mapping[str, float]:
    """The share of cells on which two masks, cut at .5, agree; and the AUROC of each operator's scores."""
    if case.truth is None:
        raise ValueError("Expected a case whose salient cells are known, but it has none.")
    n = len(case.x)
    parts = {name: masks[slice(i * n, (i + 1) * n)] for i, name in enumerate(OPERATORS)}
    chosen = {name: part.binary for name, part in parts.items()}
    pairs = combinations(OPERATORS, 2)
    agreement = {f"agreement_{a}{b}": float((chosen[a] == chosen[b]).mean()) for a, b in pairs}
    truth = np.broadcast_to(case.truth, case.x.shape)
    ranked = {f"auroc_{name}": float(np.mean(m.auroc(part.scores, truth))) for name, part in parts.items()}
    return {**agreement, **ranked}

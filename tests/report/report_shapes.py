"""Small reports of every shape that the data may have."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynamask_mlflow.report import Curves, ReportData


def small(masks: Any, task: Any = "classification", **fields: Any) -> ReportData:
    """A report about masks (N, T, d), everything else as plain as possible."""
    n, steps, channels = np.shape(masks)
    plain = {
        "title": "t",
        "model": "m",
        "created_at": "now",
        "ids": [f"i{k}" for k in range(n)],
        "channel_names": [f"c{k}" for k in range(channels)],
        "times": range(steps),
    }
    return ReportData(masks=masks, task=task, **{**plain, **fields})


def every_shape() -> dict[str, ReportData]:
    rng = np.random.default_rng(0)
    masks, steps = rng.random((6, 12, 5)) ** 6, rng.random((6, 12))
    before, after = rng.dirichlet(np.ones(4), 6), rng.dirichlet(np.ones(4), 6)
    nan = np.full(6, np.nan)
    long = rng.random((1, 1500, 90))
    return {
        "regression": small(
            masks, "regression", predictions=steps[:, 0], predictions_without=steps[:, 1], targets=steps[:, 2]
        ),
        "classes": small(masks, predictions=before, predictions_without=after, targets=[0, 1, 2, 3, 0, 1]),
        "labels": small(masks, predictions=["yes", "no"] * 3, targets=["no", "no"] * 3),
        "every step": small(masks, per_step=True, predictions=steps, predictions_without=steps, targets=steps > 0.5),
        "nothing but masks": small(masks),
        "one cell": small(np.zeros((1, 1, 1)), curves=Curves(areas=[0.1], values={"ce": [np.nan], "error": [0.5]})),
        "no instance": small(np.zeros((0, 3, 2)), predictions=np.zeros(0), metrics={"area": np.zeros(0)}),
        "not a number": small(
            np.full((6, 12, 5), np.nan),
            predictions=nan,
            predictions_without=nan,
            targets=nan,
            inputs=np.full((6, 12, 5), np.nan),
            metrics={"area": nan, "entropy": nan},
        ),
        "long and wide": small(long**8, "regression", inputs=long),
    }

"""The drift section: a reference window against the current one, as the page's scripts read it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynamask_mlflow._states import State
from dynamask_mlflow.report.data import DriftData


def drift_payload(drift: DriftData) -> dict[str, Any]:
    """Shares side by side, reasons, tests, causes and the history, one line a metric."""
    names = dict.fromkeys(name for point in drift.history for name in point.metrics)
    return {
        "verdict": str(drift.verdict),
        "states": {str(state): [state.heading, state.meaning] for state in State},
        "told": [[title, list(told)] for title, told in drift.told or (("", drift.reasons),) if told],
        "explained": drift.explained,
        "labels": [drift.reference_label, drift.current_label],
        "byChannel": [np.asarray(drift.reference_by_channel), np.asarray(drift.current_by_channel)],
        "byTime": [np.asarray(drift.reference_by_time), np.asarray(drift.current_by_time)],
        "maps": None
        if drift.reference_profile is None or drift.current_profile is None
        else [np.asarray(drift.reference_profile), np.asarray(drift.current_profile)],
        "movedChannels": [int(i) for i in drift.moved_channels],
        "movedTimes": [int(i) for i in drift.moved_times],
        "tests": dict(drift.tests),
        "causes": dict(drift.causes),
        "history": {
            "labels": [point.label for point in drift.history],
            "verdicts": [str(point.verdict) for point in drift.history],
            "lines": {name: [point.metrics.get(name) for point in drift.history] for name in names},
        },
        "thresholds": dict(drift.thresholds),
    }

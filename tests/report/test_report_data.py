"""Wrong shapes are refused where they come in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_shapes import small

from dynamask_mlflow.report import Curves, DriftData
from dynamask_mlflow.report.outputs import describe_predictions

MASKS = np.zeros((2, 4, 3))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ids": ["a"]}, "Expected 2 ids, but got 1"),
        ({"channel_names": ["a"]}, "Expected 3 channel_names, but got 1"),
        ({"times": [1]}, "Expected 4 times, but got 1"),
        ({"task": "ranking"}, "Expected task to be one of"),
        ({"scores": np.zeros((2, 4, 2))}, "Expected scores of shape"),
        ({"lengths": [1, 2, 3]}, "Expected lengths of shape"),
        ({"predictions": [1.0]}, "Expected predictions of shape"),
        ({"per_step": True, "predictions": [1.0, 2.0]}, "Expected predictions of shape"),
        ({"metrics": {"area": [0.1]}}, "Expected metric 'area' of shape"),
        ({"profile": np.zeros((3, 4))}, "Expected profile of shape"),
        ({"errors": np.zeros((2, 5))}, "Expected curves"),
        ({"errors": np.zeros((2, 5)), "curves": Curves(areas=[0.1])}, "Expected errors of shape"),
    ],
)
def test_report_refuses_arrays_that_do_not_fit(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(MASKS, **fields)


def test_report_refuses_masks_of_another_rank() -> None:
    with pytest.raises(ValueError, match="Expected masks of shape"):
        replace(small(MASKS), masks=np.zeros((2, 4)))


def test_curves_refuse_lines_of_another_length() -> None:
    with pytest.raises(ValueError, match="Expected curve 'ce' of shape"):
        Curves(areas=[0.1, 0.2], values={"ce": [1.0]})


def test_drift_refuses_unknown_verdicts_and_other_channels() -> None:
    shares: dict[str, Any] = {
        "reference_by_channel": np.zeros(3),
        "current_by_channel": np.zeros(3),
        "reference_by_time": np.zeros(4),
        "current_by_time": np.zeros(4),
    }
    with pytest.raises(ValueError, match="Expected verdict"):
        DriftData(verdict="maybe", **shares)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="current_by_channel"):
        DriftData(verdict="ok", **{**shares, "current_by_channel": np.zeros(2)})
    with pytest.raises(ValueError, match=r"drift\.reference_by_channel"):
        small(np.zeros((2, 4, 5)), drift=DriftData(verdict="ok", **shares))


def test_answers_about_padding_are_left_out_of_a_series() -> None:
    y = np.array([[1.0, 1.0, 9.0, 9.0], [2.0, 2.0, 2.0, 2.0]])
    data = small(MASKS, "regression", per_step=True, predictions=y, lengths=[2, 4])
    outputs = describe_predictions(data.predictions, data)
    assert outputs is not None
    assert outputs.value is not None
    assert outputs.value.tolist() == [1.0, 2.0]
    assert outputs.series is not None
    assert np.isnan(outputs.series[0, 2:]).all()

"""Arrays as a dataset for audits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynamask_mlflow.data import DataError, StayDataset, dataset_from_arrays

X = np.random.default_rng(0).normal(size=(4, 5, 2)).astype(np.float32)
BEGAN = np.array(
    ["2026-01-31T23:00", "2026-02-01T00:00", "2026-02-28T01:00", "2026-03-01T00:00"], dtype="datetime64[s]"
)


def test_arrays_are_kept_as_they_are_through_a_folder(tmp_path: Path) -> None:
    names = {"ids": ["a", "b", "c", "d"], "groups": [1, 1, 2, 2], "attributes": {"line": ["A", "A", "B", "B"]}}
    made = dataset_from_arrays(X, began=BEGAN, channel_names=["p", "q"], labels=[0, 1, np.nan, 1], names=names)
    made.save(tmp_path / "cycles")
    read = StayDataset.load(tmp_path / "cycles")
    np.testing.assert_array_equal(read.x, X)
    np.testing.assert_array_equal(read.labels, np.array([0, 1, np.nan, 1], np.float32))
    assert read.windows.tolist() == ["2026-01", "2026-02", "2026-02", "2026-03"]
    assert read.patient_ids.tolist() == [1, 1, 2, 2]
    assert read.attributes["line"].tolist() == ["A", "A", "B", "B"]
    assert read.digest == made.digest
    assert len(read.part("test")) == 4
    np.testing.assert_array_equal(read.preprocessing.apply(X.copy(), np.ones(X.shape, bool)), X)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": X[0]}, r"Expected finite x of shape \(N, T, d\)"),
        ({"x": X * np.nan}, "Expected finite x"),
        ({"began": BEGAN[:2]}, r"Expected began of shape \(4,\), but got \(2,\)"),
        ({"channel_names": ["p"]}, "Expected 2 channel_names, but got 1"),
        ({"times": [0]}, "Expected 5 times, but got 1"),
        ({"labels": [1]}, "Expected labels of shape"),
        ({"observed": np.ones((4, 5))}, "Expected observed of shape"),
        ({"names": {"ids": ["a", "a", "b", "c"]}}, "Expected unique ids"),
        ({"names": {"machines": [1, 2, 3, 4]}}, "Expected names of ids, groups, attributes, but got machines"),
    ],
)
def test_what_does_not_fit_is_told(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        dataset_from_arrays(**{"x": X, "began": BEGAN, "channel_names": ["p", "q"], **given})

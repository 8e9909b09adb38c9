from __future__ import annotations

import numpy as np
import pytest

from dynamask_mlflow.evaluation.explain_and_score import isolate


def test_bad_rows_are_singled_out_and_the_others_keep_their_order() -> None:
    def job(rows: np.ndarray) -> list[int]:
        if {3, 8} & set(rows.tolist()):
            raise ValueError("bad row")
        return (10 * rows).tolist()

    done = isolate(job, np.arange(10))
    assert [value for _, part in done.parts for value in part] == [0, 10, 20, 40, 50, 60, 70, 90]
    assert done.rows.tolist() == [0, 1, 2, 4, 5, 6, 7, 9]
    assert sorted(done.failures) == [3, 8]


def test_a_healthy_batch_is_run_once() -> None:
    calls = []
    isolate(lambda rows: calls.append(len(rows)), np.arange(7))
    assert calls == [7]


def test_if_all_fail_the_first_error_is_raised() -> None:
    def job(rows: np.ndarray) -> None:
        raise ValueError(f"row {rows[0]}")

    with pytest.raises(ValueError, match="row 0"):
        isolate(job, np.arange(3))


def test_an_interrupt_is_not_swallowed() -> None:
    def job(rows: np.ndarray) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        isolate(job, np.arange(3))

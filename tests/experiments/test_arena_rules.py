"""Masks that a rule makes of any scores, without the truth."""

import numpy as np
import pytest

from dynamask_mlflow.experiments.arena import scoring
from dynamask_mlflow.experiments.arena.run import Results, chosen_rows


def test_rules_make_masks_without_the_truth() -> None:
    # Scores 4, 2, 1, 1 of which the first two are salient; the last cell does not exist.
    scores = np.array([[[4.0], [2.0], [1.0], [1.0], [-3.0], [9.0]]])
    truth = np.array([[[1], [1], [0], [0], [0], [1]]], dtype=bool)
    exists = np.array([[[1], [1], [1], [1], [1], [0]]], dtype=bool)
    by_rule = dict(zip(scoring.RULES, scoring.rule_f1(scores, truth, exists), strict=True))
    assert by_rule["size", 0.9] == pytest.approx(2 / 3)  # the first cell
    assert by_rule["size", 0.5] == 1  # the first two
    assert by_rule["size", 0.02] == pytest.approx(2 * 2 / 6)  # all above zero
    assert by_rule["mass", 0.5] == pytest.approx(2 / 3)  # 4 of 8
    assert by_rule["mass", 0.6] == 1  # 4 + 2 of 8
    assert by_rule["share", 0.002] == pytest.approx(2 / 3)  # at least one cell


def test_one_rule_is_the_best_over_all_rows() -> None:
    by_size, by_share = np.zeros(len(scoring.RULES)), np.zeros(len(scoring.RULES))
    by_size[3], by_share[3] = 0.4, 0.7
    by_size[5] = 0.9
    rows = ("linear-regression/white-box", "long/filter")
    outcomes = {(row, "ig"): [{"rule_f1": list(f1)}] for row, f1 in zip(rows, (by_size, by_share), strict=True)}
    results = Results(chosen_rows(rows), (100,), ("ig",), 1, outcomes, {})  # type: ignore[arg-type]
    rule, f1 = results.by_one_rule("ig")
    assert rule == "size 0.15"
    assert f1 == {rows[0]: 0.4, rows[1]: 0.7}

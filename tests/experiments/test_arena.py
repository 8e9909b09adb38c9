"""The arena: truth is where evidence was planted, parts and seeds are kept apart, and scores agree with hand values."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from dynamask_mlflow.cli.experiment import experiment
from dynamask_mlflow.experiments.arena import CHOOSING_SEEDS, REPORTED_SEEDS, ROWS, arena_case, models, scoring
from dynamask_mlflow.experiments.arena.coefficient_fit import Cells, cells_of, logistic_regression, weights_table
from dynamask_mlflow.experiments.arena.data import TEST, apart, draw_part, shared_stream
from dynamask_mlflow.experiments.arena.ig_readings import ig_readings, target
from dynamask_mlflow.experiments.arena.outcome import existing, judged
from dynamask_mlflow.experiments.arena.page import arena_page
from dynamask_mlflow.experiments.arena.rows import find_row
from dynamask_mlflow.experiments.arena.run import Results, chosen_rows, run_arena
from dynamask_mlflow.experiments.arena.tasks import TASKS
from dynamask_mlflow.experiments.protocol import Case
from dynamask_mlflow.masks.coefficients import WEIGHTS, CoefficientWeights
from dynamask_mlflow.masks.explain import explain
from dynamask_mlflow.masks.result import Masks

NAMES = sorted(TASKS)


# Generators


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_reproduces_a_part_and_parts_and_seeds_differ(name: str) -> None:
    task = TASKS[name]
    part = task.part(seed=3, n=12, part=TEST)
    again = task.part(seed=3, n=12, part=TEST)
    np.testing.assert_array_equal(part.x, again.x)
    np.testing.assert_array_equal(part.truth, again.truth)
    assert not np.array_equal(part.x, task.part(seed=3, n=12, part=0).x)
    assert not np.array_equal(part.x, task.part(seed=4, n=12, part=TEST).x)


@pytest.mark.parametrize("name", NAMES)
def test_a_part_has_the_stated_shapes_and_finite_values(name: str) -> None:
    part = TASKS[name].part(seed=0, n=12)
    assert part.x.dtype == np.float32
    assert part.truth.dtype == np.bool_
    assert part.truth.shape == part.x.shape
    assert np.isfinite(part.x).all()
    assert len(part.y) == len(part) == 12
    assert part.with_known_truth().any()
    if part.running is not None:
        assert part.running.shape == part.x.shape[:2]
        assert part.running.max() < 64  # the outputs of the auxiliary head


# What is planted grows with the strength; noise does not. So two strengths differ in planted cells and decoys alone.
@pytest.mark.parametrize(
    "name", ["freqshapes", "seqcomb-uv", "seqcomb-mv", "lowvar", "delayed-spike", "switch-feature"]
)
def test_without_decoys_strength_moves_the_salient_cells_alone(name: str) -> None:
    task = TASKS[name]
    weak, strong = (task.part(seed=1, n=40, strength=strength) for strength in (1.0, 2.0))
    np.testing.assert_array_equal(weak.truth, strong.truth)
    moved = weak.x != strong.x
    if name in ("switch-feature", "delayed-spike"):
        # There the state shows in the channels that do not drive the label, and spikes are everywhere.
        assert moved[weak.truth].mean() == (1.0 if name == "delayed-spike" else 0.0)
        return
    assert not moved[~weak.truth].any()
    assert moved[weak.truth].mean() > 0.9


@pytest.mark.parametrize("name", ["redundant", "xor", "long", "wide", "lengths", "level-shift", "two-of-three"])
def test_strength_moves_every_salient_cell(name: str) -> None:
    task = TASKS[name]
    weak, strong = (task.part(seed=1, n=24, strength=strength) for strength in (1.0, 3.0))
    np.testing.assert_array_equal(weak.truth, strong.truth)
    assert (weak.x != strong.x)[weak.truth].mean() > 0.98


def test_freqshapes_has_three_cells_a_spike_at_one_of_two_periods() -> None:
    part = TASKS["freqshapes"].part(seed=0, n=40)
    for i in range(len(part)):
        cells = np.flatnonzero(part.truth[i, :, 0])
        starts = cells[::3]
        assert set(np.diff(starts)) == {10 if part.y[i] % 2 == 0 else 17}
        middles = part.x[i, starts + 1, 0]
        assert (middles.mean() > 0) == (part.y[i] < 2)


def test_the_flat_window_is_at_the_mean() -> None:
    part = TASKS["flat"].part(seed=0, n=40)
    assert np.abs(part.x[part.truth]).max() < 0.3
    assert part.truth.any((1, 2)).tolist() == (part.y == 1).tolist()


def test_xor_explains_one_event_and_xor_both_explains_two() -> None:
    for name, events, label in (("xor", 1, 1), ("xor-both", 2, 0)):
        part = TASKS[name].part(seed=0, n=80)
        known = part.with_known_truth()
        assert set(part.truth[known].any(1).sum(1)) == {events}
        assert set(part.y[known]) == {label}


def test_parts_of_a_seed_share_the_channel_that_matters() -> None:
    parts = [TASKS["wide"].part(seed=5, n=10, part=number) for number in (0, 1)]
    used = [set(np.flatnonzero(part.truth.any((0, 1)))) for part in parts]
    assert used[0] == used[1]
    assert len(used[0]) == 1


@pytest.mark.parametrize("name", ["lengths", "lengths-zeros"])
def test_padding_is_zero_and_holds_no_salient_cell(name: str) -> None:
    part = TASKS[name].part(seed=0, n=20)
    assert part.lengths is not None
    padding = np.arange(part.x.shape[1])[None] >= part.lengths[:, None]
    assert not part.x[padding].any()
    assert not part.truth[padding].any()


def test_the_base_rate_of_the_risk_is_about_fifteen_per_cent() -> None:
    assert TASKS["risk"].part(seed=0, n=3000).y.mean() == pytest.approx(0.15, abs=0.02)


def test_delayed_labels_begin_two_steps_after_the_salient_spike() -> None:
    part = TASKS["delayed-spike"].part(seed=0, n=30)
    for i in np.flatnonzero(part.with_known_truth()):
        (spike,) = np.flatnonzero(part.truth[i, :, 0])
        assert part.y[i].tolist() == [0] * (spike + 2) + [1] * (80 - spike - 2)


def test_windows_do_not_overlap_and_keep_their_margin() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        windows = sorted(apart(rng, 40, [5, 9, 12], margin=2), key=lambda w: w.start)
        assert windows[0].start >= 2
        assert windows[-1].stop <= 38
        assert all(b.start - a.stop >= 2 for a, b in pairwise(windows))
    with pytest.raises(ValueError, match="Expected windows that fit"):
        apart(rng, 10, [6, 6])


def test_draw_part_gives_the_same_shared_stream_to_every_part() -> None:
    def draw(shared, rng, n, strength):  # type: ignore[no-untyped-def]
        return shared.random(), rng.random()

    first, second = (draw_part("t", draw, seed=1, n=1, part=part) for part in (0, 1))
    assert first[0] == second[0] == shared_stream("t", 1).random()  # type: ignore[index]
    assert first[1] != second[1]  # type: ignore[index]


# Rows and models


def test_rows_are_named_once_and_choosing_and_reported_seeds_differ() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert not set(CHOOSING_SEEDS) & set(REPORTED_SEEDS)
    assert {row.held_out for row in ROWS} == {True, False}
    for row in ROWS:
        assert row.task in TASKS or row.task.startswith(("motif-", "hospital-"))
    with pytest.raises(ValueError, match="Expected a row out of"):
        find_row("none/gru")


@pytest.mark.parametrize("row", ["long/filter", "wide/filter", "linear-regression/white-box", "product/white-box"])
def test_a_white_box_solves_its_task(row: str) -> None:
    case = arena_case(row, seed=2, instances=6)
    assert case.facts["accuracy"] > 0.99
    assert case.truth is not None
    assert len(case.x) == len(case.truth) == 6


def test_a_model_that_takes_zeros_for_padding_has_no_answer_to_nothing() -> None:
    model = models.AttentionModel(3, 4, 2, presence=False)
    assert torch.isnan(model(torch.zeros(1, 5, 3))).all()
    assert torch.isfinite(model(torch.ones(1, 5, 3))).all()
    padded = torch.cat([torch.ones(1, 5, 3), torch.zeros(1, 4, 3)], 1)
    assert models.AttentionModel(3, 4, 2, presence=True)(padded).shape == (1, 2)


# Integrated gradients


def test_readings_agree_with_captum() -> None:
    from captum.attr import IntegratedGradients

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    x = torch.randn(5, 6, 2)
    chosen = model(x).argmax(-1)
    readings = ig_readings(model, x.numpy(), "classification")
    assert list(readings) == [
        f"{baseline}-{sign}-{width}"
        for baseline in ("zero", "mean")
        for sign in ("signed", "absolute")
        for width in (0, 2)
    ]
    means = x.mean(1, keepdim=True).expand_as(x)
    for name, baseline in (("zero", torch.zeros_like(x)), ("mean", means)):
        theirs = IntegratedGradients(lambda z, classes: target(model(z), classes, "classification")).attribute(
            x, baselines=baseline, n_steps=40, method="riemann_middle", additional_forward_args=chosen
        )
        np.testing.assert_allclose(readings[f"{name}-signed-0"], theirs.detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(readings[f"{name}-absolute-0"], np.abs(readings[f"{name}-signed-0"]))


def test_the_target_is_the_chosen_logit_minus_the_mean_of_the_others() -> None:
    logits = torch.tensor([[3.0, 1.0, 0.0]])
    assert target(logits, torch.tensor([0]), "classification").item() == pytest.approx(2.5)
    single = torch.tensor([1.5, -1.0])
    assert target(single, torch.tensor([1, 0]), "classification").tolist() == [1.5, 1.0]
    assert target(single, torch.tensor([0, 0]), "regression").tolist() == [1.5, -1.0]
    steps = torch.tensor([[[0.0, 2.0], [1.0, 0.0]]])
    assert target(steps, torch.tensor([[1, 0]]), "classification").tolist() == [3.0]


def test_padding_gets_the_lowest_score() -> None:
    x = np.ones((1, 4, 1), dtype=np.float32)
    readings = ig_readings(lambda z: z.sum((1, 2)), x, "regression", lengths=np.array([2]))
    for scores in readings.values():
        assert scores[0, :2].min() > scores[0, 2:].max()


# Scores, by hand


def test_mask_scores_by_hand() -> None:
    truth = np.array([[[1], [1], [0], [0]]], dtype=bool)
    binary = np.array([[[1], [0], [1], [1]]], dtype=bool)
    scores = scoring.mask_scores(binary, truth)
    assert scores.precision.tolist() == [pytest.approx(1 / 3)]
    assert scores.recall.tolist() == [0.5]
    assert scores.f1.tolist() == [pytest.approx(0.4)]
    nothing = scoring.mask_scores(np.zeros_like(binary), truth)
    assert (nothing.precision[0], nothing.recall[0], nothing.f1[0]) == (0, 0, 0)
    outside = np.array([[[1], [1], [0], [1]]], dtype=bool)
    assert scoring.mask_scores(binary, truth, outside).precision.tolist() == [0.5]


def test_the_best_cut_is_one_share_for_the_whole_row() -> None:
    # Instance 0 has one salient cell, instance 1 three, both ranked perfectly, of four.
    scores = np.array([[[4.0], [3], [2], [1]], [[4.0], [3], [2], [1]]])
    truth = np.array([[[1], [0], [0], [0]], [[1], [1], [1], [0]]], dtype=bool)
    # F1 with k cells: 2 min(k, 1) / (k + 1) and 2 min(k, 3) / (k + 3).
    by_size = [(1 + 0.5) / 2, (2 / 3 + 4 / 5) / 2, (0.5 + 1) / 2, (2 / 5 + 6 / 7) / 2]
    np.testing.assert_allclose(scoring.cut_f1(scores, truth), by_size)


def test_cut_shares_go_from_one_cell_to_all() -> None:
    shares = scoring.cut_shares(1000)
    assert shares[0] == 1 / 1000
    assert shares[-1] == 1
    assert (np.diff(shares) > 0).all()


def test_calibration_error_by_hand() -> None:
    # Bin .9-1: two cells of .9 and 1, one salient. Bin .2-.3: two cells of .25, one salient. Below .05: left out.
    coefficients = np.array([[[0.9], [1.0], [0.25], [0.25], [0.04]]])
    truth = np.array([[[1], [0], [1], [0], [1]]], dtype=bool)
    assert scoring.calibration_error(coefficients, truth) == pytest.approx((abs(1.9 - 1) + abs(0.5 - 1)) / 4)
    both = scoring.pooled([scoring.calibration_bins(coefficients, truth)] * 2)
    assert both.error == pytest.approx(0.35)
    assert both.count.sum() == 8
    assert np.isnan(scoring.calibration_error(np.zeros((1, 2, 1)), np.ones((1, 2, 1), dtype=bool)))


def test_brier_is_one_for_a_mask_of_zeros_and_zero_for_the_truth() -> None:
    truth = np.array([[[1], [1], [0]]], dtype=bool)
    assert scoring.brier(np.zeros((1, 3, 1)), truth).tolist() == [1.0]
    assert scoring.brier(truth.astype(float), truth).tolist() == [0.0]
    assert scoring.brier(np.array([[[0.5], [1.0], [0.5]]]), truth).tolist() == [0.25]


def test_doubt_is_entropy_over_the_sum_of_coefficients() -> None:
    assert scoring.doubt(np.array([[[1.0], [0.0]], [[0.5], [0.5]]])).tolist() == [0.0, pytest.approx(2 * np.log(2))]


def test_perfect_masks_are_judged_perfect() -> None:
    case = arena_case("linear-regression/white-box", seed=0, instances=4)
    assert case.truth is not None
    found = judged(case, _masks(case.truth))
    assert np.mean(found["auprc"]) == np.mean(found["f1"]) == found["cut_f1"] == 1
    assert found["brier"] == [0.0] * 4
    assert found["size"] == [12] * 4


def test_padding_and_cells_that_do_not_count_are_left_out() -> None:
    x = np.zeros((1, 3, 1), dtype=np.float32)
    counted = np.array([[[True], [False], [True]]])
    case = Case(None, x, None, "classification", lengths=np.array([2]), counted=counted)
    assert existing(case)[0, :, 0].tolist() == [True, False, False]


# Running


def test_an_interrupted_run_resumes_and_the_page_tells_rows_methods_and_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    arguments = ["arena", "--rows", "linear-regression,long/filter", "--methods", "ig-best,ig,random"]
    arguments += ["--seeds", "100,", "--instances", "3", "--update", str(tmp_path / "page.md")]
    done = CliRunner().invoke(experiment, arguments)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    for word in ("linear-regression/white-box", "long/filter", "ig-best", "reserved for reporting", "--rows"):
        assert word in text
    kept = sorted(tmp_path.glob("arena-outcome-*.json"))
    assert len(kept) == 6
    before = [path.stat().st_mtime_ns for path in kept]
    assert CliRunner().invoke(experiment, arguments).exit_code == 0
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.glob("arena-outcome-*.json"))] == before


def test_a_method_that_fails_is_told_and_does_not_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    results = run_arena(["product"], ["unheard-of", "random"], [0], instances=2)
    assert [failure[1] for failure in results.failures()] == ["unheard-of"]
    assert "What failed" in arena_page(results, "command")
    assert np.isfinite(results.mean("product/white-box", "random", "auprc"))


def test_rows_can_be_named_by_task_and_family() -> None:
    assert [row.name for row in chosen_rows(["xor"])] == ["xor/cnn", "xor/gru", "xor-both/cnn"]
    assert chosen_rows(None) == ROWS
    with pytest.raises(ValueError, match="Expected a row out of"):
        chosen_rows(["nothing"])


def test_a_mean_over_rows_counts_rows_and_not_instances() -> None:
    rows = (find_row("xor/cnn"), find_row("xor/gru"))
    outcomes = {("xor/cnn", "m"): [{"auprc": [1.0, 1.0, 1.0]}], ("xor/gru", "m"): [{"auprc": [0.0]}]}
    results = Results(rows, (0,), ("m",), 3, outcomes, {})
    assert results.over_rows(rows, "m", "auprc") == 0.5


def _masks(truth: np.ndarray) -> Masks:  # type: ignore[type-arg]
    values = truth.astype(np.float32)
    n = len(values)
    return Masks(values, values, np.array([0.1]), np.zeros((n, 1)), np.full(n, 0.1))


# The fit of the coefficients' weights


def test_the_fit_finds_the_weights_by_which_truth_was_drawn() -> None:
    rng = np.random.default_rng(0)
    true = CoefficientWeights(2.0, -1.0, 1.5, -2.0)
    parts = []
    for number in (4000, 8000):
        features = np.c_[rng.normal(2, 2, number), rng.normal(-1, 1, number), rng.integers(0, 2, number)]
        logit = true.intercept + features @ np.array(true.of_features())
        salient = rng.random(number) < 1 / (1 + np.exp(-logit))
        parts.append(Cells(features, salient, np.full(number, 1 / salient.sum())))
    found = logistic_regression(parts)
    assert (found.intercept, *found.of_features()) == pytest.approx((2.0, -1.0, 1.5, -2.0), abs=0.2)
    assert weights_table(found)[1][2] == f"{WEIGHTS.intercept:.3f}"
    with pytest.raises(ValueError, match="one kind alone"):
        logistic_regression([Cells(parts[0].features, np.ones(4000, bool), parts[0].weights)])


def test_the_cells_of_a_case_are_those_that_the_model_reads_with_the_features_of_their_coefficients() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        """Channel 0 counts, channel 1 a little, channel 2 not at all."""
        return 2 * x[:, 4:8, 0].sum(1) + 0.2 * x[:, :, 1].sum(1)

    x = np.random.default_rng(0).standard_normal((5, 12, 3)).astype(np.float32)
    truth = np.zeros(x.shape, dtype=np.bool_)
    truth[:, 4:8, 0] = True
    cells = cells_of(Case(model=model, x=x, truth=truth, task="regression"), seed=0)
    assert cells.features.shape == (5 * (4 + 12), 3)
    assert cells.salient.sum() == 20
    masks = explain(model, x, task="regression", progress=False)
    logit = WEIGHTS.intercept + cells.features @ np.array(WEIGHTS.of_features())
    read = masks.masks[masks.masks > 0]
    np.testing.assert_allclose(np.sort(1 / (1 + np.exp(-logit))), np.sort(read), rtol=1e-3)


def test_salient_cells_that_count_as_unread_do_not_raise_the_weight_of_the_others() -> None:
    """Half of what is called salient here is in a channel that the model does not read."""
    x = np.random.default_rng(0).standard_normal((4, 12, 2)).astype(np.float32)
    truth = np.zeros(x.shape, dtype=np.bool_)
    truth[:, 4:8] = True
    cells = cells_of(Case(model=lambda x: x[:, 4:8, 0].sum(1), x=x, truth=truth, task="regression"), seed=0)
    assert cells.salient.sum() == 16
    np.testing.assert_allclose(cells.weights, 1 / 32)


def test_coefficients_are_never_fitted_to_held_out_rows() -> None:
    result = CliRunner().invoke(experiment, ["coefficients", "--rows", "many-channels"])
    assert result.exit_code == 1
    assert "Expected rows that are not held out" in result.output

"""Small formulas of the engine, each worked out by hand on a few numbers."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dynamask_mlflow.masks import black_box
from dynamask_mlflow.masks.change.contributions import _integrate
from dynamask_mlflow.masks.change_ranking import _movement, change_ranking
from dynamask_mlflow.masks.channel_statistics import background_spread, robust_spread, time_median, windowed_mean
from dynamask_mlflow.masks.coefficients import best_cut
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.explain import _check, explain
from dynamask_mlflow.masks.forward_answer import _fixed_passes, scaled_to
from dynamask_mlflow.masks.forward_only import _OTHER, _is_array, are_labels, classes_of
from dynamask_mlflow.masks.forward_search import Segment, _Tree
from dynamask_mlflow.masks.mask_size import size_curves
from dynamask_mlflow.masks.model_call import _called, _warn_of_unused
from dynamask_mlflow.masks.objective import Discrepancy
from dynamask_mlflow.masks.path_attribution import gauss_legendre
from dynamask_mlflow.masks.ranking import Order
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.masks.segment_occlusion import _channels
from dynamask_mlflow.masks.side_inputs import SideInputs, check_extras, durations_of, gaps_between, left_after_removal
from dynamask_mlflow.masks.smoothing import explained_by_neighbours, persists_in_time, smooth_in_time


def series(*values: float) -> torch.Tensor:
    return torch.tensor(values)[None, :, None]


def test_what_neighbours_explain_of_four_steps() -> None:
    """Each cell beside the mean of the three others, and beside the Gaussian average of its neighbours."""
    values, width = [1.0, 2.0, 4.0, 3.0], 1.0
    by_mean = by_neighbours = 0.0
    for t, value in enumerate(values):
        others = [u for u in range(4) if u != t]
        weights = [math.exp(-0.5 * ((u - t) / width) ** 2) for u in others]
        by_mean += (value - sum(values[u] for u in others) / 3) ** 2
        near = sum(w * values[u] for w, u in zip(weights, others, strict=True)) / sum(weights)
        by_neighbours += (value - near) ** 2
    found = explained_by_neighbours(series(*values), (width,))
    assert found.item() == pytest.approx(1 - by_neighbours / by_mean, rel=1e-5)


def test_a_gaussian_average_of_three_steps() -> None:
    w = math.exp(-0.5 / 4)
    v = math.exp(-0.5)
    found = smooth_in_time(series(1.0, 2.0, 6.0), 2.0)[0, :, 0].tolist()
    assert found == pytest.approx(
        [(1 + 2 * w + 6 * v) / (1 + w + v), (w + 2 + 6 * w) / (1 + 2 * w), (v + 2 * w + 6) / (1 + w + v)], rel=1e-5
    )


def test_a_series_that_persists_by_a_little_and_one_that_does_not() -> None:
    """Inner cells 2, 3 of 1, 2, 3, 3: between neighbours 2, 2.5 (error .25), the mean 2.25 (error .0625 + .5625)."""
    assert persists_in_time(series(1.0, 2.0, 3.0, 3.0)).item()
    assert not persists_in_time(series(1.0, 3.0, 1.0, 3.0)).item()
    # Inner cells 0, 1 of 1, 0, 1, 1: between neighbours 1, .5 (error 1.25), the mean .75 (error .625).
    assert not persists_in_time(series(1.0, 0.0, 1.0, 1.0)).item()


def test_halves_and_the_middle_of_a_segment() -> None:
    assert Segment(0, 3, 0, 8).halves() == [Segment(0, 1, 0, 8), Segment(1, 3, 0, 8)]
    assert Segment(2, 3, 1, 8).halves() == [Segment(2, 3, 1, 4), Segment(2, 3, 4, 8)]
    assert Segment(2, 3, 4, 5).halves() == []
    assert Segment(2, 3, 4, 8).middle() == [Segment(2, 3, 5, 7)]
    assert Segment(2, 3, 4, 7).middle() == []
    assert Segment(2, 4, 0, 8).middle() == []
    assert Segment(1, 3, 2, 7).cells == 10


def test_the_share_of_a_segment_belongs_to_its_cells_that_exist() -> None:
    tree = _Tree(np.array([[True, True], [False, True]]), 0, 0.25)
    tree.note(Segment(0, 2, 0, 2), 6.0, 6.0)
    tree.note(Segment(0, 1, 0, 2), 3.0, 3.0)
    assert tree.finest()[0].tolist() == [[3.0, 2.0], [0.0, 2.0]]
    assert tree.density()[:, 1].tolist() == [2.0, 2.0]
    assert tree.density()[0, 0] == 2.0 + 3.0
    # Kept 4 and lost -2 are 1 together and cancel 2 more, half of which counts; against the departure a quarter does.
    tree.note(Segment(1, 2, 0, 2), 4.0, -2.0)
    tree.note(Segment(1, 2, 0, 1), -2.0, -2.0)
    assert [(share, size) for _, share, size in tree.tried[2:]] == [(1.0, 1.0 + 0.5 * 2.0), (-2.0, 0.25 * 2.0)]


def test_gaps_since_the_last_measurement_and_back() -> None:
    observed = series(1.0, 0.0, 0.0, 1.0, 0.0)
    assert gaps_between(observed).flatten().tolist() == [0, 1, 2, 3, 1]
    durations = series(9.0, 2.0, 3.0, 4.0, 5.0)
    gaps = gaps_between(observed, durations)
    assert gaps.flatten().tolist() == [0, 2, 5, 9, 5]
    assert durations_of(gaps, observed).flatten().tolist() == [0, 2, 3, 4, 5]
    assert gaps_between(series(1.0, 0.5, 1.0)).flatten().tolist() == [0, 1, 1.5]


def test_what_is_left_after_cells_are_removed() -> None:
    x = series(5.0, 5.0, 7.0, 7.0)
    observed = series(1.0, 0.0, 1.0, 0.0)
    gone = series(1.0, 1.0, 0.0, 1.0)
    # The third value falls back to the one before it, and the fourth, which carried it on, with it.
    assert left_after_removal(x, gone, observed).flatten().tolist() == [5, 5, 5, 5]
    assert left_after_removal(x, series(1.0, 1.0, 0.5, 1.0), observed).flatten().tolist() == [5, 5, 6, 6]
    assert left_after_removal(x, torch.ones_like(x), observed).flatten().tolist() == [5, 5, 7, 7]
    # Where gaps are zero, what is gone is zero.
    assert left_after_removal(
        series(5.0, 0.0, 7.0), series(1.0, 1.0, 0.5), series(1.0, 0.0, 1.0)
    ).flatten().tolist() == [
        5,
        0,
        3.5,
    ]
    # All was measured: no zero means a gap.
    assert left_after_removal(series(5.0, 0.0), series(1.0, 0.0), series(1.0, 1.0)).flatten().tolist() == [5, 5]


def test_side_inputs_of_rows_by_hand() -> None:
    observed = np.array([[[True, False], [False, True], [True, True]]])
    side = SideInputs(np.array([2]), observed, {"age": np.array([[61.0]], dtype=np.float32)})
    rows = torch.tensor([0, 1])  # asked twice about one instance
    taken = {name: side.take(name, rows, (3, 2)) for name in ("lengths", "valid", "padding_mask", "attention_mask")}
    assert taken["lengths"].tolist() == [2, 2]
    assert taken["attention_mask"].tolist() == [[1, 1, 0]] * 2
    assert taken["padding_mask"].tolist() == [[False, False, True]] * 2
    assert side.take("gaps", rows, (3, 2))[0].tolist() == [[0, 0], [1, 1], [2, 1]]
    assert side.take("age", rows, (3, 2)).tolist() == [[61.0], [61.0]]
    assert SideInputs(None, None, {}).take("lengths", rows, (3, 2)).tolist() == [3, 3]
    assert SideInputs(None, None, {}).take("observed", rows, (3, 2)).all()


def test_the_cut_of_greatest_expected_f1() -> None:
    """Sums .9, 1.7, 2.0, 2.1: 2 * .9 / 3.1 = .58, 3.4 / 4.1 = .83, 4.0 / 5.1 = .78, 4.2 / 6.1 = .69: two cells."""
    assert best_cut(torch.tensor([[[0.9, 0.3], [0.8, 0.1]]])).tolist() == [[[1, 0], [1, 0]]]
    # .5, .3, .3: 1.0 / 2.1 = .476, 1.6 / 3.1 = .516, 2.2 / 4.1 = .537: all of them.
    assert best_cut(torch.tensor([[[0.5, 0.3], [0.3, 0.0]]])).tolist() == [[[1, 1], [1, 0]]]


def test_cells_for_the_answer_go_first_only_where_its_class_is_sure() -> None:
    """Ten cells, of which the first one alone is looked at: by size it is -3, in the order of deletion +2."""
    attributions = np.zeros((2, 10, 1), dtype=np.float32)
    attributions[:, 0], attributions[:, 1], attributions[:, 2] = -3.0, 2.0, 1.0
    deletion = attributions.copy()
    found = change_ranking(attributions, deletion, np.array([6.0, 0.0]))
    assert np.argsort(-found[0, :, 0])[:3].tolist() == [1, 2, 0]
    assert np.argsort(-found[1, :, 0])[:3].tolist() == [0, 1, 2]
    assert sorted(found[0].ravel().tolist()) == pytest.approx([k / 10 for k in range(1, 11)])
    assert np.argsort(-change_ranking(attributions, deletion)[0, :, 0])[:3].tolist() == [0, 1, 2]


def test_which_answers_are_labels() -> None:
    assert are_labels(np.array(["a", "b"]))
    assert are_labels(np.array([0.0, 2.0]))
    assert not are_labels(np.array([0.0, 0.5]))
    assert not are_labels(np.array([[0.0, 1.0]]))
    assert not are_labels(np.array([0.0, np.nan]))


def test_which_answers_are_arrays() -> None:
    assert _is_array([0.1, 0.9])
    assert _is_array(np.array(["a"]))
    for other in (None, torch.ones(2), {"p": 1}, "label", 0.5):
        assert not _is_array(other)


def test_a_further_input_may_be_one_number_an_instance() -> None:
    assert check_extras({"ward": np.array([3, 4])}, 2)["ward"].tolist() == [3, 4]
    for values in (np.array([3, 4, 5]), np.float64(3.0)):
        with pytest.raises(ValueError, match="numbers for 2 instances"):
            check_extras({"ward": values}, 2)


def test_median_and_spreads_of_five_steps() -> None:
    """Median 12 of 10, 11, 12, 14, 20; distances from it 2, 1, 0, 2, 8: median 2, upper quartile 2."""
    x = series(14.0, 10.0, 12.0, 20.0, 11.0)
    for found, factor in ((robust_spread(x, None), 1.4826), (background_spread(x, None), 0.8693)):
        assert [part.item() for part in found] == pytest.approx([12, factor * 2])
    # Without 20 and 14: median 11 of 10, 11, 12, distances 1, 0, 1, their lower median 1.
    exists = series(0.0, 1.0, 1.0, 0.0, 1.0).bool()
    assert [part.item() for part in robust_spread(x, exists)] == pytest.approx([11, 1.4826])
    assert time_median(x, torch.zeros_like(x, dtype=torch.bool)).item() == 0
    # Of 0 to 4 the distances from the median are 0, 1, 1, 2, 2: the upper quartile is the fourth of them.
    assert background_spread(series(0.0, 1.0, 2.0, 3.0, 4.0), None)[1].item() == pytest.approx(0.8693 * 2)


def test_means_of_windows_that_reach_over_the_ends() -> None:
    x, weights = series(1.0, 3.0, 8.0, 4.0), series(1.0, 1.0, 0.0, 1.0)
    assert windowed_mean(x, torch.ones_like(x), 1, 1).flatten().tolist() == pytest.approx([2, 4, 5, 6])
    assert windowed_mean(x, weights, 1, 0).flatten().tolist() == pytest.approx([1, 2, 3, 4])
    assert windowed_mean(x, weights, 0, 0).flatten().tolist() == pytest.approx([1, 3, 8, 4])


def test_contributions_are_scaled_to_a_sum_without_turning_a_sign() -> None:
    cells = torch.tensor([[[0.5, 0.0]], [[0.0, -0.5]], [[0.5, -0.5]], [[0.5, 0.0]], [[0.0, -0.5]], [[4.0, -1.0]]])
    wanted = torch.tensor([0.3, -0.3, 0.0, -0.3, 0.0, 3.0])
    scaled, possible = scaled_to(cells, wanted, torch.ones(6, 1, 2))
    assert possible.tolist() == [True, True, True, False, False, True]
    assert scaled.sum((1, 2)).tolist() == pytest.approx(wanted.tolist(), abs=1e-6)
    # 4 s - 1 / s = 3 at s = 1.
    assert scaled[5].flatten().tolist() == pytest.approx([4, -1])


def test_a_gaussian_average_with_nothing_beyond_the_ends_and_a_missing_cell() -> None:
    """Of the last cell neither value nor weight counts; what lies beyond the ends counts as 0."""
    w, v = math.exp(-0.5 / 4), math.exp(-0.5)
    exists = torch.tensor([True, True, False])[None, :, None]
    found = smooth_in_time(series(1.0, 2.0, 6.0), 2.0, exists, ends=True)[0, :2, 0].tolist()
    every = 1 + 2 * w + 2 * v
    assert found == pytest.approx([(1 + 2 * w) / (every - v), (w + 2) / (every - w)], rel=1e-5)


def test_a_lowered_answer_of_one_step_is_lowered() -> None:
    x = np.full((1, 4, 2), 2.0, dtype=np.float32)
    asked = {"task": "regression", "target": "step:2", "operators": ("zero",), "progress": False}
    assert explain(lambda z: -z[..., 0], x, **asked).direction.tolist() == [-1]
    assert explain(lambda z: z[..., 0], x, **asked).direction.tolist() == [1]


def test_what_neighbours_explain_does_not_depend_on_the_unit() -> None:
    small = explained_by_neighbours(series(1.0, 2.0, 4.0, 3.0) / 1000, (1.0,))
    assert small.item() == pytest.approx(explained_by_neighbours(series(1.0, 2.0, 4.0, 3.0), (1.0,)).item(), rel=1e-4)


def test_the_median_of_the_only_cell_that_exists() -> None:
    exists = torch.tensor([True, False, False])[None, :, None]
    assert time_median(series(5.0, 7.0, 8.0), exists).item() == 5.0
    assert time_median(series(5.0, 7.0, 8.0), torch.zeros_like(exists)).item() == 0.0


def test_the_passes_that_are_not_the_search_s() -> None:
    """Curves of 12 cells have the sizes 1, 4 and 12, of which the last is known; at most two baselines have curves."""

    def passes(baselines: int, *, even: bool = False, noise: bool = True) -> int:
        departure: Any = SimpleNamespace(perturbations=(None,) * baselines, even=even)
        return _fixed_passes(departure, 12, noise=noise)

    assert passes(2) == 1 + 2 * 3 + 2 * 2 * 2
    assert passes(2, noise=False) == passes(2, even=True) == 1 + 2 + 2 * 2 * 2
    assert passes(3, noise=False) == 1 + 3 + 2 * 2 * 2
    assert passes(1, noise=False) == 1 + 1 + 2 * 1 * 2


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([1, 1], [0, 1]), ([0], [0, 1]), ([0, 2], [0, 2]), ([2], [2, _OTHER]), ([True], [False, True])],
)
def test_the_classes_of_a_model_that_answers_with_labels(labels: list[Any], classes: list[Any]) -> None:
    assert classes_of(np.array(labels)) == classes


def test_squared_differences_of_probabilities_at_two_times() -> None:
    """Two classes with logits (ln 3, 0) have .75 and .25, with (0, 0) a half each: a difference of .25 in either."""
    even, sure = [0.0, 0.0], [math.log(3), 0.0]
    reference = torch.tensor([[even, even]])
    loss = Discrepancy(reference, "squared", True)
    assert loss(torch.tensor([[even, sure]])).tolist() == pytest.approx([2 * 0.25**2])
    weighted = Discrepancy(reference, "squared", True, torch.tensor([[1.0, 3.0]]))
    assert weighted(torch.tensor([[even, sure]])).tolist() == pytest.approx([3 * 2 * 0.25**2])


def test_what_an_integral_misses_is_told_and_handed_out() -> None:
    """z^4 from 0 to 2 is 16; by its gradient 4 z^3 in the middle alone 4 * 2 = 8: half of it is missed."""
    before, after = torch.zeros(1, 1, 2), torch.tensor([[[2.0, 0.0]]])
    found = _integrate(lambda z: z.pow(4).flatten(1).sum(1), before, after, [gauss_legendre(1)], 0.01)
    assert found.remainder.tolist() == pytest.approx([0.5])
    assert found.cells.flatten().tolist() == pytest.approx([16.0, 0.0])
    exact = _integrate(lambda z: z.pow(4).flatten(1).sum(1), before, after, [gauss_legendre(2)], 0.01)
    assert exact.remainder.tolist() == pytest.approx([0.0], abs=1e-6)


@pytest.mark.parametrize(("strengths", "weight"), [((0.2, 0.6), 0.75), ((0.0, 0.0), 0.5), ((0.5, -1.0), 0.0)])
def test_the_curves_of_two_baselines_are_averaged_by_their_strength(
    strengths: tuple[float, float], weight: float
) -> None:
    """The first cell of four keeps .1 and loses .3 under one baseline, .5 and .7 under the other."""

    def departure(strength: float, kept: float, lost: float) -> Any:
        answers = torch.tensor([[kept]]), torch.tensor([[lost]])
        return SimpleNamespace(gap=torch.tensor([[strength]]), kept_and_lost=lambda alone, without: answers)

    order = Order.of(torch.tensor([[[4.0, 3.0], [2.0, 1.0]]]))
    curves = size_curves([departure(strengths[0], 0.1, 0.3), departure(strengths[1], 0.5, 0.7)], order)
    assert curves.sizes == (1, 4)
    assert curves.kept[:, 0].tolist() == pytest.approx([0.1 + 0.4 * weight, 1.0])
    assert curves.lost[:, 0].tolist() == pytest.approx([0.3 + 0.4 * weight, 1.0])


def test_only_a_model_of_keras_is_asked_for_its_call() -> None:
    class Plain:
        def call(self) -> None: ...

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x

    model = Plain()
    assert _called(model) is model


def test_what_the_model_is_not_given_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Flags of measured cells are left out in silence, unless the model has an argument that may be meant for them."""
    caplog.set_level(logging.WARNING)
    flags: Any = SimpleNamespace(given=lambda: ["observed"], extras={})
    further: Any = SimpleNamespace(given=lambda: ["age"], extras={"age": None})
    none: Any = SimpleNamespace(given=list, extras={})
    _warn_of_unused(flags, [], [], torch.nn.Identity())
    _warn_of_unused(none, [], ["mask"], torch.nn.Identity())
    assert not caplog.messages
    for _ in range(2):
        _warn_of_unused(flags, [], ["mask_by_hand"], torch.nn.Identity())
        _warn_of_unused(further, [], [], torch.nn.Identity())
    assert ["'observed'" in text for text in caplog.messages] == [True, False]


def test_labels_that_do_not_sum_to_one_are_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(black_box, "_said", set())
    probe = torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(0))
    assert black_box._gives_probabilities(lambda x: x.mean(1).softmax(-1), probe)
    assert not caplog.messages
    for _ in range(2):
        assert not black_box._gives_probabilities(lambda x: x.mean(1).sigmoid(), probe)
    assert len(caplog.messages) == 1


def test_the_learning_rate_of_the_paper_is_one() -> None:
    x = 0.1 * torch.randn(2, 4, 2, generator=torch.Generator().manual_seed(0)).numpy()
    asked = {"method": "paper", "task": "regression", "areas": (0.25,), "steps": 1, "progress": False}
    fitted = [explain(lambda z: z[:, 1:3, 0].sum(1), x, **asked, **more).masks for more in ({}, {"learning_rate": 1.0})]
    assert np.array_equal(*fitted)
    assert ((fitted[0] > 0) & (fitted[0] < 0.5)).all()


@pytest.mark.parametrize("broken", ["masks", "errors"])
def test_results_that_are_not_finite_are_refused(broken: str) -> None:
    arrays = {"masks": np.zeros((1, 2, 1), dtype=np.float32), "errors": np.zeros((1, 1))}
    about: dict[str, Any] = {"scores": np.zeros((1, 2, 1), dtype=np.float32), "areas": np.ones(1), "area": np.ones(1)}
    _check(Masks(**arrays, **about))
    arrays[broken] = np.full_like(arrays[broken], np.nan)
    with pytest.raises(ModelError, match="Expected finite masks"):
        _check(Masks(**arrays, **about))


def test_how_far_the_probability_goes_over_the_first_cells() -> None:
    """Twenty cells, of which two are looked at: from a score of 1 to -1 and back to 1, along the logistic curve."""
    signed, order = np.zeros((1, 20)), np.arange(20)[None]
    signed[0, :3] = 2.0, -2.0, 5.0
    there = 1 / (1 + math.exp(-1)) - 1 / (1 + math.exp(1))
    assert _movement(signed, order, np.array([1.0])).tolist() == pytest.approx([2 * there])


def test_the_channel_that_is_missed_most_is_sought_among_the_others() -> None:
    """Channel 1 is missed most of all, but is among the two of the largest gradients: the third is channel 4."""
    worth = torch.tensor([0.0, 10.0, 0.0, 0.0, 5.0, 1.0])

    def lost_without(groups: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack([group @ worth for group in groups])

    magnitude = torch.tensor([[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]])
    assert _channels(magnitude, lost_without, 3).tolist() == [[0, 1, 4]]
    assert _channels(magnitude[:, :3], lost_without, 3).tolist() == [[0, 1, 2]]

"""Models without gradients are explained by forward passes alone, within their budget."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
from floors import nature
from natures import quality
from white_boxes import CHANNELS, SEGMENT, STEPS, cells, gaussian, high_segment, latched

from dynamask_mlflow import Masks, explain
from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.masks import forward_answer
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.forward_answer import scaled_to
from dynamask_mlflow.masks.forward_search import Segment
from dynamask_mlflow.masks.predict import predict
from dynamask_mlflow.metrics import auprc


def hidden(model: Any) -> Any:
    """The model as a function of numpy arrays, which keeps its gradients to itself."""

    def answer(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = model(torch.from_numpy(x)).numpy()
        return found

    return answer


def explained(model: Any, x: Any, **options: Any) -> Masks:
    return explain(model, np.asarray(x), progress=False, **options)


@pytest.mark.parametrize("name", ["redundancy", "risk"])
def test_hiding_the_gradients_of_a_network_costs_at_most_a_tenth_of_the_ranking(name: str) -> None:
    case = nature(name)
    by_gradients = quality(case.explained(), case.truth).ranking
    blind = explained(hidden(case.model.eval()), case.x, **case.options)
    assert quality(blind, case.truth).ranking >= 0.9 * by_gradients
    assert set(blind.algorithm) == {"forward passes"}
    assert blind.diagnostics["forward_passes"].max() <= 300


def test_attributions_sum_to_the_departure_and_carry_its_sign() -> None:
    x = high_segment()
    for sign in (1, -1):
        masks = explained(hidden(lambda v, sign=sign: sign * latched(v)), x)
        departure = masks.diagnostics["answer"] - masks.diagnostics["reference_answer"]
        np.testing.assert_allclose(masks.attributions.sum((1, 2)), departure, rtol=1e-4)
        assert (masks.direction == sign).all()
        assert masks.binary[:, SEGMENT, 2].mean() > 0.8
        assert masks.binary[:, SEGMENT, 2].sum() > 0.7 * masks.binary.sum()


def two_events(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, 24, 3) of small noise, raised in channel 0 at steps 4 to 6 and channel 2 at steps 14 to 16; these cells."""
    x = 0.1 * np.random.default_rng(0).standard_normal((n, 24, 3)).astype(np.float32)
    truth = np.zeros(x.shape, dtype=np.bool_)
    truth[:, 4:7, 0] = truth[:, 14:17, 2] = True
    x[truth] += 2
    return x, truth


def test_evidence_that_works_only_together_and_speaks_against_the_answer_alone_is_found() -> None:
    """With both events 3, with one -9, with none 0: what each keeps alone and what is lost without it are opposite."""

    def answer(x: np.ndarray) -> np.ndarray:
        first, second = x[:, 4:7, 0].mean(1) / 2, x[:, 14:17, 2].mean(1) / 2
        value: np.ndarray = 3 * first * second - 9 * (first + second - 2 * first * second)
        return np.stack([np.zeros_like(value), value], 1)

    x, truth = two_events(6)
    masks = explained(answer, x, task="classification", operators="zero")
    assert np.mean(auprc(masks.scores, truth)) > 0.9
    assert masks.masks[truth].mean() > 0.5


def test_what_lowered_a_value_is_as_much_a_part_of_it_as_what_raised_it() -> None:
    x, truth = two_events(6)

    def answer(x: torch.Tensor) -> torch.Tensor:
        return 3 * x[:, 4:7, 0].sum(1) - 2 * x[:, 14:17, 2].sum(1) + 0.1 * x[:, :, 1].sum(1)

    masks = explained(hidden(answer), x, task="regression")
    assert np.mean(auprc(masks.scores, truth)) > 0.9
    assert (masks.attributions[:, 4:7, 0] > 0).all()
    assert (masks.attributions[:, 14:17, 2] < 0).all()


def test_a_sum_that_segments_missed_by_far_turns_the_sign_of_no_measured_cell() -> None:
    """Cells of both signs against sums of every size, and cells of one sign against a sum of the same."""
    drawn = torch.Generator().manual_seed(0)
    found = torch.randn((600, 5, 4), generator=drawn, dtype=torch.float64)
    found[200:400] = found[200:400].abs()
    found[torch.rand(found.shape, generator=drawn) < 0.3] = 0
    wanted = found.flatten(1).sum(1) * torch.logspace(-4, 4, 600, dtype=torch.float64)
    wanted[:200] *= torch.randn(200, generator=drawn, dtype=torch.float64).sign()
    scaled, possible = scaled_to(found, wanted, torch.rand(found.shape, generator=drawn, dtype=torch.float64))
    assert possible.all()
    torch.testing.assert_close(scaled.flatten(1).sum(1), wanted, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(scaled.sign(), found.sign())


def test_cells_that_sum_to_the_departure_already_are_left_as_measured() -> None:
    found = torch.randn((50, 3, 2), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scaled, _ = scaled_to(found, found.flatten(1).sum(1), torch.ones_like(found))
    torch.testing.assert_close(scaled, found)


def test_cells_that_all_speak_against_the_sum_leave_it_to_the_coefficients() -> None:
    found = -torch.tensor([[[3.0, 1.0]], [[0.0, 0.0]], [[-2.0, 0.0]]])
    chance = torch.tensor([[[0.75, 0.25]]]).expand(3, 1, 2)
    scaled, possible = scaled_to(found, torch.tensor([2.0, -2.0, -4.0]), chance)
    assert possible.tolist() == [False, False, False]
    assert scaled[:, 0].tolist() == [[1.5, 0.5], [-1.5, -0.5], [-3.0, -1.0]]


def test_signs_stay_as_measured_where_cells_do_most_only_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two segments that count only together, one of them speaking against the answer by itself, and a third one."""
    x = 0.1 * gaussian(4).numpy()
    for start, channel in ((4, 0), (12, 1), (8, 2)):
        x[:, start : start + 4, channel] += 3
    measured = []

    def watched(departure: Any, shares: torch.Tensor, chance: torch.Tensor) -> Any:
        measured.append(shares[: len(x)].numpy())
        return attributions(departure, shares, chance)

    attributions = forward_answer._attributions
    monkeypatch.setattr(forward_answer, "_attributions", watched)

    def answer(v: np.ndarray) -> np.ndarray:
        first, second, third = v[:, 4:8, 0].mean(1), v[:, 12:16, 1].mean(1), v[:, 8:12, 2].mean(1)
        return np.asarray(10.0 * ((first > 1) & (second > 1)) - first + 0.3 * third, dtype=np.float32)

    masks = explained(answer, x)
    departure = masks.diagnostics["answer"] - masks.diagnostics["reference_answer"]
    np.testing.assert_allclose(masks.attributions.sum((1, 2)), departure, rtol=1e-4)
    assert (measured[0] < 0).any((1, 2)).all()
    assert (measured[0] > 0).any((1, 2)).all()
    np.testing.assert_array_equal(np.sign(masks.attributions * masks.direction[:, None, None]), np.sign(measured[0]))


def test_either_of_two_segments_and_two_that_need_each_other_are_found() -> None:
    x = 0.1 * gaussian(4).numpy()
    x[:, 4:8, 0] += 3
    x[:, 20:24, 3] += 3
    truth = cells(torch.from_numpy(x), slice(4, 8), 0) | cells(torch.from_numpy(x), slice(20, 24), 3)
    for combine in (np.maximum, np.minimum):

        def model(v: np.ndarray, combine: Any = combine) -> np.ndarray:
            return np.asarray(combine(v[:, 4:8, 0].mean(1), v[:, 20:24, 3].mean(1)))

        masks = explained(model, x, task="regression")
        assert auprc(masks.scores, truth).min() > 0.95


def test_the_budget_is_kept_and_most_of_it_used() -> None:
    asked = []

    def model(v: np.ndarray) -> np.ndarray:
        asked.append(len(v))
        return np.asarray(v[:, SEGMENT, 2].mean(1))

    x = high_segment(8).numpy()
    masks = explained(model, x, task="regression", forward_budget=100)
    assert 90 < masks.diagnostics["forward_passes"].max() <= 100
    assert sum(asked) <= 100 * len(x) + 16  # a few rows to find out what the model is
    assert len(asked) < 60  # segments of all instances are asked together
    with pytest.raises(ConfigError, match="forward_budget of at least"):
        explained(model, x, task="regression", forward_budget=20)


def test_an_instance_does_not_feel_its_neighbours() -> None:
    x = high_segment(9).numpy()
    together = explained(hidden(latched), x)
    alone = explained(hidden(latched), x[3:4])
    np.testing.assert_array_equal(together.masks[3], alone.masks[0])
    np.testing.assert_array_equal(together.attributions[3], alone.attributions[0])


def test_padding_and_cells_that_are_not_read_are_never_salient() -> None:
    x = high_segment().numpy()
    masks = explained(hidden(latched), x, lengths=[25] * len(x))
    assert (masks.masks[:, 25:] == 0).all()
    assert (masks.attributions[:, 25:] == 0).all()
    assert (masks.masks[:, :, [0, 1, 3]] == 0).all()


def test_nothing_to_explain_costs_no_search() -> None:
    masks = explained(lambda v: np.zeros(len(v)), gaussian(3), task="regression")
    assert (masks.direction == 0).all()
    assert not masks.binary.any()
    assert masks.diagnostics["forward_passes"].max() < 60


@pytest.mark.parametrize("operators", [("blur:9",), ("neutral",), ("zero", "noise")])
def test_any_operator_may_perturb(operators: tuple[str, ...]) -> None:
    model = hidden(lambda v: v[:, SEGMENT, 2].mean(1))
    masks = explained(model, high_segment(), task="regression", operators=operators)
    assert auprc(masks.scores, cells(high_segment(), SEGMENT, 2)).mean() > 0.9


def test_reference_sequences_are_the_baselines() -> None:
    x = high_segment().numpy()
    masks = explained(hidden(latched), x, reference=0.3 * gaussian(20, seed=5).numpy())
    assert auprc(masks.scores, cells(high_segment(), SEGMENT, 2)).mean() > 0.9


@pytest.mark.parametrize("words", [False, True])
def test_labels_are_explained_with_a_warning(words: bool, caplog: pytest.LogCaptureFixture) -> None:
    names = np.array(["quiet", "high"]) if words else np.array([0, 1])
    x = high_segment().numpy()
    x[0] = 0.3 * gaussian(1, seed=7)[0].numpy()
    with caplog.at_level(logging.WARNING, logger="dynamask_mlflow"):
        masks = explained(lambda v: names[(v[:, SEGMENT, 2].mean(1) > 1).astype(int)], x)
    assert [record for record in caplog.records if "labels alone" in record.getMessage()]
    assert (masks.masks[1:] * cells(high_segment(5), SEGMENT, 2)).sum() > 0.7 * masks.masks[1:].sum()


def test_a_network_of_labels_is_explained_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="dynamask_mlflow"):
        masks = explain(lambda v: latched(v).argmax(-1), high_segment(), progress=False)
    assert "labels alone" in caplog.text
    assert set(masks.algorithm) == {"forward passes"}


def test_a_network_that_lost_its_gradients_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="dynamask_mlflow"):
        explain(lambda v: latched(v).detach(), high_segment(), progress=False)
    assert "carries no gradient" in caplog.text


@pytest.mark.parametrize("options", [{"method": "ig"}, {"method": "paper"}, {"deletion": True}])
def test_what_needs_gradients_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="carries no gradient"):
        explained(hidden(latched), high_segment(), **options)


@pytest.mark.parametrize("method", ["fo", "random", "forward"])
def test_methods_that_need_none_work(method: str) -> None:
    assert explained(hidden(latched), high_segment(), method=method).masks.shape == (6, STEPS, CHANNELS)


def test_windows_in_one_row_are_mapped_back() -> None:
    x = high_segment().numpy()

    def on_rows(rows: np.ndarray) -> np.ndarray:
        assert rows.ndim == 2
        return np.asarray(rows.reshape(-1, STEPS, CHANNELS)[:, SEGMENT, 2].mean(1))

    flat = explained(on_rows, x.reshape(len(x), -1), task="regression", shape=(STEPS, CHANNELS))
    assert flat.masks.shape == x.shape
    assert flat.binary[:, SEGMENT, 2].sum() > 0.8 * flat.binary.sum()
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, 30, 4\) or \(N, 120\)"):
        explained(on_rows, x.reshape(len(x), -1), task="regression", shape=(30, 4))
    network = torch.nn.Linear(STEPS * CHANNELS, 2)
    assert set(explained(network, x, shape=(STEPS, CHANNELS)).algorithm) <= {"gradients", "segments", "nested fit"}


def test_probabilities_of_a_numpy_function_are_read_as_such() -> None:
    x = gaussian(5).numpy()
    risk = predict(lambda v: 1 / (1 + np.exp(-v.mean((1, 2)))), x)
    np.testing.assert_allclose(risk[:, 1], 1 / (1 + np.exp(-x.mean((1, 2)))), rtol=1e-5)


def test_segments_are_halved_down_to_cells() -> None:
    whole = Segment(0, 3, 0, 5)
    assert [part.cells for part in whole.halves()] == [5, 10]
    assert whole.halves()[0].halves() == [Segment(0, 1, 0, 2), Segment(0, 1, 2, 5)]
    assert Segment(0, 1, 2, 3).halves() == []
    assert Segment(1, 2, 0, 8).middle() == [Segment(1, 2, 2, 6)]


def test_an_estimator_on_rows_is_explained_without_being_told_the_shape(caplog: pytest.LogCaptureFixture) -> None:
    from sklearn.linear_model import LogisticRegression

    x, truth = two_events(40)
    x[::2][truth[::2]] -= 2
    model = LogisticRegression().fit(x.reshape(40, -1), np.arange(40) % 2)
    with caplog.at_level(logging.WARNING):
        masks = explained(model, x[1:9:2])
    assert "rows of 72 numbers; they are given time by time, as shape=(24, 3)" in caplog.text
    told = explained(model, x[1:9:2], shape=(24, 3))
    np.testing.assert_array_equal(masks.masks, told.masks)

"""Models that take NaN where a cell was not measured: trees, networks and pipelines that fill by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow import explain
from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.evaluation.explain_and_score import Explainer
from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.predict import predict


class FillsInside(nn.Module):
    """Channel 1 where it was measured, and how often channel 2 was not."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, 1].nan_to_num().sum(1) + x[:, :, 2].isnan().float().sum(1)


class TakesTheMask(nn.Module):
    def forward(self, x: Tensor, observed: Tensor) -> Tensor:
        return FillsInside()(x.masked_fill(observed == 0, torch.nan))


@pytest.fixture
def x() -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    values = rng.normal(2, 1, size=(4, 8, 3)).astype(np.float32)
    values[rng.random(values.shape) < 0.4] = np.nan
    return values


def numbers(x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(FillsInside()(torch.as_tensor(x)))


def test_masks_are_those_of_the_same_model_with_a_mask(x: NDArray[np.float32]) -> None:
    filled = as_sequences(x)
    found = explain(FillsInside(), x, task="regression", progress=False)
    same = explain(TakesTheMask(), filled.x, observed=filled.observed, task="regression", progress=False)
    np.testing.assert_array_equal(found.masks, same.masks)
    np.testing.assert_array_equal(found.attributions, same.attributions)
    assert (found.masks[np.isnan(x)] == 0).all()
    assert (found.binary.sum((0, 1)) > 0).tolist() == [False, True, False]


@pytest.mark.parametrize("model", [FillsInside(), numbers])
def test_the_model_is_asked_with_nan_in_the_same_cells(model: Any, x: NDArray[np.float32]) -> None:
    asked: list[NDArray[Any]] = []

    def watched(batch: Any) -> Any:
        if len(batch) % len(x) == 0:
            asked.append(np.isnan(np.asarray(batch.detach() if isinstance(batch, Tensor) else batch)))
        return model(batch)

    explain(watched, x[:1].repeat(4, 0), task="regression", progress=False, forward_budget=50)
    assert len(asked) > 3
    assert all((found == np.isnan(x[0])).all() for found in asked)


def test_without_gradients_a_removed_cell_is_nan(x: NDArray[np.float32]) -> None:
    charted = np.where(np.isnan(x), np.nan, 1).astype(np.float32)
    found = explain(
        lambda batch: -np.isnan(batch[:, :, 2]).sum(1).astype(float),
        charted,
        task="regression",
        operators="missing",
        progress=False,
    )
    assert found.attributions is not None
    np.testing.assert_allclose(found.attributions.sum(1)[:, 2], (~np.isnan(x[:, :, 2])).sum(1), atol=1e-3)
    np.testing.assert_allclose(found.attributions.sum(1)[:, :2], 0, atol=1e-3)
    with pytest.raises(ConfigError, match="method='forward'"):
        explain(FillsInside(), x, task="regression", operators="missing", progress=False)


def test_what_was_carried_forward_stays_beside_nan(x: NDArray[np.float32]) -> None:
    x = np.nan_to_num(x, nan=1.0)
    x[:, 0] = np.nan
    observed = np.zeros(x.shape, dtype=bool)
    observed[:, 4:] = True
    given = as_sequences(x, observed=observed)
    np.testing.assert_array_equal(given.given_x, x)
    assert given.observed is not None
    np.testing.assert_array_equal(given.observed, observed)
    np.testing.assert_array_equal(predict(numbers, x, task="regression").ravel(), numbers(x))


def test_sequences_with_nan_are_saved_taken_and_predicted_as_they_are(x: NDArray[np.float32], tmp_path: Path) -> None:
    sequences = as_sequences(x, targets=numbers(x))
    assert np.isfinite(sequences.x).all()
    again = Sequences.load(sequences.save(tmp_path / "x.npz"))
    np.testing.assert_array_equal(again.given_x, x)
    assert again.digest() == sequences.digest()
    assert as_sequences(sequences.x).digest() != sequences.digest()
    some = sequences.take(np.array([2, 0]))
    np.testing.assert_array_equal(some.given_x, x[[2, 0]])
    explainer = Explainer(FillsInside(), "regression", ExplainConfig(progress=False))
    np.testing.assert_allclose(explainer.predict(some.x, some).ravel(), numbers(x[[2, 0]]), rtol=1e-6)
    masks = explainer.masks_of(some)
    np.testing.assert_array_equal(
        masks.masks, explain(FillsInside(), x[[2, 0]], task="regression", progress=False).masks
    )


def test_nan_in_the_padding_means_nothing(x: NDArray[np.float32]) -> None:
    padded = np.nan_to_num(x, nan=1.0)
    padded[:, 6:] = np.nan
    found = explain(FillsInside(), padded, lengths=[6] * 4, task="regression", progress=False)
    same = explain(FillsInside(), np.nan_to_num(padded), lengths=[6] * 4, task="regression", progress=False)
    np.testing.assert_array_equal(found.masks, same.masks)


def test_infinity_is_an_error() -> None:
    for take in (lambda x: as_sequences(x), lambda x: explain(FillsInside(), x, task="regression")):
        with pytest.raises(ValueError, match="infinite"):
            take(np.full((1, 4, 3), np.inf))

"""The state experiment: chain, emissions and labels are those of the appendix; models are cached."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dynamask_mlflow.experiments.state import (
    MEANS,
    StateSetting,
    held_out_accuracy,
    make_state,
    train_state_model,
)
from dynamask_mlflow.experiments.training import Training

SMALL = StateSetting(series=60, train=40, steps=40, hidden=16, training=Training(epochs=6, learning_rate=1e-2))


def test_states_stay_and_emit_as_stated() -> None:
    data = make_state(seed=0)
    assert data.x.shape == (1000, 200, 3)
    assert (data.states[:, 1:] == data.states[:, :-1]).mean() == pytest.approx(0.95, abs=0.005)
    for state in (0, 1):
        x = data.x[data.states == state]
        np.testing.assert_allclose(x.mean(axis=0), MEANS[state], atol=0.02)
        np.testing.assert_allclose(x.var(axis=0), 0.8, atol=0.02)


def test_exactly_one_feature_is_salient_and_the_label_obeys_it() -> None:
    data = make_state(seed=1)
    assert (data.truth.sum(axis=-1) == 1).all()
    np.testing.assert_array_equal(data.truth.argmax(axis=-1), 1 + data.states)
    salient = data.x[data.truth].reshape(data.y.shape)
    near = np.abs(salient - 1) < 0.1
    assert data.y[near].mean() == pytest.approx(1 / (1 + np.exp(-1)), abs=0.02)


def test_the_literal_transition_matrix_forgets_the_state() -> None:
    states = make_state(StateSetting(stay=None), seed=0).states
    assert states[:, 1:].mean() == pytest.approx(0.9, abs=0.01)
    after_zero = states[:, 1:][states[:, :-1] == 0]
    assert after_zero.mean() == pytest.approx(0.9, abs=0.01)


def test_a_model_is_trained_once_and_then_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    data = make_state(SMALL, seed=0)
    model = train_state_model(data, SMALL, seed=0)
    files = list(tmp_path.rglob("*.pt"))
    assert len(files) == 1
    stamp = files[0].stat().st_mtime_ns
    again = train_state_model(data, SMALL, seed=0)
    assert files[0].stat().st_mtime_ns == stamp
    x = torch.from_numpy(data.x[40:])
    assert model(x).shape == (20, 40, 2)
    torch.testing.assert_close(model(x), again(x))
    assert held_out_accuracy(model, data, SMALL) > 0.6
    train_state_model(data, SMALL, seed=1)
    assert len(list(tmp_path.rglob("*.pt"))) == 2


def test_a_damaged_cache_is_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    data = make_state(SMALL, seed=0)
    model = train_state_model(data, SMALL, seed=0)
    file = next(tmp_path.rglob("*.pt"))
    file.write_bytes(b"not a model")
    again = train_state_model(data, SMALL, seed=0)
    x = torch.from_numpy(data.x[:2])
    torch.testing.assert_close(model(x), again(x))


def test_training_leaves_the_global_generator_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    train_state_model(make_state(SMALL, seed=0), SMALL, seed=0)
    torch.testing.assert_close(torch.rand(1), expected)

"""The motif: truth marks the planted pattern, decoys balance the classes, and a model learns it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dynamask_mlflow.experiments.models import FAMILIES, build_model
from dynamask_mlflow.experiments.motif import MotifSetting, make_motif, patterns, relevant_channels
from dynamask_mlflow.experiments.motif_models import (
    MotifTraining,
    motif_accuracy,
    motif_test_data,
    train_motif_model,
)


@pytest.mark.parametrize("length", [3, 8, 20])
@pytest.mark.parametrize("shape", ["bump", "zigzag"])
def test_both_patterns_have_the_stated_energy(length: int, shape: str) -> None:
    for pattern in patterns(MotifSetting(length=length, shape=shape, strength=6.0)):  # type: ignore[arg-type]
        assert pattern.shape == (length,)
        assert (pattern**2).sum() == pytest.approx(36)


@pytest.mark.parametrize("planted", [1, 2])
def test_truth_marks_the_motif_in_channels_that_matter_and_only_in_class_one(planted: int) -> None:
    setting = MotifSetting(planted=planted, strength=200.0)
    data = make_motif(setting, seed=0, n=60)
    cells = data.truth.sum(axis=(1, 2))
    np.testing.assert_array_equal(cells, np.where(data.y == 1, planted * setting.length, 0))
    used = data.truth.any(axis=(0, 1)).nonzero()[0]
    assert set(used) == set(relevant_channels(setting, seed=0))
    level = setting.strength / np.sqrt(setting.length)
    assert np.abs(data.x[data.truth] - level).max() < 8  # the background has variance 1


def test_energy_and_event_counts_do_not_give_the_class_away() -> None:
    setting = MotifSetting(strength=50.0)
    data = make_motif(setting, seed=1, n=400)
    energy = (data.x**2).sum(axis=1)
    for channel in range(setting.channels):
        one, zero = energy[data.y == 1, channel], energy[data.y == 0, channel]
        assert abs(one.mean() - zero.mean()) < 4 * np.sqrt(one.var() / 200 + zero.var() / 200)


def test_parts_of_a_seed_differ_but_share_the_channels() -> None:
    setting = MotifSetting()
    assert not np.array_equal(make_motif(setting, seed=0, part=0).x, make_motif(setting, seed=0, part=1).x)
    np.testing.assert_array_equal(make_motif(setting, seed=0).x, make_motif(setting, seed=0).x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 2}, "length >= 3, but got 2"),
        ({"length": 40}, "steps >= 120"),
        ({"planted": 3}, "planted <= relevant"),
        ({"shape": "circle"}, "shape to be one of"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MotifSetting(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("per_step", [False, True])
def test_models_answer_once_or_at_every_step(family: str, per_step: bool) -> None:
    x = torch.randn(2, 30, 5)
    out = build_model(family, 5, 3, hidden=8, per_step=per_step)(x)
    assert out.shape == ((2, 30, 3) if per_step else (2, 3))


def test_an_unknown_family_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="gru, lstm, tcn, transformer, cnn, but got 'mlp'"):
        build_model("mlp", 5)


def test_a_tcn_step_does_not_see_the_future() -> None:
    model = build_model("tcn", 2, hidden=8, per_step=True)
    x = torch.randn(1, 20, 2)
    later = x.clone()
    later[:, 10:] += 1
    torch.testing.assert_close(model(x)[:, :10], model(later)[:, :10])


def test_a_trained_model_finds_the_motif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    setting = MotifSetting(steps=48, channels=6, length=6, strength=14.0, decoys=1)
    training = MotifTraining(hidden=32, stop_at=0.97)
    model = train_motif_model(setting, "tcn", seed=0, training=training)
    assert motif_accuracy(model, motif_test_data(setting, seed=0)) >= 0.95

"""The verb, through its public interface."""

import numpy as np
import pytest
import torch
from networks import Recurrent, sequences

from dynamask_mlflow import ExplainConfig, explain
from dynamask_mlflow.masks import batching
from dynamask_mlflow.masks.operators import Batch, fade_to

SALIENT = (slice(3, 7), 1)


def white_box(x: torch.Tensor) -> torch.Tensor:
    """Reads channel 1 at steps 3 to 6 only; one value a step."""
    weight = torch.zeros_like(x[0])
    weight[SALIENT] = 1
    return (x.square() * weight).sum(-1)


def truth(x: torch.Tensor) -> np.ndarray:
    cells = np.zeros(x.shape, dtype=bool)
    cells[(slice(None), *SALIENT)] = True
    return cells


def test_algorithm_1_finds_them_too() -> None:
    x = sequences(3, 20, 6)
    masks = explain(
        white_box,
        x,
        task="regression",
        method="paper",
        areas=(0.01, 0.02, 0.033),
        area="best",
        steps=200,
        progress=False,
    )
    found = masks.masks > 0.5
    assert (found & ~truth(x)).sum() == 0
    assert (found & truth(x)).mean(where=truth(x)) > 0.5
    assert masks.errors.shape == (3, 3)


@pytest.mark.parametrize("method", ["nested", "paper"])
def test_a_constant_model_lights_nothing_and_says_so(method: str) -> None:
    x = sequences(2)
    masks = explain(lambda z: 0 * z.sum((1, 2)) + 3, x, task="regression", method=method, steps=20, progress=False)
    assert (masks.masks > 0.5).sum() == 0
    assert masks.diagnostics["constant_prediction"].all()
    assert masks.diagnostics["dead_gradient"].all()


def noisy_at_every_step(x: torch.Tensor) -> torch.Tensor:
    return x[..., :2].cumsum(1)


def test_the_seed_decides_what_is_drawn() -> None:
    x = sequences(3, 8, 4)
    first, again, other = (explain(noisy_at_every_step, x, seed=s, steps=10, progress=False) for s in (0, 0, 1))
    assert np.array_equal(first.scores, again.scores)
    assert not np.array_equal(first.scores, other.scores)


def test_the_seed_draws_the_random_masks_and_nothing_else() -> None:
    x = sequences(3, 12, 4)
    model = Recurrent().eval()
    first, other = (explain(model, x, seed=s, progress=False) for s in (0, 1))
    assert not np.array_equal(first.masks, other.masks)
    np.testing.assert_allclose(first.masks, other.masks, atol=0.25)
    np.testing.assert_array_equal(first.attributions, other.attributions)


@pytest.mark.parametrize("method", ["nested", "paper"])
def test_padding_is_never_salient_and_changes_nothing(method: str) -> None:
    x = sequences(3, 12, 4)
    lengths = [12, 8, 5]
    exists = np.arange(12)[None, :, None] < np.array(lengths)[:, None, None]
    padded = x.clone()
    padded[~torch.from_numpy(exists).expand_as(x)] = 1e4

    def model(z: torch.Tensor) -> torch.Tensor:
        return (z.clamp(-5, 5) * (z.abs() < 100)).sum((1, 2))

    options = {"task": "regression", "lengths": lengths, "method": method, "steps": 30, "progress": False}
    masks = explain(model, padded, **options)
    assert (masks.masks[~np.broadcast_to(exists, x.shape)] == 0).all()
    assert (masks.masks.sum((1, 2)) <= 12 * 4).all()
    other = explain(model, padded.clamp(max=200), **options)
    np.testing.assert_allclose(masks.masks, other.masks, atol=1e-4)


@pytest.mark.parametrize("method", ["nested", "paper"])
@pytest.mark.parametrize("area", ["auto", "best", "extremal", 0.1])
def test_every_rule_of_area(method: str, area: float | str) -> None:
    x = sequences(2, 15, 4)
    areas = (0.05, 0.1, 0.3)
    masks = explain(white_box, x, task="regression", method=method, area=area, areas=areas, steps=60, progress=False)
    assert np.isin(masks.area.round(6), areas).all()
    if area == "extremal":
        for row, chosen in zip(masks.errors, masks.area, strict=True):
            reached = np.flatnonzero(row < 0.1)
            assert chosen == pytest.approx(areas[reached[0]] if len(reached) else areas[-1])


def test_every_loss_and_operator_can_be_asked_for() -> None:
    model, x = Recurrent(), sequences(2)
    for loss in ("squared", "cross_entropy", "log_loss", "logit", "margin"):
        assert np.isfinite(explain(model, x, loss=loss, steps=3, progress=False).masks).all()
    masks = explain(model, x, operators=["past_average:2", "zero"], steps=3, progress=False)
    assert masks.config["operators"] == ["past_average:2", "zero"]


def test_an_operator_of_ones_own() -> None:
    class FadeToMinusOne:
        spec, random = "minus_one", False

        def prepare(self, batch: Batch, step: int):  # type: ignore[no-untyped-def]
            return fade_to(batch.x, torch.full_like(batch.x, -1.0))

    x = sequences(2, 12, 4)
    masks = explain(white_box, x, task="regression", operators=[FadeToMinusOne()], progress=False)
    assert masks.config["operators"] == ["minus_one"]
    assert ((masks.masks > 0.5) & ~truth(x)).sum() == 0


def test_a_batch_that_runs_out_of_memory_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_MOST_ON_CPU", 8)
    seen: list[int] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(len(x))
        if len(x) > 4:
            raise RuntimeError("CUDA out of memory (pretended)")
        return x.sum((1, 2))

    masks = explain(model, sequences(8), task="regression", steps=2, progress=False)
    assert len(masks) == 8
    assert max(seen) > 8 >= 4 >= min(seen)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    x = sequences(1)
    with pytest.raises(ValueError, match=r"Unknown method 'nestd'\. Did you mean 'nested'"):
        explain(Recurrent(), x, method="nestd")
    with pytest.raises(ValueError, match=r"Unknown key 'sed'\. Did you mean 'seed'"):
        explain(Recurrent(), x, sed=1)
    with pytest.raises(ValueError, match=r"Expected areas in \(0, 1\], but got \(0.5, 1.5\)"):
        ExplainConfig(areas=(0.5, 1.5))
    with pytest.raises(ValueError, match="task"):
        explain(Recurrent(), x, task="ranking")
    with pytest.raises(ValueError, match="Expected 1 lengths"):
        explain(Recurrent(), x, lengths=[99])

"""The rare experiments: the white box reads its cells alone, and the data follow the stated process."""

import numpy as np
import pytest
import torch

from dynamask_mlflow.experiments.rare import RareSetting, arma_series, make_rare


@pytest.mark.parametrize("kind", ["feature", "time"])
def test_a_twentieth_of_the_cells_is_salient(kind: str) -> None:
    data = make_rare(RareSetting(kind=kind), seed=3, instances=2)  # type: ignore[arg-type]
    assert data.x.shape == (2, 50, 50)
    assert data.truth.sum() == 25 * 5
    times, channels = data.truth.any(axis=1).nonzero()[0], data.truth.any(axis=0).nonzero()[0]
    window, chosen = (times, channels) if kind == "feature" else (channels, times)
    assert window.tolist() == list(range(13, 38))
    assert len(chosen) == 5
    if kind == "time":
        assert np.diff(chosen).tolist() == [1] * 4


def test_the_white_box_is_the_papers_formula() -> None:
    data = make_rare(seed=0)
    out = data.model(torch.from_numpy(data.x)).numpy()[0]
    expected = [sum(data.x[0, t, i] ** 2 for i in range(50) if data.truth[t, i]) for t in range(50)]
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    other = data.x + np.where(data.truth, 0, 1).astype(np.float32)
    np.testing.assert_allclose(data.model(torch.from_numpy(other)).numpy()[0], out)


def test_the_process_has_the_texts_positive_coefficients() -> None:
    x = arma_series(np.random.default_rng(0), 1, 4000, 20, (0.25, 0.1, 0.05))[0]
    past = np.stack([x[3 - k : -k] for k in (1, 2, 3)], axis=-1).reshape(-1, 3)
    fitted = np.linalg.lstsq(past, x[3:].reshape(-1), rcond=None)[0]
    np.testing.assert_allclose(fitted, [0.25, 0.1, 0.05], atol=0.02)


def test_seeds_decide_everything() -> None:
    first, again, other = make_rare(seed=1), make_rare(seed=1), make_rare(seed=2)
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.truth, again.truth)
    assert not np.array_equal(first.truth, other.truth)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'feature' or 'time', but got 'both'"):
        RareSetting(kind="both")  # type: ignore[arg-type]

"""Behind `explain` every method gives masks for every family of models, does not feel its neighbours, or says
why not.
"""

import numpy as np
import pytest
import torch
from torch import nn

from dynamask_mlflow._method_table import SALIENCY_METHODS
from dynamask_mlflow.experiments.models import FAMILIES, build_model
from dynamask_mlflow.masks.explain import explain
from dynamask_mlflow.masks.registry import method_names
from dynamask_mlflow.saliency import background

QUICK = {"svs": 2, "lime": 20, "retain": 5, "extrmask": 5, "fit": 2, "ig": 5, "gs": 5, "afo": 2, "fp": 2}
FEELS_NEIGHBOURS = {"extrmask", "fit", "retain"}


def steps_of(method: str) -> int | None:
    return QUICK.get(method.split("_")[0])


@pytest.mark.parametrize("per_step", [False, True], ids=["one answer", "every step"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", SALIENCY_METHODS)
def test_every_method_explains_every_family(method: str, family: str, per_step: bool) -> None:
    torch.manual_seed(0)
    model = build_model(family, 2, 3, hidden=8, per_step=per_step)
    x = torch.randn(3, 5, 2)
    masks = explain(model, x, method=method, steps=steps_of(method), areas=(0.1, 0.5), progress=False)
    assert masks.masks.shape == masks.scores.shape == (3, 5, 2)
    assert masks.masks.min() >= 0
    assert masks.masks.max() <= 1
    assert np.isfinite(masks.scores).all()
    assert masks.errors.shape == (3, 2)
    if method != "extrmask":
        np.testing.assert_allclose(masks.masks.max(axis=(1, 2)), 1, atol=1e-6)


@pytest.mark.parametrize("method", [m for m in SALIENCY_METHODS if m not in FEELS_NEIGHBOURS])
def test_an_instance_does_not_feel_its_neighbours(method: str) -> None:
    torch.manual_seed(0)
    model = build_model("gru", 2, 2, hidden=8)
    x = torch.randn(4, 5, 2)
    options = {"method": method, "steps": steps_of(method), "progress": False}
    whole = explain(model, x, **options).scores
    order = [2, 0]
    np.testing.assert_allclose(explain(model, x[order], **options).scores, whole[order], atol=1e-5)


@pytest.mark.parametrize("method", sorted(FEELS_NEIGHBOURS - {"extrmask"}))
def test_with_reference_data_not_even_trained_methods_feel_them(method: str) -> None:
    torch.manual_seed(0)
    model = build_model("gru", 2, 2, hidden=8)
    x, reference = torch.randn(4, 5, 2), torch.randn(20, 5, 2)
    options = {"method": method, "steps": steps_of(method), "progress": False}
    with background(reference) as data:
        whole = explain(model, x, **options).scores
        part = explain(model, x[[3]], **options).scores
        assert len(data.memory) == 1  # trained once
    np.testing.assert_allclose(part, whole[[3]], atol=1e-5)


@pytest.mark.parametrize("method", [m for m in SALIENCY_METHODS if not m.endswith("_signed")])
def test_cells_that_do_not_exist_are_never_salient(method: str) -> None:
    torch.manual_seed(0)
    model = build_model("gru", 2, 2, hidden=8)
    x = torch.randn(2, 6, 2)
    masks = explain(model, x, lengths=[4, 6], method=method, steps=steps_of(method), progress=False)
    assert (masks.masks[0, 4:] == 0).all()
    assert masks.masks[1, 4:].any()


def test_a_given_area_gives_that_many_cells() -> None:
    x = torch.randn(2, 5, 2)
    masks = explain(lambda v: v.sum((1, 2)), x, task="regression", method="ig", area=0.3, progress=False)
    assert masks.masks.sum(axis=(1, 2)).tolist() == [3, 3]
    assert masks.area.tolist() == pytest.approx([0.3, 0.3])


def test_the_operator_is_the_baseline() -> None:
    x = 5 + torch.randn(1, 6, 2)
    model = lambda v: v.sum((1, 2))  # noqa: E731
    scores = explain(model, x, task="regression", method="ig_signed", operators=("time_mean",), progress=False).scores
    np.testing.assert_allclose(scores[0], (x - x.mean(1, keepdim=True))[0], atol=1e-4)


def test_the_matching_baseline_is_the_channels_mean_over_time() -> None:
    x = 5 + torch.randn(1, 6, 2)
    model = lambda v: (v[:, 2] - 3 * v[:, 4]).sum(1)  # noqa: E731
    options = {"task": "regression", "progress": False}
    weights = np.zeros((6, 1))
    weights[2], weights[4] = 1, -3
    expected = weights * (x - x.mean(1, keepdim=True))[0].numpy()
    np.testing.assert_allclose(explain(model, x, method="ig_mean_signed", **options).scores[0], expected, atol=1e-4)
    np.testing.assert_allclose(explain(model, x, method="ig_mean", **options).scores[0], abs(expected), atol=1e-4)


def test_the_error_falls_as_more_of_the_best_cells_are_kept() -> None:
    torch.manual_seed(0)
    weights = torch.rand(5, 4)
    model = lambda v: (v * weights).square().sum((1, 2))  # noqa: E731
    masks = explain(model, torch.randn(3, 5, 4), task="regression", method="ig", areas=(0.1, 0.5, 1.0), progress=False)
    assert (masks.errors[:, -1] < 1e-5).all()
    assert (masks.errors[:, 0] > masks.errors[:, -1]).all()


def test_a_constant_model_lights_nothing() -> None:
    class Constant(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0 * x.sum((1, 2)) + 1

    masks = explain(Constant(), torch.randn(2, 4, 3), task="regression", method="ig", progress=False)
    assert (masks.masks == 0).all()
    assert masks.diagnostics["dead_gradient"].all()


def test_the_global_generators_are_left_alone() -> None:
    x = torch.randn(2, 4, 2)
    model = build_model("gru", 2, 2, hidden=4)
    for method in ("gs", "svs", "lime", "afo", "fp", "random", "extrmask"):
        torch.manual_seed(7)
        np.random.seed(7)  # noqa: NPY002
        explain(model, x, method=method, steps=2, progress=False)
        drawn = torch.rand(1), np.random.rand()  # noqa: NPY002
        torch.manual_seed(7)
        np.random.seed(7)  # noqa: NPY002
        assert drawn == (torch.rand(1), np.random.rand()), method  # noqa: NPY002


def test_the_papers_names_are_known() -> None:
    names = {"fo", "afo", "fp", "ig", "gs", "svs", "lime", "dl", "retain", "fit", "extrmask", "random"}
    assert names | {"nested", "paper"} <= set(method_names())


def test_reference_data_must_fit() -> None:
    with (
        background(torch.randn(5, 4, 3)),
        pytest.raises(ValueError, match="reference data with 2 channels, but got 3"),
    ):
        explain(build_model("gru", 2, 2, hidden=4), torch.randn(2, 4, 2), method="afo", progress=False)
    with pytest.raises(ValueError, match="Expected finite reference data"), background(np.zeros((2, 3))):
        pass

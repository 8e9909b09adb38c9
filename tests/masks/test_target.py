"""What is explained: a class, a step, a horizon, a value, or a score of one's own."""

import numpy as np
import pytest
import torch
from departures import departure_of
from networks import sequences
from torch import Tensor
from white_boxes import danger, risk_below_one_half

from dynamask_mlflow import Masks, explain
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.target import TargetScore, open_target
from dynamask_mlflow.masks.target_spec import Target, parse_target

FORMS = r'Expected a target of the form "auto", a class \(index or name\)'


def scored(
    target: object, outputs: Tensor, task: str = "classification", baseline: Tensor | None = None
) -> TargetScore:
    black_box = BlackBox(lambda x: x, task, "logits" if task == "classification" else "values")
    return open_target(
        parse_target(target), black_box, outputs, torch.zeros_like(outputs) if baseline is None else baseline
    )


@pytest.mark.parametrize(
    ("target", "read"),
    [
        ("auto", Target()),
        (2, Target("class:2", output=2)),
        ("class:1", Target("class:1", output=1)),
        ("step:5", Target("step:5", step=5)),
        ("step:5, class:1", Target("step:5,class:1", output=1, step=5)),
        ("horizon:2", Target("horizon:2", step=2)),
        ("septic", Target("class:1", output=1)),
    ],
)
def test_targets_are_read(target: object, read: Target) -> None:
    assert parse_target(target, ("stable", "septic")) == read
    assert parse_target(read) is read
    assert read.is_auto == (target == "auto")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (-1, "Expected a class of at least 0, but got -1"),
        (True, f"{FORMS}.*but got True"),
        (1.5, f"{FORMS}.*but got 1.5"),
        (None, f"{FORMS}.*but got None"),
        ("class", f"{FORMS}.*but got 'class'"),
        ("step:-1", f"{FORMS}.*but got 'step:-1'"),
        ("step:1;class:2", f"{FORMS}.*but got"),
        ("sepsis", r"but got 'sepsis'\. Known class names: stable, septic\."),
    ],
)
def test_wrong_targets_are_answered_with_the_forms_that_exist(target: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain(lambda x: x[:, 0], sequences(1), target=target, class_names=("stable", "septic"), progress=False)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (3, "Expected a target class or output below 3, but got 'class:3'"),
        ("step:10", "Expected a target step below 10, but got 'step:10'"),
    ],
)
def test_targets_beyond_the_models_output_are_refused(target: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain(lambda x: x[..., :3], sequences(1), target=target, progress=False)


def test_one_of_several_classes_is_its_logit_minus_the_mean_of_the_others() -> None:
    outputs = torch.tensor([[[1.0, 5.0, 2.0, 0.0]], [[4.0, 1.0, 3.0, 2.0]]])
    score = scored("auto", outputs)
    # 5 - (1 + 2 + 0) / 3 = 4, and 4 - (1 + 3 + 2) / 3 = 2.
    torch.testing.assert_close(score.of_outputs(outputs), torch.tensor([4.0, 2.0]))
    assert score.chosen.tolist() == [1, 0]
    other = scored(2, outputs)
    # 2 - (1 + 5 + 0) / 3 = 0, and 3 - (4 + 1 + 2) / 3 = 2/3.
    torch.testing.assert_close(other.of_outputs(outputs), torch.tensor([0.0, 2 / 3]))
    assert other.for_answer.tolist() == [-1, -1]


def test_a_class_that_replaced_another_is_explained_against_that_one() -> None:
    """Class 1 rose by 1 and replaced class 3, which fell by 5; classes 0 and 2, of no chance, rose by 4 and 6."""

    def moved(outputs: Tensor, usual: Tensor) -> float:
        score = open_target(parse_target("auto"), BlackBox(explain, "classification", "logits"), outputs, usual)
        return float(score.of_outputs(outputs) - score.of_outputs(usual))

    outputs, usual = torch.tensor([[[-3.0, 5.0, -5.0, 0.0]]]), torch.tensor([[[-7.0, 4.0, -11.0, 5.0]]])
    # Against the mean of the others it fell: 1 - (4 + 6 - 5) / 3 = -2/3.
    assert moved(outputs, usual) == pytest.approx(6, abs=1e-3)
    # A class that the baselines have, too, may well be lowered: -4 - 5/3.
    usual[0, 0, 1] = 9.0
    assert moved(outputs, usual) == pytest.approx(-17 / 3)


def test_a_binary_risk_is_its_logit_whichever_class_is_predicted() -> None:
    outputs = torch.tensor([[[0.0, 3.0]], [[0.0, -3.0]]])
    score = scored("auto", outputs)
    assert score.of_outputs(outputs).tolist() == [3, -3]
    assert score.chosen.tolist() == [1, 1]
    assert score.for_answer.tolist() == [1, -1]
    assert scored(0, outputs).of_outputs(outputs).tolist() == [-3, 3]


@pytest.mark.parametrize("one_output", [True, False])
def test_a_raised_risk_is_raised_below_and_above_one_half(one_output: bool) -> None:
    nature = risk_below_one_half()
    x = torch.cat([nature.x, nature.x.clone()])
    x[6:, :, 0] -= 1.5

    def model(z: Tensor) -> Tensor:
        return danger(z) if one_output else torch.stack([0 * danger(z), danger(z)], 1)

    masks = explain(model, x, progress=False)
    assert (masks.diagnostics["answer"][:6] < 0).all()
    assert (masks.diagnostics["answer"][6:] > 0).all()
    assert masks.direction.tolist() == [1] * 12
    np.testing.assert_allclose(masks.diagnostics["answer"], danger(x).numpy(), rtol=1e-5)


def test_a_lowered_risk_is_lowered_below_and_above_one_half() -> None:
    nature = risk_below_one_half()
    for shift in (0.0, 5.0):
        masks = explain(lambda z, shift=shift: shift - danger(z), nature.x, progress=False)
        assert masks.direction.tolist() == [-1] * 6
        assert (masks.attributions[nature.truth] < 0).all()


def test_a_step_of_answers_at_every_step_rests_on_the_cells_it_can_see() -> None:
    def running(x: Tensor) -> Tensor:
        total = x[:, :, 1].cumsum(1)
        return torch.stack([torch.zeros_like(total), total], -1)

    x = sequences(3, 12, 4)
    masks = explain(running, x, target="step:5", progress=False)
    assert masks.target == "step:5"
    assert (masks.attributions[:, 6:] == 0).all()
    np.testing.assert_allclose(masks.diagnostics["answer"], x[:, :6, 1].sum(1), rtol=1e-5)
    both = explain(running, x, target="step:5,class:0", progress=False)
    np.testing.assert_allclose(both.attributions, -masks.attributions, atol=1e-6)


def test_a_class_of_answers_at_every_step_is_summed_over_the_steps() -> None:
    x = sequences(2, 6, 3)
    masks = explain(lambda z: z, x, target="class:2", progress=False)
    expected = (x[..., 2] - x[..., :2].mean(-1)).sum(1)
    np.testing.assert_allclose(masks.diagnostics["answer"], expected, rtol=1e-4, atol=1e-5)


def test_a_horizon_is_one_of_the_values() -> None:
    x = sequences(3, 12, 4)

    def horizons(z: Tensor) -> Tensor:
        return torch.stack([z[:, 2:4, 0].sum(1), z[:, 5:9, 1].sum(1)], 1)

    for place, channel in enumerate((0, 1)):
        masks = explain(horizons, x, task="regression", target=f"horizon:{place}", progress=False)
        np.testing.assert_allclose(masks.diagnostics["answer"], horizons(x)[:, place], rtol=1e-5)
        others = [c for c in range(4) if c != channel]
        assert (masks.attributions[:, :, others] == 0).all()
    with pytest.raises(ValueError, match="Expected a target class or output below 2, but got 'horizon:2'"):
        explain(horizons, x, task="regression", target="horizon:2", progress=False)


def test_several_values_are_explained_along_the_way_from_their_reference_answer() -> None:
    """The way is (3, 4) of length 5: the answer lies at (3 * 4 + 4 * 6) / 5 = 7.2 on it, its reference 5 before."""
    outputs, baseline = torch.tensor([[[4.0, 6.0]]]), torch.tensor([[[1.0, 2.0]]])
    score = scored("auto", outputs, "regression", baseline)
    assert score.of_outputs(outputs).item() == pytest.approx(7.2)
    assert score.of_outputs(baseline).item() == pytest.approx(2.2)
    assert score.chosen.tolist() == [-1]


def test_a_score_of_ones_own() -> None:
    x = sequences(3, 10, 4)

    def contrast(output: Tensor) -> Tensor:
        return output[:, 2] - output[:, 0]

    masks = explain(lambda z: z[:, 4:6].sum(1), x, target=contrast, progress=False)
    assert masks.target == f"callable:{contrast.__qualname__}"
    np.testing.assert_allclose(masks.diagnostics["answer"], (x[:, 4:6, 2] - x[:, 4:6, 0]).sum(1), rtol=1e-5)
    assert (masks.attributions[:, :, [1, 3]] == 0).all()


def test_a_class_by_name_is_stored_by_its_index() -> None:
    x = sequences(2)
    named = explain(lambda z: z[:, 0, :3], x, target="b", class_names=["a", "b", "c"], progress=False)
    indexed = explain(lambda z: z[:, 0, :3], x, target=1, progress=False)
    assert named.target == indexed.target == "class:1"
    np.testing.assert_array_equal(named.attributions, indexed.attributions)


def test_masks_of_different_targets_cannot_be_joined() -> None:
    x = sequences(2)
    one, other = (explain(lambda z: z[:, 0, :3], x, target=target, progress=False) for target in (0, 1))
    with pytest.raises(ValueError, match="one target, but they differ in target"):
        Masks.concatenate([one, other])
    assert len(Masks.concatenate([one, one[:1]])) == 3


def test_some_instances_of_a_target_are_the_target_of_some_instances() -> None:
    x = sequences(5, 6, 3)
    departure = departure_of(lambda z: z[:, 0], x, target="auto")
    rows = torch.tensor([3, 1])
    torch.testing.assert_close(departure.target.rows(rows)(x[rows]), departure.target(x)[rows])

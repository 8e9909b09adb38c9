"""The fit runs anywhere. The meta device computes nothing, and refuses every copy to the host."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from networks import Recurrent
from torch import Tensor, nn

from dynamask_mlflow.masks import every_step, forward_answer, nested_contestant, soft_masks
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.change import contributions
from dynamask_mlflow.masks.change.explain_change import _measure, _States
from dynamask_mlflow.masks.change.question import Question
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.explain import explain
from dynamask_mlflow.masks.forward_search import SegmentsFound
from dynamask_mlflow.masks.operators import Batch
from dynamask_mlflow.masks.registry import find_method

META = torch.device("meta")
STEPS, CHANNELS = 4, 2


@pytest.fixture(autouse=True)
def fewer_steps_of_the_same_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meta device takes about a millisecond for what others do in a microsecond."""
    monkeypatch.setattr(nested_contestant, "STEPS", 2)
    monkeypatch.setattr(soft_masks, "_SOLVER_STEPS", 2)
    monkeypatch.setattr(every_step, "USUAL", replace(every_step.USUAL, levels=1, class_levels=1, widths=(0.0, 1.0)))


class Filter(nn.Module):
    """A convolution, which the meta device passes through faster than a recurrent layer."""

    def __init__(self, per_step: bool) -> None:
        super().__init__()
        self.convolution, self.per_step = nn.Conv1d(CHANNELS, 2, 3, padding=1), per_step

    def forward(self, x: Tensor) -> Tensor:
        states = self.convolution(x.transpose(1, 2)).transpose(1, 2)
        return states if self.per_step else states.mean(1)


def on_meta(
    model: nn.Module, method: str = "nested", *, padded: bool, reference: bool = False, **options: object
) -> None:
    model = model.to(META).requires_grad_(False)
    x = torch.empty(5, STEPS, CHANNELS, device=META)
    exists = torch.ones(x.shape, dtype=torch.bool, device=META) if padded else None
    others = torch.empty(3, STEPS, CHANNELS, device=META) if reference else None
    batch = Batch(x, exists, torch.arange(5, device=META), Draws(0, STEPS, CHANNELS, META), others)
    config = ExplainConfig(method=method, steps=2, **options)  # type: ignore[arg-type]
    fitted = find_method(method)(BlackBox(model, "classification", "logits"), batch, config, lambda: None)
    for values in (fitted.masks, fitted.scores, fitted.attributions, fitted.binary, fitted.spread):
        assert values is None or (values.device == META and values.shape == x.shape)
    assert all(values.device == META for values in fitted.diagnostics.values())


@pytest.mark.parametrize("padded", [False, True])
def test_one_answer_never_waits_for_the_device(padded: bool) -> None:
    on_meta(Filter(per_step=False), padded=padded)


@pytest.mark.parametrize("options", [{"target": "class:1", "area": 0.2}, {"area": "extremal", "reference": True}])
def test_nor_does_it_with_a_target_a_reference_or_an_area(options: dict[str, object]) -> None:
    on_meta(Filter(per_step=False), padded=False, fast=True, **options)  # type: ignore[arg-type]


def test_nor_does_a_step_as_the_target() -> None:
    on_meta(Filter(per_step=True), padded=False, fast=True, target="step:2")


@pytest.mark.parametrize("padded", [False, True])
def test_answers_at_every_step_never_wait_for_the_device(padded: bool) -> None:
    on_meta(Filter(per_step=True), padded=padded, time_weight=0.5)


@pytest.mark.parametrize("per_step", [False, True])
def test_deletion_never_waits_for_the_device(per_step: bool) -> None:
    on_meta(Filter(per_step=per_step), padded=True, deletion=True)


@pytest.mark.parametrize("deletion", [False, True])
@pytest.mark.parametrize("per_step", [False, True])
def test_algorithm_1_never_waits_for_the_device(deletion: bool, per_step: bool) -> None:
    on_meta(Filter(per_step=per_step), "paper", padded=True, deletion=deletion, time_weight=0.5)


def test_recurrent_layers_do_not_make_it_wait() -> None:
    on_meta(Recurrent(CHANNELS), padded=True, fast=True)


def test_forward_passes_alone_wait_only_in_the_search_which_decides_on_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells, passes = torch.empty(5, STEPS, CHANNELS, device=META), torch.empty(5, device=META)
    found = SegmentsFound(cells, cells, cells > 0, passes)
    monkeypatch.setattr(forward_answer, "search_segments", lambda *_: found)
    on_meta(Filter(per_step=False), "forward", padded=True)


def test_contributions_to_a_change_wait_only_to_ask_whether_the_integral_has_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contributions, "MOST_LEVELS", 0)
    x = torch.zeros(5, STEPS, CHANNELS)
    model = Filter(per_step=False)
    ends = np.full(5, STEPS)
    question = Question.open(model, x, "carry", ends, {"task": "classification", "output": "logits"})
    box = BlackBox(model.to(META).requires_grad_(False), "classification", "logits")
    states = _States(x, x, np.full(5, 2), STEPS, np.ones((5, STEPS), dtype=bool))
    measured = _measure(question, box, states, META)
    assert {values.device for values in vars(measured).values()} == {META}
    assert measured.contributions.shape == x.shape


def test_a_compiled_network_has_the_masks_of_the_network_itself() -> None:
    torch.manual_seed(0)
    network, x = Filter(per_step=False).eval(), torch.randn(3, STEPS, CHANNELS)
    plain = explain(network, x, fast=True, progress=False)
    compiled = explain(torch.compile(network, backend="eager"), x, fast=True, progress=False)
    assert (plain.masks == compiled.masks).all()
    assert (plain.attributions == compiled.attributions).all()


def test_a_copy_to_the_host_would_be_noticed() -> None:
    with pytest.raises((NotImplementedError, RuntimeError)):
        torch.empty(1, device=META).item()

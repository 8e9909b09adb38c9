"""The fit runs anywhere. The meta device computes nothing, and refuses every copy to the host."""

import pytest
import torch
from networks import Recurrent
from torch import Tensor, nn

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.operators import Batch
from dynamask_mlflow.masks.registry import find_method

META = torch.device("meta")
STEPS = 6


class Filter(nn.Module):
    """A convolution, which the meta device passes through faster than a recurrent layer."""

    def __init__(self, per_step: bool) -> None:
        super().__init__()
        self.convolution, self.per_step = nn.Conv1d(4, 2, 3, padding=1), per_step

    def forward(self, x: Tensor) -> Tensor:
        states = self.convolution(x.transpose(1, 2)).transpose(1, 2)
        return states if self.per_step else states.mean(1)


def on_meta(
    method: str,
    *,
    per_step: bool,
    padded: bool,
    reference: bool = False,
    build: type[nn.Module] = Filter,
    **options: object,
) -> None:
    model = build(per_step=per_step).to(META).requires_grad_(False)
    x = torch.empty(5, STEPS, 4, device=META)
    exists = torch.ones(5, STEPS, 4, dtype=torch.bool, device=META) if padded else None
    others = torch.empty(3, STEPS, 4, device=META) if reference else None
    batch = Batch(x, exists, torch.arange(5, device=META), Draws(0, STEPS, 4, META), others)
    config = ExplainConfig(method=method, steps=2, **options)  # type: ignore[arg-type]
    fitted = find_method(method)(BlackBox(model, "classification", "logits"), batch, config, lambda: None)
    for values in (fitted.masks, fitted.scores, fitted.attributions, fitted.binary, fitted.spread):
        assert values is None or (values.device == META and values.shape == x.shape)
    assert all(values.device == META for values in fitted.diagnostics.values())


@pytest.mark.parametrize("deletion", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("per_step", [False, True])
def test_the_default_never_waits_for_the_device(deletion: bool, padded: bool, per_step: bool) -> None:
    on_meta("nested", per_step=per_step, padded=padded, deletion=deletion, time_weight=0.5)


@pytest.mark.parametrize("per_step", [False, True])
def test_algorithm_1_never_waits_for_the_device(per_step: bool) -> None:
    on_meta("paper", per_step=per_step, padded=True)


@pytest.mark.parametrize(
    "options", [{"target": "class:1"}, {"fast": True}, {"area": 0.2}, {"area": "extremal"}, {"reference": True}]
)
def test_nor_does_it_with_a_target_a_reference_or_an_area(options: dict[str, object]) -> None:
    on_meta("nested", per_step=False, padded=False, **options)  # type: ignore[arg-type]


def test_a_step_as_the_target_does_not_wait_either() -> None:
    on_meta("nested", per_step=True, padded=False, target="step:2")


@pytest.mark.parametrize("per_step", [False, True])
def test_recurrent_layers_do_not_make_it_wait(per_step: bool) -> None:
    on_meta("nested", per_step=per_step, padded=True, fast=True, build=Recurrent)


def test_a_copy_to_the_host_would_be_noticed() -> None:
    with pytest.raises((NotImplementedError, RuntimeError)):
        torch.empty(1, device=META).item()

"""The fit runs anywhere. The meta device computes nothing, and refuses every copy to the host."""

import pytest
import torch
from networks import Recurrent

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.operators import Batch
from dynamask_mlflow.masks.registry import find_method

META = torch.device("meta")


@pytest.mark.parametrize("method", ["nested", "paper"])
@pytest.mark.parametrize("deletion", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("per_step", [False, True])
def test_the_fit_never_waits_for_the_device(method: str, deletion: bool, padded: bool, per_step: bool) -> None:
    model = Recurrent(per_step=per_step).to(META).requires_grad_(False)
    x = torch.empty(5, 10, 4, device=META)
    exists = torch.ones(5, 10, 4, dtype=torch.bool, device=META) if padded else None
    batch = Batch(x, exists, torch.arange(5, device=META), Draws(0, 10, 4, META))
    config = ExplainConfig(method=method, deletion=deletion, steps=2, time_weight=0.5)
    fitted = find_method(method)(BlackBox(model, "classification", "logits"), batch, config, lambda: None)
    assert fitted.masks.device == META
    assert fitted.masks.shape == x.shape


def test_a_copy_to_the_host_would_be_noticed() -> None:
    with pytest.raises((NotImplementedError, RuntimeError)):
        torch.empty(1, device=META).item()

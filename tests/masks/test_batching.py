"""Several questions about few instances share a call of the model."""

import numpy as np
import pytest
import torch
from networks import Recurrent
from torch import Tensor, nn

from dynamask_mlflow import explain
from dynamask_mlflow.masks import batching
from dynamask_mlflow.masks.batching import batch_size, in_batches
from dynamask_mlflow.masks.black_box import BlackBox


class Counted(nn.Module):
    """Notes the number of rows of every call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.rows = model, []

    def forward(self, x: Tensor) -> Tensor:
        self.rows.append(len(x))
        return self.model(x)


def recurrent() -> Recurrent:
    torch.manual_seed(0)
    return Recurrent(3)


def test_one_instance_takes_few_calls_of_many_rows() -> None:
    model = Counted(recurrent())
    explain(model, torch.randn(1, 20, 3), progress=False)
    assert len(model.rows) < 60
    assert max(model.rows) > 64


def test_no_call_has_more_rows_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_MOST_AT_ONCE_ON_CPU", 64)
    monkeypatch.setattr(batching, "_MOST_ON_CPU", 16)
    model = Counted(recurrent())
    explain(model, torch.randn(20, 20, 3), progress=False)
    assert max(model.rows) == 64


def test_masks_do_not_depend_on_how_many_questions_share_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(11, 20, 3, generator=torch.Generator().manual_seed(1))
    together = explain(recurrent(), x, progress=False)
    monkeypatch.setattr(batching, "_MOST_AT_ONCE_ON_CPU", 1)
    alone = explain(recurrent(), x, progress=False)
    np.testing.assert_allclose(together.masks, alone.masks, atol=1e-5)
    np.testing.assert_array_equal(together.binary, alone.binary)
    np.testing.assert_allclose(together.attributions, alone.attributions, atol=1e-5)


def test_a_call_has_at_least_the_rows_of_a_batch() -> None:
    black_box = BlackBox(recurrent(), "classification", "logits")
    most = batch_size(black_box.model, black_box, torch.randn(1, 20, 3), budget=1)
    assert most == (batching.LEAST, batching.LEAST)
    assert batch_size(black_box.model, black_box, torch.randn(1, 20, 3), budget=2**30) == (128, 256)


def test_what_runs_out_of_memory_is_halved() -> None:
    sizes = []

    def fit(part: slice, size: int) -> int:
        sizes.append(size)
        if size > 4:
            raise MemoryError
        return part.stop - part.start

    assert list(in_batches(10, 16, fit)) == [2] * 5
    assert sizes == [16, 5, *[2] * 5]


def test_the_bytes_of_one_instance_are_not_those_of_a_filled_call() -> None:
    model, x = recurrent(), torch.randn(1, 20, 3)
    black_box = BlackBox(model, "classification", "logits")
    each = batching.activation_bytes(model, black_box, x)
    assert 20 * 12 * 4 < each < 20 * 12 * 4 * 40


def test_a_call_of_few_rows_is_filled_up_and_cut_again() -> None:
    model = Counted(recurrent()).eval()
    black_box = BlackBox(model, "classification", "logits")
    x = torch.randn(3, 20, 3)
    assert torch.equal(black_box(x), model.model(torch.cat([x, x[-1:].expand(13, -1, -1)]))[:3, None])
    black_box.with_model(model, rows_at_once=4)(x)
    assert model.rows == [16, 4]

"""How many instances fit into one batch, and what to do when they did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from dynamask_mlflow.masks.adapted_model import Model
from dynamask_mlflow.masks.black_box import BlackBox

# Larger batches do not run faster on a CPU, they only leave its caches.
_MOST_ON_CPU = 128
_MOST_AT_ONCE_ON_CPU = 256
_MOST = 4096
# In batches of a multiple of eight rows, sums over the cells of a row have the same bits whatever the others are.
LEAST = 8
_ENGINE_TENSORS = 48

_Part = TypeVar("_Part")


def activation_bytes(model: Model, black_box: BlackBox, x: Tensor) -> int:
    """Bytes that autograd keeps for one instance between forward and backward, weights not counted."""
    weights = {p.data_ptr() for p in model.parameters()} if isinstance(model, nn.Module) else set()
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            seen[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    probe = x[:1].detach().expand(2, -1, -1).clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        outputs = black_box.with_model(black_box.model, rows_at_once=1)(probe)
    del outputs
    return sum(seen.values()) // 2


class BatchSize(NamedTuple):
    """Instances a batch, and rows a call of the model: several questions about few instances share a call."""

    instances: int
    rows: int


def batch_size(model: Model, black_box: BlackBox, x: Tensor, budget: int, replicas: int = 1) -> BatchSize:
    """What fits into the budget; `replicas` copies of each instance are fitted side by side."""
    cells = x.shape[1] * x.shape[2]
    each = activation_bytes(model, black_box, x) + _ENGINE_TENSORS * cells * x.element_size()
    on_cpu = x.device.type == "cpu"
    most = _MOST_ON_CPU if on_cpu else _MOST
    size = int(max(LEAST, min(budget // (each * replicas), most // replicas)))
    return BatchSize(size, int(max(size, min(budget // each, _MOST_AT_ONCE_ON_CPU if on_cpu else _MOST))))


def added_up(values: Tensor) -> Tensor:
    """The sum over the first axis, one after the other.

    In torch's own sum of more than two of them the order, and with it the last bits, depends on where a column lies.
    """
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
    )


def in_batches(total: int, size: int, fit: Callable[[slice, int], _Part]) -> Iterator[_Part]:
    """Fit slice after slice of at most `size` instances; what runs out of memory is halved and tried again.

    `fit` is told the size of the time, by which it limits its own calls of the model.
    """
    start = 0
    while start < total:
        stop = min(total, start + size)
        try:
            part = fit(slice(start, stop), size)
        except Exception as error:
            if not out_of_memory(error) or size == 1:
                raise
            size = max(1, min(size, max(stop - start, LEAST)) // 2)
            _free_memory()
            continue
        yield part
        start = stop


def _free_memory() -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()

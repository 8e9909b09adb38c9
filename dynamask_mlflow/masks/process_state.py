"""Leave the caller's process as it was found: random numbers, defaults of torch, warnings, environment, the model."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow._threads import one_thread


@contextmanager
def untouched_process(model: object = None) -> Iterator[None]:
    """Restore afterwards, also after an error or an interrupt, whatever the block or a network's forward changes:

    the states of random, numpy's and torch's generators; torch's default dtype, number of threads, gradient mode and
    determinism; warnings filters; environment variables; and of a torch module its training flags, buffers and tensors
    (also those written in forward, such as a hidden state that it keeps), gradients and `requires_grad`.

    One thread at a time is in such a block: another would take the state in between for the one to be restored, and
    its answers would come from a network that is held in another mode.
    """
    with one_thread(), ExitStack() as undo:
        undo.enter_context(warnings.catch_warnings())
        undo.callback(_restore_environment, dict(os.environ))
        undo.callback(_restore_torch, *_torch_state())
        undo.callback(random.setstate, random.getstate())
        undo.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        undo.callback(torch.set_rng_state, torch.get_rng_state())
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            undo.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        if isinstance(model, nn.Module):
            undo.callback(_restore_module, *_module_state(model))
        yield


def _torch_state() -> tuple[torch.dtype, int, bool, bool]:
    return (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
    )


def _restore_torch(dtype: torch.dtype, threads: int, gradients: bool, deterministic: bool) -> None:
    now = _torch_state()
    if now[0] != dtype:
        torch.set_default_dtype(dtype)
    if now[1] != threads:
        torch.set_num_threads(threads)
    if now[2] != gradients:
        torch.set_grad_enabled(gradients)
    if now[3] != deterministic:
        torch.use_deterministic_algorithms(deterministic)


def _restore_environment(before: dict[str, str]) -> None:
    for name in set(os.environ) - set(before):
        os.environ.pop(name, None)
    for name, value in before.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


_Flags = list[tuple[nn.Module, bool]]
_Buffers = list[tuple[nn.Module, str, Tensor | None, Tensor | None]]
_Kept = list[tuple[nn.Module, dict[str, Any]]]
_Parameters = list[tuple[nn.Parameter, bool, Tensor | None, Tensor | None]]


def _module_state(model: nn.Module) -> tuple[_Flags, _Buffers, _Kept, _Parameters]:
    flags = [(module, module.training) for module in model.modules()]
    buffers = [
        (module, name, buffer, None if buffer is None else buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
    ]
    kept = [(module, dict(vars(module))) for module in model.modules()]
    parameters = [
        (p, p.requires_grad, p.grad, None if p.grad is None else p.grad.detach().clone()) for p in model.parameters()
    ]
    return flags, buffers, kept, parameters


def _holds_tensors(value: Any) -> bool:
    """Whether an attribute is a tensor or several, but none of the module's own weights."""
    tensors = value if isinstance(value, tuple | list) and len(value) else (value,)
    return all(isinstance(item, Tensor) and not isinstance(item, nn.Parameter) for item in tensors)


def _restore_module(flags: _Flags, buffers: _Buffers, kept: _Kept, parameters: _Parameters) -> None:
    for module, training in flags:
        module.training = training
    for module, name, buffer, value in buffers:
        if module._buffers.get(name) is not buffer:
            module._buffers[name] = buffer
        _write_back(buffer, value)
    for module, before in kept:
        for name, value in list(vars(module).items()):
            if value is before.get(name) or not _holds_tensors(value):
                continue
            if name in before:
                setattr(module, name, before[name])
            else:
                delattr(module, name)
    for parameter, requires_grad, gradient, value in parameters:
        if parameter.requires_grad != requires_grad:
            parameter.requires_grad_(requires_grad)
        if parameter.grad is not gradient:
            parameter.grad = gradient
        _write_back(gradient, value)


def _write_back(tensor: Tensor | None, value: Any) -> None:
    if tensor is None or value is None or tensor.is_meta:
        return
    if tensor.shape != value.shape or tensor.dtype != value.dtype or tensor.device != value.device:
        tensor.data = value
    elif not torch.equal(tensor, value):
        with torch.no_grad():
            tensor.copy_(value)
